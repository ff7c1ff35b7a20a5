"""Signing in with a key, as the web page does it: the browser then has a cookie and forgets the key."""

from __future__ import annotations

from pydantic import Field

from rag_service.contract.json_body import RequestBody, ResponseBody
from rag_service.contract.keys import Role


class SignIn(RequestBody):
    key: str = Field(min_length=1, max_length=200, description="An API key, or the local key.")


class SignedIn(ResponseBody):
    """Who sends the request."""

    tenant: str
    person: str = Field(description="Empty for the local key and without a key.")
    role: Role
    collections: list[str] | None = Field(description="The only collections they can access; null for all.")
    key: str = Field(description="Id of the API key; `local` for the local key, empty without a key.")
    key_name: str | None = Field(description="The API key's name; null for the local key and without a key.")
    provider: str | None = Field(
        default=None,
        description="What the OpenID provider is called at which they signed in; `key_name` is their own name then. "
        "Null for a sign-in by key.",
    )
    keeps_originals: bool = Field(
        description="Whether the service keeps the files of documents that are added (`RAG_KEEP_ORIGINALS`)."
    )
