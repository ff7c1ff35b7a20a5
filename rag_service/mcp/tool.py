"""A tool: its description for models, its arguments and result as types, and what runs. Knows no tool in particular."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import mcp_types
from pydantic import BaseModel, ConfigDict

from rag_service.client import AsyncRagClient
from rag_service.contract.json_body import RequestBody
from rag_service.service_error import RagServiceError


class ToolFailed(RagServiceError):
    """A call cannot be carried out. The message tells the model what to do instead."""


class Arguments(RequestBody):
    """The arguments of a tool: strict types, known names only."""


class Result(BaseModel):
    """What a tool returns: its fields are the structured output, `text` is what a person or a model reads."""

    model_config = ConfigDict(frozen=True)

    def text(self) -> str:
        raise NotImplementedError


@dataclass(frozen=True)
class Running:
    """A call that runs: the client to use for it, and `report`, which tells the caller of progress.

    `report(progress, message)`: `progress` grows with every report; it has no total.
    """

    rag: AsyncRagClient
    report: Callable[[float, str], Awaitable[None]]


A = TypeVar("A", bound=Arguments)


@dataclass(frozen=True)
class Tool(Generic[A]):
    """`run` raises RagServiceError where the call cannot be carried out."""

    name: str
    title: str
    description: str
    arguments: type[A]
    result: type[Result]
    run: Callable[[A, Running], Awaitable[Result]]

    def listed(self) -> mcp_types.Tool:
        """As clients list it. All tools leave documents as they are."""
        return mcp_types.Tool(
            name=self.name,
            title=self.title,
            description=self.description,
            input_schema=self.arguments.model_json_schema(),
            output_schema=self.result.model_json_schema(mode="serialization"),
            annotations=mcp_types.ToolAnnotations(title=self.title, read_only_hint=True, open_world_hint=False),
        )

    async def call(self, arguments: dict[str, Any], running: Running) -> Result:
        """Raises pydantic.ValidationError for wrong arguments, and what `run` raises."""
        return await self.run(self.arguments.model_validate(arguments), running)


def decoded(value: Any) -> Any:
    """A list or an object that a model wrote as a JSON text, as some do; anything else stays."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value
