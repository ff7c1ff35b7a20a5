"""What can go wrong with a model server. Each message says what to do; none holds an API key.

UpstreamError
├── UpstreamUnavailable     it cannot be reached, is overloaded, or answers something else
├── UpstreamRejected        it rejects the request
├── UpstreamCut             the answer broke off in the middle, and cannot be continued
└── UpstreamPromptTooLong   the prompt does not fit its model's window
"""

from __future__ import annotations

from typing import ClassVar


class UpstreamError(Exception):
    """Base of them.

    Attributes:
        code: stable, as error events carry it.
        detail: a sentence for a person.
        retry_after: seconds after which it may be worth to ask again; None if nothing is known.
    """

    code: ClassVar[str] = "upstream_unavailable"

    def __init__(self, detail: str, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after


class UpstreamUnavailable(UpstreamError):
    """It cannot be reached, is overloaded, or answers something else than a stream of an answer."""


class UpstreamRejected(UpstreamError):
    """It rejects the request; another try would end the same way."""

    code = "upstream_rejected"


class UpstreamCut(UpstreamError):
    """The answer broke off after a part of it came."""

    code = "upstream_cut"


class UpstreamPromptTooLong(UpstreamError):
    """The prompt and the answer do not fit the window of the server's model."""

    code = "prompt_too_long"
