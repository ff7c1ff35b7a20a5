"""The OpenID provider over HTTP: its metadata and keys, which are kept for a while, its tokens and its user info.

Nothing is requested before somebody signs in. OpenID Connect Discovery 1.0; OpenID Connect Core 1.0, sections 3.1 and
5.3. Knows HTTP requests; knows no sign-ins and no rights.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import quote, urlencode

import httpx

from rag_service.access.oidc import id_token
from rag_service.access.oidc.attempt import Attempt
from rag_service.access.oidc.id_token import Claims, Jwk, UnknownSigningKey
from rag_service.access.oidc.refusal import SignInRefused
from rag_service.access.oidc.rights import claim
from rag_service.oidc_settings import Oidc, is_safe

KEPT_S = 3600
"""Seconds for which metadata and keys are kept; a token with an unknown key has them read at once."""
_TIMEOUT_S = 10.0
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")


class Provider:
    """The provider of the settings, whose `issuer` and `client_id` are set.

    Raises:
        InvalidSettings: the file with the client's secret cannot be read.
    """

    def __init__(self, settings: Oidc) -> None:
        assert settings.issuer is not None
        assert settings.client_id is not None
        self.settings = settings
        self.issuer, self._client_id = settings.issuer, settings.client_id
        self._secret = settings.secret
        self._metadata: dict[str, Any] = {}
        self._jwks: list[Jwk] = []
        self._read_at = float("-inf")

    async def authorization_url(self, attempt: Attempt, redirect_uri: str) -> str:
        """Where a browser goes to sign in. Raises SignInRefused."""
        metadata = await self._current()
        query = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": redirect_uri,
            "scope": self.settings.scopes,
            "state": attempt.state,
            "nonce": attempt.nonce,
            "code_challenge": attempt.code_challenge,
            "code_challenge_method": "S256",
        }
        return _with_query(str(metadata["authorization_endpoint"]), query)

    async def sign_out_url(self) -> str | None:
        """Where a browser goes to sign out at the provider, too; None if it has no such place. Raises SignInRefused.

        OpenID Connect RP-Initiated Logout 1.0, without the token that would spare people the question whether they want
        to: links of other sites lead there as well.
        """
        endpoint = (await self._current()).get("end_session_endpoint")
        return _with_query(str(endpoint), {"client_id": self._client_id}) if is_safe(endpoint) else None

    async def check_issuer(self, iss: str | None) -> None:
        """Check who says that it sent the browser back (RFC 9207). Raises SignInRefused."""
        metadata = await self._current()
        named = iss is not None or metadata.get("authorization_response_iss_parameter_supported") is True
        if named and iss != self.issuer:
            raise SignInRefused("invalid_reply", "a browser came back from another issuer than RAG_OIDC__ISSUER")

    async def claims(self, code: str, attempt: Attempt, redirect_uri: str) -> Claims:
        """The claims of the person for whom the provider gave a code, verified. Raises SignInRefused."""
        tokens = await self._tokens(code, attempt, redirect_uri)
        token = tokens.get("id_token")
        if not isinstance(token, str):
            raise SignInRefused("invalid_reply", "the provider sent no ID token; RAG_OIDC__SCOPES must contain openid")
        try:
            claims = self._verified(token, attempt)
        except UnknownSigningKey:
            await self.read()
            claims = self._verified(token, attempt)
        return await self._with_user_info(claims, tokens.get("access_token"))

    def _verified(self, token: str, attempt: Attempt) -> Claims:
        return id_token.verified(token, self._jwks, issuer=self.issuer, client_id=self._client_id, nonce=attempt.nonce)

    async def _tokens(self, code: str, attempt: Attempt, redirect_uri: str) -> dict[str, Any]:
        metadata = await self._current()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": redirect_uri,
            "code_verifier": attempt.code_verifier,
        }
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        auth: httpx.BasicAuth | None = None
        if self._secret is None:
            form["client_id"] = self._client_id
        elif "client_secret_basic" in methods or "client_secret_post" not in methods:
            name, secret = (quote(text, safe="") for text in (self._client_id, self._secret))
            auth = httpx.BasicAuth(name, secret)  # RFC 6749, section 2.3.1
        else:
            form |= {"client_id": self._client_id, "client_secret": self._secret}
        status, reply = await self._sent("POST", str(metadata["token_endpoint"]), data=form, auth=auth)
        if status != 200:
            raise SignInRefused("refused", _refused(status, reply, redirect_uri))
        return reply

    async def _with_user_info(self, claims: Claims, access_token: object) -> Claims:
        """The claims with those that the provider tells at its user info endpoint only, if the settings need these."""
        settings, endpoint = self.settings, self._metadata.get("userinfo_endpoint")
        wanted = (settings.roles_claim, settings.tenant_claim, "name")
        missing = any(name is not None and claim(claims, name) is None for name in wanted)
        if not missing or not is_safe(endpoint) or not isinstance(access_token, str) or not access_token.isascii():
            return claims
        headers = {"Authorization": f"Bearer {access_token}"}
        status, told = await self._sent("GET", str(endpoint), headers=headers)
        if status != 200:  # such as a reply that is signed and no JSON
            return claims
        if told.get("sub") != claims["sub"]:
            raise SignInRefused("invalid_reply", "the provider's user info is of another person than its ID token")
        return {**told, **claims}

    async def _current(self) -> dict[str, Any]:
        if time.monotonic() - self._read_at > KEPT_S:
            await self.read()
        return self._metadata

    async def read(self) -> tuple[dict[str, Any], list[Jwk]]:
        """Read metadata and keys, even if those that are kept are new. Raises SignInRefused."""
        address = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        status, metadata = await self._sent("GET", address)
        if status != 200:
            raise SignInRefused("unreachable", f"{address} answers with status {status}", "check RAG_OIDC__ISSUER")
        if metadata.get("issuer") != self.issuer:
            raise SignInRefused(
                "invalid_reply",
                f"the provider calls itself {str(metadata.get('issuer'))[:200]!r}, not {self.issuer!r}",
                "set RAG_OIDC__ISSUER to exactly its name, if it is the right one",
            )
        if unsafe := [name for name in _ENDPOINTS if not is_safe(metadata.get(name))]:
            raise SignInRefused(
                "invalid_reply",
                f"{address} has no https address as {' and '.join(unsafe)}",
                "let the provider name it there, or check that RAG_OIDC__ISSUER is an OpenID provider",
            )
        status, keys = await self._sent("GET", metadata["jwks_uri"])
        listed = keys.get("keys")
        if status != 200 or not isinstance(listed, list):
            raise SignInRefused(
                "unreachable",
                f"{metadata['jwks_uri']} has no keys (status {status})",
                "let the provider publish the keys that it signs with there",
            )
        self._metadata, self._jwks = metadata, [key for key in listed if isinstance(key, dict)]
        self._read_at = time.monotonic()
        return self._metadata, self._jwks

    async def _sent(self, method: str, url: str, **options: Any) -> tuple[int, dict[str, Any]]:
        """Status and JSON object of a reply, the object empty if it is none. Raises SignInRefused."""
        try:
            async with httpx.AsyncClient(timeout=_TIMEOUT_S, headers={"Accept": "application/json"}) as client:
                reply = await client.request(method, url, **options)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise SignInRefused(
                "unreachable",
                f"the provider does not answer at {url} ({type(error).__name__}: {error})",
                "check RAG_OIDC__ISSUER, and that this machine reaches the provider and trusts its certificate "
                "(SSL_CERT_FILE)",
            ) from None
        try:
            body = reply.json()
        except ValueError:
            body = None
        return reply.status_code, body if isinstance(body, dict) else {}


def _with_query(url: str, query: dict[str, str]) -> str:
    return f"{url}{'&' if '?' in url else '?'}{urlencode(query)}"


def _refused(status: int, reply: dict[str, Any], redirect_uri: str) -> str:
    code, text = (str(reply.get(name) or "")[:200] for name in ("error", "error_description"))
    advice = {
        "invalid_client": "check RAG_OIDC__CLIENT_ID and RAG_OIDC__CLIENT_SECRET",
        "unauthorized_client": "allow this client the authorization code flow at the provider",
        "invalid_grant": f"the code was used before or is too old, or {redirect_uri} is not the address that the "
        "browser went with: set RAG_OIDC__PUBLIC_URL, and let the provider know that address with "
        "/sign-in/oidc/callback",
    }.get(code, "check the client's settings at the provider")
    return f"the provider refused the code with status {status} ({code or 'no reason'}; {text!r}): {advice}"
