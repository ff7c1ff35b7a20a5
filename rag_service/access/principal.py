"""Who asks, and what they may: a tenant's person with a role, and the collections they see.

Knows names and roles; knows no keys, no HTTP and no Redis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, get_args

from retriever.library import DEFAULT_TENANT
from workers.broker import keys

Role = Literal["reader", "editor", "admin"]
ROLES: tuple[Role, ...] = get_args(Role)
"""From the least to the most: each may what those before it may."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
"""Of tenants, persons and collections."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who a request comes from.

    Attributes:
        tenant: whose collections and jobs they see.
        person: whose sessions and answers they see; "" for those of nobody in particular.
        role: readers ask, search and read; editors also change collections and documents and cancel jobs; admins may
            do everything.
        collections: the only ones that are there for them; None for all.
    """

    tenant: str = DEFAULT_TENANT
    person: str = ""
    role: Role = "reader"
    collections: frozenset[str] | None = None

    @property
    def owner(self) -> str:
        """Whose sessions and answers, as names in Redis have it."""
        return keys.owner(self.tenant, self.person)

    def may(self, role: Role) -> bool:
        """Whether they have at least this role."""
        return self.role in ROLES[ROLES.index(role) :]

    def sees(self, collection: str) -> bool:
        """Whether a collection can be there for them."""
        return self.collections is None or collection in self.collections


LOCAL = Principal(role="admin")
"""Whoever has the local key."""
ANYONE = Principal(role="editor")
"""Whoever reaches a service that is open without a key."""
