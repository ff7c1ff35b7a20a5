"""The principal of a request: a tenant's person with a role, and the collections they can access.

Knows names and roles; knows no keys, no HTTP and no Redis.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import get_args

from rag_service.contract.keys import Role
from retriever.types import DEFAULT_TENANT
from workers.broker import keys

ROLES: tuple[Role, ...] = get_args(Role)
"""From the weakest to the strongest; each role includes those before it."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}", re.ASCII)
"""Pattern of the names of tenants, persons and collections."""
PROVIDERS_PERSON = re.compile(r"oidc-[0-9a-f]{32}", re.ASCII)
"""Pattern of the persons who sign in at an OpenID provider; no admin creates a key for one of them."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The author of a request.

    Attributes:
        tenant: the owner of the collections and jobs they can access.
        person: the owner of the sessions and answers they can access; "" for those of the tenant as a whole.
        role: readers ask, search and read; editors also change collections and documents and cancel jobs; admins may
            do everything.
        collections: the only collections they can access; None for all.
        key: id of the API key that they sent, or a name such as `local` for what is no API key; "" without a key.
    """

    tenant: str = DEFAULT_TENANT
    person: str = ""
    role: Role = "reader"
    collections: frozenset[str] | None = None
    key: str = ""

    @property
    def owner(self) -> str:
        """The owner of their sessions and answers, as in Redis keys."""
        return keys.owner(self.tenant, self.person)

    def may(self, role: Role) -> bool:
        """Whether they have at least this role."""
        return self.role in ROLES[ROLES.index(role) :]

    def sees(self, collection: str) -> bool:
        """Whether they can access a collection of this name."""
        return self.collections is None or collection in self.collections


LOCAL_KEY = "local"
"""What stands for the id of the local key; ids of API keys are hexadecimal."""
LOCAL = Principal(role="admin", key=LOCAL_KEY)
"""The principal of requests with the local key."""
OPERATOR_KEY = "operator"
"""What stands there for `rag keys`, which needs no key."""
SIGNING_IN = Principal(role="reader", collections=frozenset())
"""The principal of a request that signs in or out; the key of it is in its body."""
ANYONE = Principal(role="editor")
"""The principal of requests without a key, if the service is open without one."""
