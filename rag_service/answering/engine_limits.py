"""What the engine that answers cannot do: requests that ask for it are refused, naming the field and what to do. Pure.

`speculation` is accepted before every model server, because it changes only the speed; our own engine needs what a
drafter runs on. Knows fields; knows no servers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rag_service.contract.schemas import EditRequest, QueryRequest
from rag_service.errors import BadRequest, InvalidRequest
from rag_service.prompting.conversation import Conversation
from rag_service.settings import Settings
from workers.broker.capabilities import DECODER, Capabilities
from workers.broker.sampling import SamplingFields
from workers.upstream.servers import SERVERS

CODE = "not_supported_by_engine"
_NEEDS = {
    "small_model": ("draft_model", "a draft model"),
    "eagle": ("eagle_head", "an EAGLE head"),
    "sdsat": ("sdsat_adapters", "SDSAT adapters"),
    "sdsat_two_step": ("sdsat_adapters", "SDSAT adapters"),
}
"""What drafters need beside the model: the setting, and in words. Drafters that a `+` joins need what each does."""


def capabilities_of(settings: Settings, upstream: str | None) -> Capabilities:
    """What answers with that model server can have.

    Args:
        upstream: its name, as in `Settings.upstream_of`; None: our own engine. An answer of earlier settings may name a
            server that there is not any more, which counts as the first one.
    """
    if not settings.endpoints:
        return DECODER if upstream is None else SERVERS["openai"].capabilities
    servers = {endpoint.name: endpoint.server for endpoint in settings.endpoints}
    return SERVERS[servers.get(upstream or "", settings.endpoints[0].server)].capabilities


def check(request: QueryRequest | EditRequest | Conversation, engine: Capabilities, bitwise: bool = False) -> None:
    """Refuse a request that asks for what the engine lacks. Raises BadRequest.

    `bitwise`: whether our own engine's passes are.
    """
    if request.logit_bias and not engine.token_ids:
        raise refusal("logit_bias", "its token ids are not those of the model", "leave it out")
    if request.exact != "default" and not engine.exact_speculation:
        raise refusal("exact", "how tokens are decoded is up to the model server", "leave it out, or use `default`")
    if request.exact == "bitwise" and not bitwise:
        raise BadRequest(
            "This service's passes are not bitwise, so `exact: bitwise` cannot be promised. Leave it out, or start the "
            "service with RAG_EXACT=bitwise, which says where it is impossible.",
            CODE,
            param="exact",
        )
    for name, field in SamplingFields.model_fields.items():
        if name != "exact" and name not in engine.sampling and getattr(request, name) != field.default:
            advice = f"leave it out, or use {field.default}"
            raise refusal(name, "this kind of model server does not take it", advice)
    if request.temperature > engine.hottest:
        raise refusal("temperature", f"it takes {engine.hottest:g} at most", f"use {engine.hottest:g} or less")
    if isinstance(request, Conversation):
        _check_conversation(request, engine)
    elif request.seed is not None and request.temperature > 0 and not engine.seeds:
        raise no_seeds()


def check_drafter(drafter: str | None, settings: Settings, workers: Sequence[Mapping[str, Any]]) -> None:
    """Refuse a drafter that no worker can run, as the workers say, or the settings for those that say nothing.

    Raises:
        InvalidRequest
    """
    for part in (drafter or "").split("+"):
        if part not in _NEEDS or not workers:  # without a worker, nothing is answered
            continue
        setting, needed = _NEEDS[part]
        value = getattr(settings, setting)
        configured = value is not None if setting == "draft_model" else value != "off"  # unset: what the package has
        if not any(worker.get(setting, configured) for worker in workers):
            raise InvalidRequest(
                f"The drafter {drafter!r} needs {needed}, and this service has none. Leave `speculation` out or use "
                f"`auto`, or start the service with RAG_{setting.upper()} (docs/settings.md).",
                param="speculation",
            )


def check_tools(offered: bool, forced: bool, engine: Capabilities) -> None:
    """The same for tools. Raises BadRequest.

    Args:
        offered: whether there are tools, or messages of tools.
        forced: whether the answer has to be a call.
    """
    if offered and not engine.tools:
        raise refusal("tools", "tools cannot be offered through this model server", "leave them out")
    if forced and not engine.grammar:
        raise refusal("tool_choice", "no call can be forced", "use `auto` or `none`")


def check_token_ids(engine: Capabilities) -> None:
    """The same for reading an answer with its token ids. Raises BadRequest."""
    if not engine.token_ids:
        raise refusal("token_ids", "the model's own token ids are not known", "leave it out")


def no_seeds() -> BadRequest:
    return refusal("seed", "this kind of model server takes none", "leave it out, or use temperature 0")


def refusal(field: str, reason: str, advice: str) -> BadRequest:
    return BadRequest(
        f"The model server behind this service cannot honour `{field}`: {reason}. To go on, {advice}; the service's "
        "own engine can (docs/how-to/model-servers.md).",
        CODE,
        param=field,
    )


def _check_conversation(request: Conversation, engine: Capabilities) -> None:
    if request.logprobs is not None and not (engine.token_ids and engine.logprobs):
        raise refusal("logprobs", "they are of the model's own tokens, which are not known", "leave it out")
    if request.prompt is not None and engine.engine == "upstream":
        advice = "send messages to /v1/chat/completions, or name a collection as rag:<collection>"
        raise refusal("prompt", "a text without roles cannot be continued by a model server for chats", advice)
    check_tools(bool(request.tools), request.calls is not None, engine)
    if request.json_schema is not None and request.calls is None and not engine.json_schema:
        raise refusal("response_format", "this kind of model server takes no JSON schema", "ask for JSON in a message")
