"""Why a sign-in by OpenID Connect ends without one: a code for the page, and a sentence for the log.

The page has a text of its own for each code, so that no address can put words into it. Knows no HTTP.
"""

from __future__ import annotations

from typing import Literal

from rag_service.service_error import RagServiceError

Reason = Literal[
    "cancelled", "clocks_differ", "invalid_reply", "not_admitted", "not_begun_here", "refused", "unreachable"
]
"""`cancelled`: the provider or the person said no. `clocks_differ`: the token is not valid now, by this machine's
clock. `invalid_reply`: the provider's reply fails a check. `not_admitted`: the person has no role here.
`not_begun_here`: this browser began no such sign-in in the last ten minutes. `refused`: the provider rejects this
service. `unreachable`: it does not answer."""


class SignInRefused(RagServiceError):
    """A sign-in that failed.

    Args:
        reason: for the page.
        found: what is wrong, without tokens.
        fix: what the operator can do, if it is not among `found`. `detail` has both, for the log.
    """

    def __init__(self, reason: Reason, found: str, fix: str = "") -> None:
        self.detail = f"{found}: {fix}" if fix else found
        super().__init__(self.detail)
        self.reason: Reason = reason
        self.found, self.fix = found, fix
