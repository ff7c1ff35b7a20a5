"""One model server that answers: its address, model and limits. Knows no HTTP."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.upstream.servers import ServerName


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model server with OpenAI's API.

    Attributes:
        name: of the upstream in settings, answers and metrics.
        url: with the version, such as `http://127.0.0.1:8000/v1`; no slash at its end.
        model: as the server knows it.
        api_key: sent as a bearer token; never shown.
        server: a name of `SERVERS`: which optional parameters it takes.
        window: tokens that its model can hold, prompt and answer together.
        first_token_s: seconds until the first piece of an answer.
        silence_s: seconds between two pieces.
        retry_s: seconds for which a request that brought nothing is tried again.
    """

    name: str
    url: str
    model: str
    api_key: str | None = field(default=None, repr=False)
    server: ServerName = "openai"
    window: int = 8192
    first_token_s: float = 300.0
    silence_s: float = 60.0
    retry_s: float = 30.0
