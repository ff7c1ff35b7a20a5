"""Every setting of the service: read from the environment (`RAG_…`, nested by `__`) and from `.env`.

Beside `unknown_settings`, the only place that reads the environment. Knows names, defaults and meanings; opens nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from rag_service.errors import InvalidSettings

PREFIX = "RAG_"
_OPEN = "requests always need a key now; RAG_OPEN_WITHOUT_KEY=true lets anyone in who reaches the API"
GONE = {
    "RAG_KEYS": _OPEN,
    "RAG_KEYS__REQUIRED": _OPEN,
    "RAG_KEYS__REACHED_AT": "requests always need a key now, wherever the API is reached",
}
"""Settings of earlier versions, and what is to be said of them."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Retrieval(_Section):
    """What a query retrieves unless it says otherwise."""

    top_k: int = Field(default=5, ge=1, le=100, description="Passages retrieved for a question.")
    mode: Literal["hybrid", "dense", "lexical", "none"] = Field(
        default="hybrid", description="How passages are found; `none` answers without passages."
    )
    rewrite: bool = Field(
        default=True,
        description="Whether the model rewrites follow-ups that do not stand alone before passages are looked for.",
    )
    rewrite_timeout: float = Field(
        default=10.0,
        gt=0,
        le=45,
        description="Seconds that rewriting may take; then passages are looked for with the question itself.",
    )


class Answers(_Section):
    """How answers are generated, cited and kept."""

    max_tokens: int = Field(
        default=256, ge=1, le=32768, description="Most tokens of an answer whose request names no limit."
    )
    min_run: int = Field(
        default=8,
        ge=2,
        le=256,
        description="Fewest tokens an answer must share with a passage for a `copied` citation.",
    )
    ttl: int = Field(
        default=604800, ge=60, description="Seconds that an answer and its event stream are kept after the last write."
    )
    session_ttl: int = Field(default=2592000, ge=60, description="Seconds that a session is kept after its last turn.")
    session_tokens: int = Field(
        default=262_144,
        ge=256,
        description="Tokens that a session may hold; beyond that its next turn gets 409 `session_full`.",
    )
    store_tokens: int = Field(
        default=0,
        ge=0,
        le=1_000_000,
        description="Tokens of earlier answers, of all sessions, that are kept for each collection to draft later "
        "answers from. 0 keeps none. They never change what is answered.",
    )
    timeout: float = Field(
        default=600.0,
        gt=0,
        description="Seconds a request without `stream` waits; the answer itself runs on afterwards.",
    )
    heartbeat: float = Field(
        default=15.0, gt=0, description="Seconds between comment lines on an event stream that is silent."
    )


class Limits(_Section):
    """What a request may ask for; beyond it the answer is a 4xx."""

    question_chars: int = Field(default=8000, ge=1, description="Most characters of a question.")
    prediction_chars: int = Field(default=200_000, ge=1, description="Most characters of a `prediction`.")
    body_bytes: int = Field(default=2 * 2**20, ge=1024, description="Most bytes of a request body, documents aside.")
    documents_bytes: int = Field(
        default=16 * 2**20, ge=1024, description="Most bytes of one request that adds documents as JSON."
    )
    upload_bytes: int = Field(
        default=100 * 2**20, ge=1024, description="Most bytes of one upload request, all files together."
    )
    upload_files: int = Field(default=200, ge=1, description="Most documents in one upload request.")
    connections: int = Field(
        default=1000, ge=1, description="Open connections beyond which requests get 503, probes of health aside."
    )
    head_timeout: float = Field(default=10.0, gt=0, description="Seconds in which the head of a request must come.")
    body_timeout: float = Field(
        default=30.0,
        gt=0,
        description="Seconds without a byte after which a body is given up; 10,000 bytes a second must come in all.",
    )
    passages: int = Field(default=50, ge=1, le=100, description="Largest `retrieval.top_k` a request may ask for.")
    queued: int = Field(default=100, ge=1, description="Jobs waiting for a worker beyond which new ones get 429.")


class Settings(BaseSettings):
    """The service's settings; `docs/settings.md` lists them all."""

    model_config = SettingsConfigDict(
        env_prefix=PREFIX, env_nested_delimiter="__", env_file=".env", extra="ignore", frozen=True
    )

    redis_url: str | None = Field(
        default=None,
        description="Redis to use: `redis://host:port/0`, `rediss://…` or `unix:///path/to.sock`. "
        "Unset: `rag up` starts a private one.",
    )
    redis_password_file: Path | None = Field(
        default=None, description="File with the password of `RAG_REDIS_URL`, for an address that holds none."
    )
    data_dir: Path = Field(
        default=Path(".rag"), description="Folder of collections, uploads, models and the private Redis's data."
    )
    models_dir: Path | None = Field(
        default=None, description="Folder of model files. Unset: `models` in the data folder."
    )
    host: str = Field(default="127.0.0.1", description="Address the API listens on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port the API listens on; 0 takes a free one.")
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Names under which the API is reached, beside addresses, names without a dot and `RAG_HOST`: a "
        "list separated by commas, `*.example.com` for all below a name.",
    )
    open_without_key: bool = Field(
        default=False,
        description="Anyone who reaches the API may use it as the default tenant, without a key.",
    )
    url: str | None = Field(
        default=None,
        description="API that `rag ask`, `rag ingest` and their like talk to. Unset: the one `rag up` started.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="API key that the `rag` commands send. Unset: the local key, the file `key` in the data folder, to "
        "a service on this machine.",
    )
    model: str = Field(
        default="smollm2-135m",
        description="Target model: a hub id (docs/how-to/own-model.md suggests some), a folder, or a name from "
        "`rag models list`. The default is a small demo model.",
    )
    embedding_model: str = Field(
        default="all-minilm-l6-v2",
        description="Embedding model: a name from `rag models list`, a folder, or `provider:model` for a provider that "
        "LangChain knows (docs/how-to/own-model.md).",
    )
    dtype: Literal["float32", "float64", "bfloat16", "float16"] = Field(
        default="float32", description="Number format the target model runs in."
    )
    device: str = Field(default="cpu", description="Device the target model runs on: `cpu`, `cuda` or `cuda:N`.")
    drafter: str = Field(default="auto", description="Drafter of queries that name none (`auto`), or a drafter's name.")
    draft_model: str | None = Field(
        default=None,
        description="A smaller model with the target's tokenizer, named like `RAG_MODEL`, for the drafter "
        "`small_model` and those that end in `+small_model`. Unset: those drafters are not available.",
    )
    eagle_head: str | None = Field(
        default=None,
        description="Folder of an EAGLE head trained for `RAG_MODEL`, for the drafter `eagle` and those that end in "
        "`+eagle`; or `off`. Unset: the head that comes with the package for that model, if there is one.",
    )
    eagle_allow_pickle: bool = Field(
        default=False,
        description="Also read an EAGLE head's `pytorch_model.bin`, its weights alone, where it has no safetensors.",
    )
    sdsat_adapters: str | None = Field(
        default=None,
        description="Folder of SDSAT adapters trained for `RAG_MODEL`, for the drafters `sdsat` and `sdsat_two_step`; "
        "or `off`. Unset: those that come with the package for that model, if there are any.",
    )
    kv_cache_bytes: int = Field(
        default=2 * 2**30,
        ge=0,
        description="Bytes of the device's memory in which a worker keeps the keys and values of earlier turns, so "
        "that follow-ups and edits process only what is new. 0 keeps none. They never change what is answered.",
    )
    concurrency: int = Field(default=8, ge=1, le=256, description="Answers that one worker decodes together.")
    retrieval: Retrieval = Retrieval()
    answers: Answers = Answers()
    limits: Limits = Limits()

    @property
    def models_folder(self) -> Path:
        """Where model files lie: `models_dir`, else `models` in the data folder."""
        return self.models_dir or self.data_dir / "models"

    @property
    def uploads_folder(self) -> Path:
        """Where accepted ingests wait, each in a folder of its own."""
        return self.data_dir.resolve() / "uploads"

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """A list separated by commas, or JSON."""
        if not isinstance(value, str) or value.lstrip().startswith("["):
            return json.loads(value) if isinstance(value, str) else value
        return [part.strip() for part in value.split(",") if part.strip()]

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _HOST.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is not a host; write names like rag.example.com or *.example.com")
        return tuple(name.lower() for name in value)


def load_settings(**overrides: object) -> Settings:
    """Settings from the environment and `.env`; `overrides` win.

    Raises:
        InvalidSettings: a value is not allowed; the message names the variable.
    """
    try:
        return Settings(**overrides)  # type: ignore[arg-type]
    except ValidationError as error:
        problems = "; ".join(_problem(e["type"], e["loc"], e["msg"]) for e in error.errors())
        raise InvalidSettings(f"Change these settings (docs/settings.md lists what is allowed): {problems}") from None


def setting_names() -> list[str]:
    """Every variable there is."""
    return [name for name, _ in _fields(Settings, PREFIX)]


def no_setting(name: str) -> str:
    """What to say of a variable that is no setting, with the one that was meant where that can be told."""
    if name in GONE:
        return f"{name} is no setting any more: {GONE[name]}."
    meant = get_close_matches(name, setting_names(), n=1, cutoff=0.8)
    return f"{name} is no setting; " + (f"did you mean {meant[0]}?" if meant else "docs/settings.md lists them.")


def settings_table() -> str:
    """`docs/settings.md`: every variable with its default and meaning."""
    rows = [f"| `{name}` | {_shown(field)} | {field.description} |" for name, field in _fields(Settings, PREFIX)]
    return "\n".join(
        [
            "# Settings",
            "",
            "Read from the environment and from `.env` in the working folder; the environment wins.",
            "This page is generated: `python -m rag_service.reference docs`.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def setting_values(settings: Settings) -> dict[str, Any]:
    """Every variable with its value in force, as text, number or None; keys, and passwords in URLs, are hidden."""
    values: dict[str, Any] = {}

    def collect(model: BaseModel, prefix: str) -> None:
        for name in type(model).model_fields:
            value = getattr(model, name)
            if isinstance(value, BaseModel):
                collect(value, f"{prefix}{name.upper()}__")
            else:
                shown = ",".join(value) if isinstance(value, tuple) else value
                values[f"{prefix}{name.upper()}"] = str(shown) if isinstance(shown, Path | SecretStr) else shown

    collect(settings, PREFIX)
    return {
        name: re.sub(r"(://[^/@:]*:)[^/@]*@", r"\1***@", value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _problem(kind: str, loc: tuple[int | str, ...], message: str) -> str:
    name = f"{PREFIX}{'__'.join(str(part) for part in loc).upper()}"
    return no_setting(name) if kind == "extra_forbidden" else f"{name}: {message}"


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}", field


def _shown(field: FieldInfo) -> str:
    return "unset" if field.default in (None, ()) else f"`{field.default}`"


if __name__ == "__main__":
    print(settings_table(), end="")
