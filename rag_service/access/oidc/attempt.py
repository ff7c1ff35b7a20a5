"""An attempt to sign in, from the way to the provider to the way back: its state, nonce and code verifier.

All three are hashes of one random secret and the time, which the browser keeps in a cookie. So nothing is stored for
somebody who has not signed in, and a reply counts only in the browser that asked for it, and only for ten minutes: the
provider returns the state and signs the nonce, and both change with the time in the cookie.

RFC 6749, section 10.12 (state); OpenID Connect Core 1.0, section 3.1.2.1 (nonce); RFC 7636 (code verifier).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

from rag_service.access.oidc.refusal import SignInRefused

LIFETIME_S = 600
"""Seconds that a person may take at the provider."""
_COOKIE = re.compile(r"([0-9]{1,12})\.([A-Za-z0-9_-]{43})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Attempt:
    """An attempt.

    Attributes:
        began: Unix time, whole seconds.
        secret: 256 random bits in base64url.
    """

    began: int
    secret: str

    @classmethod
    def new(cls) -> Attempt:
        return cls(int(time.time()), secrets.token_urlsafe(32))

    @classmethod
    def returned(cls, cookie: str | None, state: str | None) -> Attempt:
        """The attempt of a browser that comes back with this cookie and this state.

        Raises:
            SignInRefused: it began none, another one, or one too long ago.
        """
        match = _COOKIE.fullmatch(cookie or "")
        if match is None or state is None:
            raise SignInRefused("not_begun_here", "a browser came back without the cookie of an attempt, or no state")
        attempt = cls(int(match[1]), match[2])
        if not hmac.compare_digest(attempt.state.encode(), state.encode("utf-8", "replace")):
            raise SignInRefused("not_begun_here", "a browser came back with the state of another attempt")
        if not -60 <= time.time() - attempt.began <= LIFETIME_S:
            raise SignInRefused("not_begun_here", f"a browser came back after more than {LIFETIME_S} seconds")
        return attempt

    @property
    def cookie(self) -> str:
        return f"{self.began}.{self.secret}"

    @property
    def state(self) -> str:
        return self._derived("state")

    @property
    def nonce(self) -> str:
        return self._derived("nonce")

    @property
    def code_verifier(self) -> str:
        return self._derived("code verifier")

    @property
    def code_challenge(self) -> str:
        """By the method S256."""
        return _base64url(hashlib.sha256(self.code_verifier.encode()).digest())

    def _derived(self, purpose: str) -> str:
        return _base64url(hmac.digest(self.secret.encode(), f"{purpose} {self.began}".encode(), "sha256"))


def _base64url(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
