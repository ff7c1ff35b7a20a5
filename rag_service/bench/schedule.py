"""Runs every conversation in every mode, except those that are done. Knows stacks and modes; sums nothing up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag_service.bench.conversations import Conversation, Material
from rag_service.bench.measure import measure
from rag_service.bench.outcomes import Measured
from rag_service.bench.rows import PLAIN
from rag_service.bench.stack import Stack
from rag_service.client import RagClient
from rag_service.client.calls import Text
from rag_service.client.errors import Conflict, RagError


@dataclass(frozen=True, slots=True)
class Mode:
    """How answers are generated.

    Attributes:
        speculation: `off`, `auto` or a drafter's name.
        reuse: whether workers keep earlier turns' keys and values.
    """

    speculation: str
    reuse: bool


def modes_of(drafter: str) -> dict[str, Mode]:
    """The modes by name. Plain has no reuse, so that it never starts on what the drafter's conversation left."""
    return {drafter: Mode(drafter, True), f"{drafter} without reuse": Mode(drafter, False), PLAIN: Mode("off", False)}


def plan(conversations: Sequence[Conversation], modes: Mapping[str, Mode]) -> Iterator[tuple[int, Conversation, str]]:
    """(number, conversation, mode): all modes of a conversation before the next conversation.

    Every second conversation takes the modes in reverse: fluctuations of the machine then affect all modes alike, and
    one start of a worker serves two conversations.
    """
    for number, conversation in enumerate(conversations):
        names = list(modes)
        for mode in names[::-1] if number % 2 else names:
            yield number, conversation, mode


def run_conversations(
    stack: Stack,
    material: Material,
    modes: Mapping[str, Mode],
    done: Collection[tuple[str, str]],
    store: Callable[[Measured], None],
    say: Callable[[str], None],
    *,
    max_tokens: int,
    top_k: int | None,
) -> None:
    """Run the missing conversations; each is passed to `store` as soon as it is over.

    Args:
        done: (conversation id, mode) of those to skip.
        max_tokens: of an answer.
        top_k: passages to retrieve; None: as the stack is set.

    Raises:
        BenchError, RagError: the stack does not start, rejects or fails.
    """
    collection = f"bench-sessions-{material.digest}"
    ready: list[RagClient] = []
    try:
        for number, conversation, mode in plan(material.conversations, modes):
            if (conversation.id, mode) in done:
                continue
            client = stack.client(modes[mode].reuse)
            if client not in ready:
                _ingest(client, collection, material)
                ready.append(client)
            turns = measure(
                client,
                conversation,
                speculation=modes[mode].speculation,
                max_tokens=max_tokens,
                collection=collection,
                top_k=top_k,
                prompt_ids=stack.prompt_ids if mode == PLAIN else lambda session_id, tokens: [],
            )
            measured = Measured(conversation.id, conversation.benchmark, mode, turns)
            store(measured)
            say(f"{number + 1}/{len(material.conversations)} {_summary(measured)}")
    finally:
        for client in ready:
            with contextlib.suppress(RagError):
                client.delete_collection(collection)


def _ingest(client: RagClient, collection: str, material: Material) -> None:
    """Ingest the articles and load the embedding model."""
    if not material.articles:
        return
    texts: list[str | Text] = [
        {"id": title, "title": title.replace("_", " "), "text": text} for title, text in material.articles.items()
    ]
    with contextlib.suppress(Conflict):  # of a run that was killed
        client.create_collection(collection)
    client.ingest(collection, texts=texts)
    client.search(collection, "anything", top_k=1)


def _summary(measured: Measured) -> str:
    first_tokens = "/".join(f"{turn.first_token_ms / 1000:.2f}" for turn in measured.turns)
    steps = sum(turn.steps for turn in measured.turns)
    tokens = sum(turn.tokens for turn in measured.turns)
    return f"{measured.id}, {measured.mode}: {tokens} tokens in {steps} passes, first tokens after {first_tokens} s"
