"""A second answer to a question for a yes or no, where the passages do not state the first one.

Small models say yes to nearly every such question, whatever the passages say. A second answer that may not begin so
states more often what they do say; it takes the first one's place if they state it (docs/decisions/workers.md). The
first is held back until that is decided, unless it begins otherwise or becomes long.

Knows relays, support and handles; knows no Redis. The openings come with the job
(`rag_service/prompting/first_words.py`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

from workers.answers.relay import Relay
from workers.broker.messages import Checking, Support
from workers.errors import AnswerEnded, AnswerMissing, AnswerTaken, QueueUnavailable, RuntimeClosed
from workers.worker.runtime import GenerationHandle

logger = logging.getLogger(__name__)

MOST_HELD = 64
"""Tokens of a first answer that are held back; a longer one is shown, and stays."""
LEAST_SPOKEN = 0.25
"""Of what was asked, a second answer has more than this in its words: a quotation of something else is no answer."""


@dataclass
class Second:
    """What became of a second answer.

    Attributes:
        support: its support if it took the first one's place, else None.
        handle: what decoded it; None if it did not begin.
        decode_ms: milliseconds that it was decoded, without waiting for its turn.
    """

    support: Support | None = None
    handle: GenerationHandle | None = None
    decode_ms: float = 0.0


def is_possible(checking: Checking) -> bool:
    """Whether an answer may get a second one at all."""
    return bool(checking.openings) and checking.doubtful_below > 0.0


def may_follow(checking: Checking, ids: Sequence[int]) -> bool:
    """Whether an answer that has begun with these tokens may get a second one."""
    if len(ids) > MOST_HELD:
        return False
    return any(ids[: len(opening)] == opening[: len(ids)] for opening in checking.openings)


def is_wanted(checking: Checking, ids: Sequence[int], support: Support) -> bool:
    """Whether a complete answer gets a second one: it has little support, and the second one would begin otherwise."""
    whole = len(ids) <= MOST_HELD and any(ids[: len(opening)] == opening for opening in checking.openings)
    return whole and support.support < checking.doubtful_below


def answer_again(
    checking: Checking,
    first: Relay,
    support: Support,
    second: Relay,
    submit: Callable[[], GenerationHandle],
    judge: Callable[[str], Support | None],
) -> Second:
    """Decode the second answer, and put it in the place of the first one if it is better.

    After an error of the engine the first one stays. It ends as cancelled if the second one is.

    Args:
        first, support: the first answer, complete and held back.
        second: takes what is generated; held back.
        judge: text -> its support.

    Raises:
        RuntimeClosed, QueueUnavailable, and the stream's errors.
    """
    result, begun = Second(), time.perf_counter()
    try:
        result.handle = handle = submit()
        with closing(handle):
            for step in handle:
                second.take(step)
                if second.finish_reason is not None:
                    break
        result.decode_ms = 1e3 * (time.perf_counter() - begun) - handle.waited_ms
        if second.finish_reason == "cancelled":
            first.finish_reason = "cancelled"
            return result
        found = judge(second.text)
    except (RuntimeClosed, QueueUnavailable, AnswerMissing, AnswerEnded, AnswerTaken):
        raise
    except Exception as error:
        logger.warning("a second answer failed (%s: %s); the first one stays", type(error).__name__, error)
        return result
    if found is not None and _is_better(checking, support, found):
        first.take_over(second)
        result.support = found
    return result


def _is_better(checking: Checking, first: Support, second: Support) -> bool:
    """Whether the passages state the second answer, and the first one less, and it speaks of what was asked."""
    return second.support >= checking.doubtful_below and second.support > first.support and second.spoken > LEAST_SPOKEN
