"""The sections of the settings, `RAG_SECTION__NAME`: names, defaults and meanings. Reads no environment."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, field_validator, model_validator

from workers.upstream.endpoint import Endpoint
from workers.upstream.servers import ServerName

DEFAULT_UPSTREAM = "default"
_UPSTREAM = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Retrieval(Section):
    """Defaults of retrieval, for queries that do not set them."""

    top_k: int = Field(default=5, ge=1, le=100, description="Number of passages to retrieve for a question.")
    mode: Literal["hybrid", "dense", "lexical", "none"] = Field(
        default="hybrid", description="Kind of search; `none` answers without passages."
    )
    rewrite: bool = Field(
        default=True,
        description="Whether the model rewrites follow-ups that do not stand alone before the search.",
    )
    rewrite_timeout: float = Field(
        default=20.0,
        gt=0,
        le=45,
        description="Seconds that rewriting may take. After that, the search uses the question's own words.",
    )


class Ocr(Section):
    """Text recognition in scanned PDFs, by Tesseract, where that is installed."""

    languages: str = Field(
        default="eng",
        pattern=r"^[A-Za-z0-9_]+(\+[A-Za-z0-9_]+)*$",
        description="Languages of scans, as Tesseract names them, such as `nld+eng`; their data must be installed.",
    )
    seconds: float = Field(
        default=300.0, ge=0, le=3600, description="Seconds that recognising one file may take; 0 turns it off."
    )


class Answers(Section):
    """How answers are generated, cited and stored."""

    max_tokens: int = Field(
        default=256, ge=1, le=32768, description="Most tokens of an answer if its request sets no `max_tokens`."
    )
    repetition_length: int = Field(
        default=128,
        ge=0,
        description="An answer whose last tokens are one stretch of tokens again and again, with so many tokens in "
        "all, ends with `repetition`. Twice as many if the stretch has fewer than 8 different tokens, and more if the "
        "prompt repeats itself like that. 0 lets answers repeat themselves.",
    )
    repetition_times: int = Field(
        default=4, ge=2, description="Fewest repeats of a stretch, however long, that end an answer."
    )
    passages_repetition_length: int = Field(
        default=24,
        ge=0,
        description="The same for answers to questions from passages, which are prose and short; not for edits, JSON "
        "and calls of tools.",
    )
    passages_repetition_times: int = Field(default=2, ge=2, description="Fewest repeats that end such an answer.")
    min_run: int = Field(
        default=8,
        ge=2,
        le=256,
        description="Fewest tokens an answer must share with a passage for a `copied` citation.",
    )
    support: bool = Field(
        default=True,
        description="Whether answers come with their `support`, for which some models are asked one more token.",
    )
    support_threshold: float = Field(
        default=0.2, ge=0, le=1, description="Least `support` of a `grounded` answer, and of a `retrieved` citation."
    )
    abstain: Literal["off", "warn", "refuse"] = Field(
        default="warn",
        description="What happens if the passages probably do not answer a question, for requests that set no "
        "`abstain`: nothing, a warning, or a refusal instead of the answer.",
    )
    calibration: Path | None = Field(
        default=None,
        description="File of `rag bench answers --calibrate`, for a model of your own. Unset: the package's.",
    )
    ttl: int = Field(
        default=604800, ge=60, description="Seconds that an answer and its events are stored after the last write."
    )
    session_ttl: int = Field(default=2592000, ge=60, description="Seconds that a session is stored after a turn.")
    usage_days: int = Field(
        default=400,
        ge=0,
        le=3660,
        description="Days for which the tokens that a tenant's answers cost are kept, by day (`rag usage`). 0 keeps "
        "none.",
    )
    session_tokens: int = Field(
        default=262_144,
        ge=256,
        description="Most tokens of a session. A session with more gets 409 `session_full` for its next turn.",
    )
    store_tokens: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Tokens of earlier answers, from all sessions, that a worker keeps for each collection to draft "
        "later answers from. 0 keeps none. They never change an answer.",
    )
    timeout: float = Field(
        default=600.0,
        gt=0,
        description="Seconds that a request without `stream` waits. After that, the answer continues to run.",
    )
    heartbeat: float = Field(
        default=15.0, gt=0, description="Seconds between comment lines on an event stream without events."
    )


class Prompt(Section):
    """Our own texts in prompts. docs/how-to/prompts.md describes templates."""

    language: str | None = Field(
        default=None, description="Language of the prompt template, such as `nl`. Unset: that of the question."
    )
    folder: Path | None = Field(
        default=None, description="Folder of prompt templates (`nl.toml`) that replace or add to the package's."
    )
    system: str | None = Field(
        default=None, description="System message of answers from passages, for all languages. Unset: the template's."
    )
    system_without_passages: str | None = Field(
        default=None, description="System message of answers without passages. Unset: the template's."
    )
    passage: str | None = Field(
        default=None, description="Form of a passage, with the slots `{title}` and `{text}`. Unset: the template's."
    )
    question: str | None = Field(
        default=None, description="Form of the question, with the slot `{question}`. Unset: the template's."
    )
    check: str | None = Field(
        default=None,
        description="What asks the model whether the passages state the answer, Yes or No, with the slots "
        "`{question}` and `{answer}`. Unset: the template's.",
    )
    refusal: str | None = Field(
        default=None, description="The answer in place of a refused one. Unset: the template's."
    )

    collections: dict[str, dict[str, str]] = Field(
        default_factory=dict, description='Texts for single collections as JSON: `{"handbook": {"system": "…"}}`.'
    )

    @property
    def texts(self) -> dict[str, str]:
        """The texts that replace those of all templates."""
        names = ("system", "system_without_passages", "passage", "question", "check", "refusal")
        return {name: text for name in names if (text := getattr(self, name)) is not None}


class Limits(Section):
    """Limits of requests. The service answers 4xx to a request above them."""

    question_chars: int = Field(default=8000, ge=1, description="Most characters of a question.")
    prediction_chars: int = Field(default=200_000, ge=1, description="Most characters of a `prediction`.")
    body_bytes: int = Field(default=2 * 2**20, ge=1024, description="Most bytes of a request body without documents.")
    documents_bytes: int = Field(
        default=16 * 2**20, ge=1024, description="Most bytes of one request that adds documents as JSON."
    )
    upload_bytes: int = Field(
        default=100 * 2**20, ge=1024, description="Most bytes of one upload request, all files together."
    )
    upload_files: int = Field(default=200, ge=1, description="Most documents in one upload request.")
    connections: int = Field(
        default=1000, ge=1, description="Most open connections. Above it, all requests except health probes get 503."
    )
    head_timeout: float = Field(default=10.0, gt=0, description="Seconds in which the head of a request must arrive.")
    body_timeout: float = Field(
        default=30.0,
        gt=0,
        description="Seconds without a byte after which a request gets 408. A body must average 10,000 bytes a second.",
    )
    passages: int = Field(default=50, ge=1, le=100, description="Largest `retrieval.top_k` of a request.")
    queued: int = Field(default=100, ge=1, description="Most jobs that wait for a worker. Above it, new jobs get 429.")


class UpstreamServer(Section):
    """A model server with OpenAI's API."""

    url: str | None = Field(
        default=None, description="Address of the model server, with its version: `http://127.0.0.1:8000/v1`."
    )
    api_key: SecretStr | None = Field(
        default=None, description="Key of the model server, sent as a bearer token. Unset: none is sent."
    )
    model: str | None = Field(default=None, description="The model, by the name that the server knows it by.")
    server: ServerName = Field(
        default="openai",
        description="What serves it: `openai`, `llama.cpp`, `vllm`, `sglang` or `ollama`. It decides which optional "
        "parameters are sent; `openai` sends the fewest.",
    )
    window: int = Field(
        default=8192,
        ge=256,
        le=16_777_216,
        description="Tokens that its model can hold, prompt and answer together, as the server was started.",
    )
    first_token_timeout: float = Field(
        default=300.0, gt=0, description="Seconds that the server may take until the first piece of an answer."
    )
    silence_timeout: float = Field(default=60.0, gt=0, description="Seconds that it may be silent between two pieces.")
    retry_seconds: float = Field(
        default=30.0,
        ge=0,
        description="Seconds for which a request that brought nothing is tried again, such as while the server loads.",
    )

    @field_validator("url")
    @classmethod
    def _address(cls, url: str | None) -> str | None:
        """Without the slash at its end. The messages do not repeat it: it may contain a password."""
        if not url:
            return None
        try:
            parts = urlsplit(url)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise ValueError("is no address; write http://host:port/v1") from None
        if (
            parts.scheme not in ("http", "https")
            or not host
            or not url.isascii()
            or not url.isprintable()
            or " " in url
        ):
            raise ValueError("must begin with http:// or https:// and a host; write http://host:port/v1")
        if "@" in parts.netloc:
            raise ValueError("must not contain a user or a password; set the API key instead")
        if "?" in url or "#" in url:
            raise ValueError("must not contain ? or #; write http://host:port/v1")
        return url.rstrip("/")

    @field_validator("api_key")
    @classmethod
    def _key(cls, value: SecretStr | None) -> SecretStr | None:
        text = "" if value is None else value.get_secret_value()
        if not all("!" <= character <= "~" for character in text):
            raise ValueError("must be printable ASCII without spaces")
        return value if text else None

    @field_validator("server", mode="before")
    @classmethod
    def _known_server(cls, value: Any) -> Any:
        known = get_args(ServerName)
        if value not in known:
            raise ValueError(f"there is no server {str(value)[:40]!r}; choose one of {', '.join(known)}")
        return value

    def endpoint(self, name: str) -> Endpoint:
        """The same for a worker. `url` and `model` must be set."""
        assert self.url is not None
        assert self.model is not None
        return Endpoint(
            name=name,
            url=self.url,
            model=self.model,
            api_key=None if self.api_key is None else self.api_key.get_secret_value(),
            server=self.server,
            window=self.window,
            first_token_s=self.first_token_timeout,
            silence_s=self.silence_timeout,
            retry_s=self.retry_seconds,
        )


class Upstream(UpstreamServer):
    """The model servers behind the workers, with `RAG_ENGINE=openai`."""

    others: dict[str, UpstreamServer] = Field(
        default_factory=dict,
        description='More model servers as JSON, name -> the fields above in lower case: `{"large": {"url": '
        '"http://gpu:8000/v1", "model": "…", "server": "vllm"}}`. They share nothing with the first one.',
    )
    collections: dict[str, str] = Field(
        default_factory=dict,
        description='Which of them answers from which collection, as JSON: `{"handbook": "large"}`, for every tenant. '
        "All other answers come from the first one, whose name is `default`.",
    )

    @model_validator(mode="after")
    def _consistent(self) -> Upstream:
        for name, server in self.others.items():
            if not _UPSTREAM.fullmatch(name) or name == DEFAULT_UPSTREAM:
                raise ValueError(
                    f"{name[:80]!r} in others is no name for a model server; use up to 64 letters, digits, -, _ and ., "
                    f"and not {DEFAULT_UPSTREAM}"
                )
            if not server.url or not server.model:
                raise ValueError(f"{name!r} in others needs a url and a model")
        known = (DEFAULT_UPSTREAM, *self.others)
        for collection, name in self.collections.items():
            if name not in known:
                raise ValueError(
                    f"collections sends {collection[:80]!r} to {name[:80]!r}, and there is none; name one of "
                    f"{', '.join(known)}"
                )
        return self
