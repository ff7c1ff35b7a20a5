"""The settings of sign-in by OpenID Connect, `RAG_OIDC__NAME`: names, defaults and meanings. Reads no environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator, model_validator

from rag_service.errors import InvalidSettings
from rag_service.setting_sections import Section

_LOOPBACK = ("localhost", "127.0.0.1", "::1")

Role = Literal["reader", "editor", "admin"]
_MAY_BE_EMPTY = (
    "issuer", "client_id", "client_secret", "client_secret_file", "public_url", "tenant_claim", "default_role"
)  # fmt: skip
_Collection = Annotated[str, Field(pattern=r"^(\*|[A-Za-z0-9][A-Za-z0-9_-]{0,63})$")]


class Oidc(Section):
    """Sign-in of the page by an OpenID provider (docs/how-to/sign-in.md)."""

    issuer: str | None = Field(
        default=None,
        description="Address of the OpenID provider, as it names itself: `https://sso.example.org/realms/staff`. Its "
        "`/.well-known/openid-configuration` has the rest. Unset: people sign in with keys alone "
        "(docs/how-to/sign-in.md).",
    )
    client_id: str | None = Field(default=None, description="This service's client id at the provider.")
    client_secret: SecretStr | None = Field(
        default=None, description="Its secret there. Unset, and no file: a public client, which has PKCE alone."
    )
    client_secret_file: Path | None = Field(
        default=None, description="File with this secret, if `RAG_OIDC__CLIENT_SECRET` is unset."
    )
    name: str = Field(
        default="single sign-on",
        min_length=1,
        max_length=60,
        description="What the page calls the provider: “Sign in with …”.",
    )
    public_url: str | None = Field(
        default=None,
        description="Address at which browsers reach the page, such as `https://rag.example.org`. The provider must "
        "know it with `/sign-in/oidc/callback` behind it. Unset: the address of the request.",
    )
    scopes: str = Field(
        default="openid profile email",
        pattern=r"^[!#-\[\]-~]+( [!#-\[\]-~]+)*$",
        description="What the provider is asked for; some send groups only for a scope of their own.",
    )
    tenant: str = Field(
        default="default",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$",
        description="Tenant of everyone who signs in.",
    )
    tenant_claim: str | None = Field(
        default=None,
        description="Claim that names each person's tenant instead; who has none is not admitted. People must not be "
        "able to change it themselves.",
    )
    roles_claim: str = Field(
        default="groups",
        min_length=1,
        description="Claim with a person's groups or roles; dots lead into objects, as in `realm_access.roles`.",
    )
    roles: dict[str, Role] = Field(
        default_factory=dict,
        description='Role of each group here, as JSON: `{"rag-admins": "admin", "staff": "reader"}`. The strongest one '
        "counts.",
    )
    default_role: Role | None = Field(
        default=None, description="Role of those in none of these groups. Unset: they are not admitted."
    )
    collections: dict[str, list[_Collection]] = Field(
        default_factory=dict,
        description='The only collections of each group, as JSON: `{"staff": ["handbook"], "rag-admins": ["*"]}`; `*` '
        "stands for all. Who has none is not admitted. Unset: everyone has all of the tenant.",
    )
    hours: float = Field(
        default=12.0,
        gt=0,
        le=8760,
        description="Hours after which a person has to sign in again. Changes of groups count from then on.",
    )

    @property
    def secret(self) -> str | None:
        """The client's secret, if it has one.

        Raises:
            InvalidSettings: its file cannot be read.
        """
        if self.client_secret is not None or self.client_secret_file is None:
            return None if self.client_secret is None else self.client_secret.get_secret_value()
        try:
            return self.client_secret_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise InvalidSettings(
                f"RAG_OIDC__CLIENT_SECRET_FILE: {self.client_secret_file} cannot be read ({reason}); name a file that "
                "holds the secret."
            ) from None

    @field_validator(*_MAY_BE_EMPTY, mode="before")
    @classmethod
    def _none_if_empty(cls, value: object) -> object:
        return value or None

    @field_validator("issuer", "public_url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        if not url:
            return None
        if not is_safe(url, plain=True) or any(character in url for character in "?#@"):
            raise ValueError("must be an address such as https://sso.example.org, without user, ? and #")
        return url

    @field_validator("issuer")
    @classmethod
    def _is_safe(cls, url: str | None) -> str | None:
        if url is not None and not is_safe(url):
            raise ValueError("must begin with https://; http:// is for a provider on this machine (127.0.0.1) only")
        return url

    @field_validator("public_url")
    @classmethod
    def _without_slash(cls, url: str | None) -> str | None:
        return None if url is None else url.rstrip("/")

    @field_validator("scopes")
    @classmethod
    def _has_openid(cls, scopes: str) -> str:
        if "openid" not in scopes.split():
            raise ValueError("must contain openid")
        return scopes

    @model_validator(mode="after")
    def _complete(self) -> Oidc:
        if self.issuer is None:
            return self
        if self.client_id is None:
            raise ValueError("RAG_OIDC__ISSUER needs RAG_OIDC__CLIENT_ID, this service's client id at the provider")
        if not self.roles and self.default_role is None:
            raise ValueError(
                "RAG_OIDC__ISSUER admits nobody without RAG_OIDC__ROLES, the roles of groups, or RAG_OIDC__DEFAULT_ROLE"
            )
        return self


def is_safe(url: object, *, plain: bool = False) -> bool:
    """Whether a provider's address may be used: https, or http on this machine; with `plain` any of the two."""
    if not isinstance(url, str) or not url.isascii() or not url.isprintable() or " " in url:
        return False
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return False
    if not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and (plain or host in _LOOPBACK))
