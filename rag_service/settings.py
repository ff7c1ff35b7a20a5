"""Every setting of the service: read from the environment (`RAG_…`, nested by `__`) and from `.env`.

Only this module and `unknown_settings` read the environment. Knows names, defaults and meanings; opens nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError

from decoder import dtypes
from decoder.catalogue import DEFAULT_EMBEDDING_MODEL, DEFAULT_MODEL, card_of
from rag_service.errors import InvalidSettings
from rag_service.oidc_settings import Oidc
from rag_service.setting_sections import DEFAULT_UPSTREAM, Answers, Limits, Ocr, Prompt, Retrieval, Upstream
from workers.upstream.endpoint import Endpoint

PREFIX = "RAG_"
_OPEN = "every request needs a key now, unless RAG_OPEN_WITHOUT_KEY=true opens the API to everyone who can reach it"
REMOVED = {
    "RAG_KEYS": _OPEN,
    "RAG_KEYS__REQUIRED": _OPEN,
    "RAG_KEYS__REACHED_AT": "every request needs a key now, at any address",
}
"""Settings of earlier versions, each with what replaces it."""
_HOST = re.compile(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", re.ASCII)


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
        default=None, description="File with the password of Redis, if `RAG_REDIS_URL` contains none."
    )
    store_url: SecretStr | None = Field(
        default=None,
        description="PostgreSQL with pgvector that has collections, ingests and uploads, so that API and workers on "
        "any number of machines share them: `postgresql://user:password@host/name` (docs/how-to/postgresql.md). Unset: "
        "the data folder and Redis have them.",
    )
    data_dir: Path = Field(
        default=Path(".rag"), description="Folder of collections, uploads, models and the data of the private Redis."
    )
    keep_originals: bool = Field(
        default=False,
        description="Whether uploaded files are kept with their documents, for "
        "`GET /v1/collections/{collection}/documents/{document_id}/original`.",
    )
    models_dir: Path | None = Field(
        default=None, description="Folder of model files. Unset: `models` in the data folder."
    )
    host: str = Field(default="127.0.0.1", description="Address that the API listens on.")
    port: int = Field(default=8080, ge=0, le=65535, description="Port that the API listens on; 0 takes a free port.")
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(),
        description="Host names of the API, in addition to IP addresses, names without a dot and `RAG_HOST`: a list "
        "separated by commas; `*.example.com` allows all names below it.",
    )
    open_without_key: bool = Field(
        default=False,
        description="Whether everyone who can reach the API may use it without a key, as the default tenant.",
    )
    audit_days: int = Field(
        default=365,
        ge=1,
        le=3660,
        description="Days for which the audit log keeps who changed what (`rag audit`, `GET /v1/audit`).",
    )
    sign_in_days: int = Field(
        default=7, ge=1, le=365, description="Days after which a browser has to sign in again (`POST /v1/sign-in`)."
    )
    url: str | None = Field(
        default=None,
        description="Address of the API for `rag` commands. Unset: the API that `rag up` started.",
    )
    api_key: SecretStr | None = Field(
        default=None,
        description="API key that `rag` commands send. Unset: the local key, the file `key` in the data folder, if the "
        "service runs on this machine.",
    )
    engine: Literal["decoder", "openai"] = Field(
        default="decoder",
        description="What generates answers: `decoder`, this service's own engine with `RAG_MODEL`; or `openai`, a "
        "model server with OpenAI's API at `RAG_UPSTREAM__URL` (docs/how-to/model-servers.md).",
    )
    model: str = Field(
        default=DEFAULT_MODEL,
        description="Target model: a name from `rag models list`, a hub id (`rag models list --catalogue` shows some), "
        "or a folder.",
    )
    embedding_model: str = Field(
        default=DEFAULT_EMBEDDING_MODEL,
        description="Embedding model: a name from `rag models list`, a hub id, a folder, or `provider:model` for a "
        "provider that LangChain supports (docs/how-to/embedders-and-rerankers.md).",
    )
    embedding_device: str = Field(
        default="cpu",
        pattern=r"^(auto|cpu|cuda(:\d+)?|workers)$",
        description="Device of an embedding model that is a folder: `cpu`, `cuda`, `cuda:N`, or `auto` for the GPU if "
        "there is one. `workers`: workers embed the API's questions, so that it needs neither torch nor the model's "
        "memory; they use what `auto` means.",
    )
    embedding_dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="Number format of such an embedding model. `auto`: bfloat16 on a GPU that multiplies it and on "
        "processors with AMX, else float32. Collections answer in both.",
    )
    embedding_query_prefix: str | None = Field(
        default=None,
        description='What the embedding model wants before each question, such as `"query: "` (in `.env` with '
        "quotes, for the space); empty for nothing. Unset: what `rag models list` or the model's folder says.",
    )
    embedding_passage_prefix: str | None = Field(
        default=None,
        description='The same before each passage, such as `"passage: "`. A collection answers only with the prefixes '
        "that it was created with.",
    )
    reranker: str | None = Field(
        default=None,
        description="Cross-encoder that reorders the best passages of every search: a hub id, or a folder "
        "(docs/how-to/embedders-and-rerankers.md). It runs in the API, on the embedding model's device and in its "
        "number format. Unset or empty: none.",
    )
    reranker_candidates: int = Field(
        default=20, ge=1, le=100, description="How many of the best passages of a search the reranker may score."
    )
    reranker_budget_ms: int = Field(
        default=1000,
        ge=0,
        description="Milliseconds that it may take for one search; passages that it did not get to keep their order "
        "behind the others. 0: as long as it needs, so the order never depends on the machine's speed.",
    )
    dtype: Literal["auto", "float32", "float64", "bfloat16", "float16", "int8", "int4"] = Field(
        default="auto",
        description="Number format of the target model. `auto`: bfloat16 where the processor or GPU multiplies it, "
        "else float32. `int8`, on a CPU alone, takes about half of bfloat16's memory and changes the model a little; "
        "`int4` multiplies the integers of its GGUF file as they are (docs/how-to/own-model.md). Where no token "
        "may ever differ from plain decoding's, set `RAG_EXACT=bitwise` (docs/explanation.md).",
    )
    exact: dtypes.EngineExact = Field(
        default="auto",
        description="`bitwise`: every logit of a draft equals plain decoding's, bit by bit, so that no near-tie can go "
        "another way, in float32, bfloat16, int8 or int4 on an x86 CPU with AVX2. A worker checks at its start that "
        "its processor keeps this, and does not start where it fails. `auto`: so where it costs nothing, as in "
        "int8 and int4, and in the others with AVX-512, all without AMX (docs/explanation.md); `default`: never.",
    )
    device: str = Field(default="cpu", description="Device of the target model: `cpu`, `cuda` or `cuda:N`.")
    drafter: str = Field(default="auto", description="`auto` or a drafter's name, for queries that set none.")
    draft_model: str | None = Field(
        default=None,
        description="A smaller model with the target's tokenizer, in the form of `RAG_MODEL`, for the drafter "
        "`small_model` and drafters that end in `+small_model`. Unset: these drafters are not available.",
    )
    eagle_head: str | None = Field(
        default=None,
        description="Folder of an EAGLE head trained for `RAG_MODEL`, for the drafter `eagle` and drafters that end "
        "in `+eagle`; or `off`. Unset: the head that the package contains for this model, if any.",
    )
    eagle_allow_pickle: bool = Field(
        default=False,
        description="Whether to read the weights of an EAGLE head from `pytorch_model.bin` if it has no safetensors.",
    )
    sdsat_adapters: str | None = Field(
        default=None,
        description="Folder of SDSAT adapters trained for `RAG_MODEL`, for the drafters `sdsat` and `sdsat_two_step`; "
        "or `off`. Unset: the adapters that the package contains for this model, if any.",
    )
    kv_cache_bytes: int = Field(
        default=2 * 2**30,
        ge=0,
        description="Bytes of device memory for the keys and values of earlier turns. With them, follow-ups and edits "
        "process only new tokens. 0 keeps none. They never change an answer.",
    )
    concurrency: int = Field(default=8, ge=1, le=256, description="Answers that one worker decodes together.")
    oidc: Oidc = Oidc()
    retrieval: Retrieval = Retrieval()
    ocr: Ocr = Ocr()
    answers: Answers = Answers()
    prompt: Prompt = Prompt()
    limits: Limits = Limits()
    upstream: Upstream = Upstream()

    @property
    def number_format(self) -> str:
        """`dtype`, with `auto` resolved for this machine's device."""
        return dtypes.resolved(self.dtype, self.device)

    @property
    def embedding_place(self) -> tuple[str, str]:
        """Device and number format of an embedding model on this machine, with `auto` resolved."""
        device = dtypes.device_here("auto" if self.workers_embed else self.embedding_device)
        return device, dtypes.resolved_for_embedding(self.embedding_dtype, device)

    @property
    def workers_embed(self) -> bool:
        """Whether the API leaves embedding to the workers."""
        return self.embedding_device == "workers"

    @property
    def embedding_prefixes(self) -> tuple[str | None, str | None]:
        """What stands before each question and each passage: as set, else as the catalogue has it; None if unknown."""
        card = card_of(self.embedding_model)
        query, passage = self.embedding_query_prefix, self.embedding_passage_prefix
        if card is not None:
            query = card.query_prefix if query is None else query
            passage = card.passage_prefix if passage is None else passage
        return query, passage

    @property
    def models_folder(self) -> Path:
        """Folder of model files: `models_dir`, else `models` in the data folder."""
        return self.models_dir or self.data_dir / "models"

    @property
    def store(self) -> str | None:
        """`store_url` as text."""
        return None if self.store_url is None else self.store_url.get_secret_value()

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """The model servers, that of answers without another one first; none with our own engine."""
        if self.engine == "decoder":
            return ()
        others = self.upstream.others.items()
        return (self.upstream.endpoint(DEFAULT_UPSTREAM), *(server.endpoint(name) for name, server in others))

    def upstream_of(self, collection: str | None) -> str | None:
        """The name of the model server that answers from a collection; None with our own engine.

        Args:
            collection: a name, or several with commas between them: those must agree, else it is the first server.
                None: without passages.
        """
        if self.engine == "decoder":
            return None
        chosen = {self.upstream.collections.get(name, DEFAULT_UPSTREAM) for name in (collection or "").split(",")}
        return chosen.pop() if len(chosen) == 1 else DEFAULT_UPSTREAM

    @property
    def uploads_folder(self) -> Path:
        """Folder of accepted ingests, each in a folder of its own."""
        return self.data_dir.resolve() / "uploads"

    @field_validator("reranker")
    @classmethod
    def _none_if_empty(cls, value: str | None) -> str | None:
        return value or None

    @field_validator("store_url")
    @classmethod
    def _postgres(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not value.get_secret_value().startswith(("postgresql://", "postgres://")):
            raise ValueError("must be postgresql://user:password@host/name")
        return value

    @model_validator(mode="after")
    def _has_upstream(self) -> Settings:
        missing = [name for name in ("url", "model") if self.engine == "openai" and not getattr(self.upstream, name)]
        if missing:
            names = " and ".join(f"{PREFIX}UPSTREAM__{name.upper()}" for name in missing)
            raise ValueError(
                f"{PREFIX}ENGINE=openai needs {names}: the address of a model server, and its name of the model"
            )
        return self

    @field_validator("allowed_hosts", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Accept a list separated by commas, or JSON."""
        if not isinstance(value, str) or value.lstrip().startswith("["):
            return json.loads(value) if isinstance(value, str) else value
        return [part.strip() for part in value.split(",") if part.strip()]

    @field_validator("allowed_hosts")
    @classmethod
    def _hosts(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if not _HOST.fullmatch(name):
                raise ValueError(f"{name[:80]!r} is not a host name; write names like rag.example.com or *.example.com")
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
        raise InvalidSettings(f"Change these settings (docs/settings.md has the allowed values): {problems}") from None
    except SettingsError as error:  # its cause has the value, which may be a key
        section = re.search(r'field "(\w+)"', str(error))
        name = f"{PREFIX}{section[1].upper()}" if section else PREFIX
        raise InvalidSettings(f"A setting that begins with {name} is not valid JSON; correct it.") from None


def setting_names() -> list[str]:
    """The names of all variables."""
    return [name for name, _ in _fields(Settings, PREFIX)]


def unknown_setting_message(name: str) -> str:
    """The error message for a variable that is not a setting, with a setting of a similar name if there is one."""
    if name in REMOVED:
        return f"{name} is not a setting any more: {REMOVED[name]}."
    similar = get_close_matches(name, setting_names(), n=1, cutoff=0.8)
    advice = f"did you mean {similar[0]}?" if similar else "docs/settings.md lists all settings."
    return f"{name} is not a setting; {advice}"


def settings_table() -> str:
    """`docs/settings.md`: every variable with its default and meaning."""
    rows = [f"| `{name}` | {_default(field)} | {field.description} |" for name, field in _fields(Settings, PREFIX)]
    return "\n".join(
        [
            "# Settings",
            "",
            "The service reads the environment and `.env` in the working folder; the environment wins.",
            "This page is generated: `python -m rag_service.reference docs`.",
            "",
            "| variable | default | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def setting_values(settings: Settings) -> dict[str, Any]:
    """Every variable with its current value, as text, number or None. Keys and passwords in URLs are hidden."""
    values: dict[str, Any] = {}

    def collect(model: BaseModel, prefix: str) -> None:
        for name in type(model).model_fields:
            value = getattr(model, name)
            if isinstance(value, BaseModel):
                collect(value, f"{prefix}{name.upper()}__")
            else:
                value = ",".join(value) if isinstance(value, tuple) else value
                if isinstance(value, dict):
                    value = {key: _shown(entry) for key, entry in value.items()}
                values[f"{prefix}{name.upper()}"] = str(value) if isinstance(value, Path | SecretStr) else value

    collect(settings, PREFIX)
    return {
        name: re.sub(r"(://[^/@:]*:)[^/@]*@", r"\1***@", value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def _shown(entry: Any) -> Any:
    """An entry of a setting that is JSON, with hidden keys."""
    return entry.model_dump(mode="json", exclude_unset=True) if isinstance(entry, BaseModel) else entry


def _problem(kind: str, loc: tuple[int | str, ...], message: str) -> str:
    message = message.removeprefix("Value error, ")
    if not loc:  # of several settings, which the message names
        return message
    name = f"{PREFIX}{'__'.join(str(part) for part in loc).upper()}"
    if kind == "string_pattern_mismatch" and (field := dict(_fields(Settings, PREFIX)).get(name)):
        message = f"its value has the wrong form. {field.description}"  # rather than a regular expression
    return unknown_setting_message(name) if kind == "extra_forbidden" else f"{name}: {message}"


def _fields(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _fields(field.annotation, f"{prefix}{name.upper()}__")
        else:
            yield f"{prefix}{name.upper()}", field


def _default(field: FieldInfo) -> str:
    default = field.get_default(call_default_factory=True)
    return "unset" if default in (None, (), {}) else f"`{default}`"


if __name__ == "__main__":
    print(settings_table(), end="")
