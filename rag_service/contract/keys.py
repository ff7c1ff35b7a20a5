"""API keys, as requests and responses show them. A key itself is shown once, when it is created."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from rag_service.contract.id_patterns import COLLECTION
from rag_service.contract.json_body import RequestBody, ResponseBody

Role = Literal["reader", "editor", "admin"]
"""From the weakest to the strongest; each role includes those before it."""
NAME_CHARS = 100
"""Longest name of a key, in characters."""
MOST_COLLECTIONS_OF_A_KEY = 1000

_Name = Annotated[str, Field(pattern=COLLECTION)]


class CreateKey(RequestBody):
    name: str = Field(min_length=1, max_length=NAME_CHARS, description="What the key is for: printable characters.")
    person: _Name | None = Field(
        default=None,
        description="Person of the tenant whose sessions and answers it opens. Default: derived from the name.",
    )
    role: Role = "editor"
    collections: Annotated[list[_Name], Field(min_length=1, max_length=MOST_COLLECTIONS_OF_A_KEY)] | None = Field(
        default=None, description="The only collections it can access. Default: all that your own key can access."
    )


class KeyInfo(ResponseBody):
    id: str
    name: str
    person: str = Field(description="Empty for keys of earlier versions, which have no person.")
    role: Role
    collections: list[str] | None = Field(description="The only collections it can access; null for all.")
    created: float
    expires: float | None = Field(
        default=None, description="Unix time, seconds, from which on it is not valid; null for never."
    )
    issuer: str | None = Field(
        default=None, description="The OpenID provider whose sign-in it stands for; null for a key that was created."
    )


class CreatedKey(KeyInfo):
    key: str = Field(description="The key itself, which is shown only now.")


class KeyList(ResponseBody):
    keys: list[KeyInfo]
