"""Every conversation held in every mode, what is there already left out. Knows stacks and modes; sums nothing up."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rag_service.bench.conversations import Conversation, Material
from rag_service.bench.outcomes import Talked
from rag_service.bench.rows import PLAIN
from rag_service.bench.stack import Stacks
from rag_service.bench.talk import talk
from rag_service.client import RagClient
from rag_service.client.calls import Text
from rag_service.client.errors import Conflict, RagError

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Mode:
    """How answers come about.

    Attributes:
        speculation: `off`, `auto` or a drafter's name.
        reuse: whether workers keep earlier turns' keys and values.
    """

    speculation: str
    reuse: bool


@dataclass(frozen=True, slots=True)
class How:
    """What all conversations of a run have in common.

    Attributes:
        max_tokens: of an answer.
        top_k: passages that a question retrieves; None leaves it to the stack.
        two_stacks: whether there is one without reuse.
    """

    max_tokens: int
    top_k: int | None
    two_stacks: bool


def modes_of(drafter: str, two_stacks: bool) -> dict[str, Mode]:
    """The modes by name.

    Plain has no reuse either, so that it never begins on what the drafter's conversation left. On a single stack there
    is no way to ask without reuse; what plain begins on there changes its first tokens' times alone.
    """
    if not two_stacks:
        return {drafter: Mode(drafter, True), PLAIN: Mode("off", True)}
    return {drafter: Mode(drafter, True), f"{drafter} without reuse": Mode(drafter, False), PLAIN: Mode("off", False)}


def plan(
    conversations: Sequence[Conversation], modes: Mapping[str, Mode], two_stacks: bool
) -> Iterator[tuple[int, Conversation, str]]:
    """(number, conversation, mode): all modes of a conversation before the next conversation comes.

    Every second one goes backwards: the machine's moods hit all modes alike, and one start of a worker serves two
    conversations. On a single stack the drafter always goes first, else it would begin on what plain left.
    """
    for number, conversation in enumerate(conversations):
        names = list(modes)
        for mode in names[::-1] if two_stacks and number % 2 else names:
            yield number, conversation, mode


def hold(
    stacks: Stacks,
    material: Material,
    modes: Mapping[str, Mode],
    done: Sequence[Talked],
    keep: Callable[[Talked], None],
    say: Say,
    how: How,
) -> None:
    """Hold what is missing; each conversation is handed to `keep` as soon as it is over.

    Raises:
        BenchError, RagError: a stack does not come up, refuses or fails.
    """
    there = {(one.id, one.mode) for one in done}
    collection = f"bench-sessions-{material.digest}"
    ready: list[RagClient] = []
    try:
        for number, conversation, mode in plan(material.conversations, modes, how.two_stacks):
            if (conversation.id, mode) in there:
                continue
            client = stacks.at(modes[mode].reuse)
            if client not in ready:
                _ingest(client, collection, material)
                ready.append(client)
            turns = talk(
                client,
                conversation,
                speculation=modes[mode].speculation,
                max_tokens=how.max_tokens,
                collection=collection,
                top_k=how.top_k,
                prompt_ids=stacks.prompt_ids if mode == PLAIN else lambda session_id, tokens: [],
            )
            one = Talked(conversation.id, conversation.benchmark, mode, turns)
            keep(one)
            say(_line(number + 1, len(material.conversations), one))
    finally:
        for client in ready:
            with contextlib.suppress(RagError):
                client.delete_collection(collection)


def _ingest(client: RagClient, collection: str, material: Material) -> None:
    """Have the articles found, and the embedding model awake."""
    if not material.articles:
        return
    texts: list[str | Text] = [
        {"id": title, "title": title.replace("_", " "), "text": text} for title, text in material.articles.items()
    ]
    with contextlib.suppress(Conflict):  # of a run that was killed
        client.create_collection(collection)
    client.ingest(collection, texts=texts)
    client.search(collection, "anything", top_k=1)


def _line(number: int, of: int, one: Talked) -> str:
    firsts = "/".join(f"{turn.first_token_ms / 1000:.2f}" for turn in one.turns)
    steps = sum(turn.steps for turn in one.turns)
    tokens = sum(turn.tokens for turn in one.turns)
    return f"{number}/{of} {one.id}, {one.mode}: {tokens} tokens in {steps} passes, first tokens after {firsts} s"
