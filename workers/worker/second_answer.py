"""A second answer to a question for a yes or no, where the passages do not state the first one.

Small models say yes to nearly every such question, whatever the passages say. A second answer that may not begin so
states more often what they do say; it takes the first one's place if they state it (docs/decisions/workers.md). The
first is held back until that is decided, unless it begins otherwise or becomes long.

Knows relays, support and handles; knows no Redis. The openings come with the job
(`rag_service/prompting/first_words.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from workers.answers.relay import Relay
from workers.broker.messages import Checking, Support
from workers.worker.runtime import GenerationHandle

MOST_HELD = 64
"""Tokens of a first answer that are held back; a longer one is shown, and stays."""
LEAST_SPOKEN = 0.25
"""Of what was asked, a second answer has more than this in its words: a quotation of something else is no answer."""


def may_follow(checking: Checking, ids: Sequence[int]) -> bool:
    """Whether an answer that has begun with these tokens may get a second one."""
    if len(ids) > MOST_HELD:
        return False
    return any(ids[: len(opening)] == opening[: len(ids)] for opening in checking.openings)


def is_wanted(checking: Checking, ids: Sequence[int], support: Support) -> bool:
    """Whether a complete answer gets a second one: it has little support, and the second one would begin otherwise."""
    whole = len(ids) <= MOST_HELD and any(ids[: len(opening)] == opening for opening in checking.openings)
    return whole and support.support < checking.doubtful_below


def replaced(
    checking: Checking,
    first: Relay,
    support: Support,
    second: Relay,
    handle: GenerationHandle,
    judge: Callable[[str], Support | None],
) -> Support | None:
    """Decode the second answer, and put it in the place of the first one if it is better.

    Args:
        first, support: the first answer, held back. It ends as cancelled if the second one is.
        second: takes what the handle generates; held back.
        judge: text -> its support.

    Returns:
        the second answer's support if it took the place, else None.
    """
    with closing(handle):
        for step in handle:
            second.take(step)
            if second.finish_reason is not None:
                break
    if second.finish_reason == "cancelled":
        first.finish_reason = "cancelled"
        return None
    found = judge(second.text)
    if found is None or not _is_better(checking, support, found):
        return None
    first.take_over(second)
    return found


def _is_better(checking: Checking, first: Support, second: Support) -> bool:
    """Whether the passages state the second answer, and the first one less, and it speaks of what was asked."""
    return second.support >= checking.doubtful_below and second.support > first.support and second.spoken > LEAST_SPOKEN
