"""Copied runs: the runs of an answer's tokens that also occur in a passage, each assigned to one passage. Pure.

All runs of an answer are chosen together, to cover many tokens with few runs and few changes of passage. A covered
token gains `TOKEN` and each run costs `RUN`. A run that follows one of another passage also costs `CHANGE`: most
within a clause, less after a comma, nothing after a sentence. So a run that occurs in several passages goes to the
passage of its surroundings, even if another passage has one more token of it. Ties go with the next run rather than
the previous one (a sentence names its subject first), then to the better-ranked passage.

Tokens are equal if their characters are; the first token of a run may have other leading white space. Knows tokens'
characters; knows no tokenizer, no model and no drafting.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

TOKEN = 2
"""Gain of a covered token; a token of white space gains nothing."""
RUN = 2
"""Cost of a run."""
CHANGE = (2, 1, 0)
"""Extra cost of a run if the run before it is of another passage: in the same clause; after the end of a clause; after
the end of a sentence."""

_CLOSING = ",.;:!?…)]}،、，。；：！？"
"""A run does not begin with a token of only these characters: they belong to the text before."""
_CLAUSE_END = re.compile(r"[,;:–—](?=\s)|[،、，；：]")
_SENTENCE_END = re.compile(r"[.!?…]+[\"”’»')\]]*(?=\s)|[。！？]|\n")


@dataclass(frozen=True, slots=True)
class Text:
    """A text and its tokens.

    `spans`: one (start, end) per id, in code points of `text`: the characters that the token yields, whole or in part.
    """

    ids: Sequence[int]
    spans: Sequence[tuple[int, int]]
    text: str


@dataclass(frozen=True, slots=True)
class Run:
    """Tokens start:end of the answer are tokens at : at + end - start of a passage."""

    start: int
    end: int
    passage: int
    at: int


class _Chosen(NamedTuple):
    """A run, and the one chosen before it."""

    start: int
    end: int
    passage: int
    before: _Chosen | None


class _Path(NamedTuple):
    """Runs up to some token: their sum and the last of them."""

    score: int
    last: _Chosen | None


class _Start(NamedTuple):
    """A run that starts after a path. `value`: the path's sum less what the tokens before `start` could gain."""

    value: int
    start: int
    before: _Chosen | None


def copied_runs(answer: Text, passages: Sequence[Text], min_run: int) -> list[Run]:
    """Shared token runs that do not overlap, in answer order, each of at least `min_run` tokens.

    A run gets the first position in its passage after the passage's previous run, else the first position of all.

    Args:
        passages: best-ranked first.
        min_run: at least 1.
    """
    names = _Names()
    own = names.of(answer)
    texts = [names.of(passage) for passage in passages]
    reached = [0] * len(texts)
    runs: list[Run] = []
    for start, end, passage, _ in _chosen(answer, own, texts, min_run):
        run = own[2 * start + 1 : 2 * end]
        place = texts[passage].find(run, reached[passage])
        if place < 0:
            place = texts[passage].find(run)
        reached[passage] = place + len(run)
        runs.append(Run(start, end, passage, place // 2))
    return runs


def _chosen(answer: Text, own: str, texts: Sequence[str], min_run: int) -> list[_Chosen]:
    """The runs with the highest sum, by dynamic programming over the answer's tokens."""
    count = len(answer.spans)
    ends = _ends(answer)
    tokens = [answer.text[start:end].strip() for start, end in answer.spans]
    gained = [0, *accumulate(TOKEN if token else 0 for token in tokens)]
    holders = _holders(own, texts, min_run)
    after: list[_Path | None] = [None] * len(texts)  # the best path that ends in a passage
    recent: list[_Path | None] = [None] * len(CHANGE)  # the best path by what has ended since its last run
    begun: list[list[tuple[int, _Start | None]]] = []  # by token: the runs that start at it, with their passages
    open_: list[deque[_Start]] = [deque() for _ in texts]  # starts that ends can go with; values fall
    left = [0] * len(texts)  # runs that end here start at this token or later
    ended = [-1] * len(texts)  # the last token in front of which a run could end
    for t in range(count + 1):
        kind = ends[t]
        for level in range(kind):
            recent[kind], recent[level] = _better(recent[kind], recent[level]), None
        for passage, start in begun[t - min_run] if t >= min_run else ():
            starts = open_[passage]
            if start:
                while starts and starts[-1].value <= start.value:
                    starts.pop()
                starts.append(start)
            if ended[passage] < t - 1:
                left[passage] = t - min_run
            ended[passage] = t
            while own[2 * left[passage] + 1 : 2 * t] not in texts[passage]:
                left[passage] += 1
            while starts and starts[0].start < left[passage]:
                starts.popleft()
            if starts:
                value, first, before = starts[0]
                path = _Path(value + gained[t] - RUN, _Chosen(first, t, passage, before))
                after[passage], recent[kind] = _better(after[passage], path), _better(recent[kind], path)
        change = _Path(0, None)
        for path_, cost in zip(recent, CHANGE, strict=True):
            if path_ and path_.score - cost > change.score:
                change = _Path(path_.score - cost, path_.last)
        may_begin = t < count and tokens[t].strip(_CLOSING) != ""
        begun.append([])
        for passage in holders.get(own[2 * t + 1 : 2 * (t + min_run)], ()):
            same = after[passage]
            score, last = same if same and same.score >= change.score else change
            begun[t].append((passage, _Start(score - gained[t], t, last) if may_begin else None))
    best = _Path(0, None)
    for path_ in after:
        best = _better(best, path_) or best
    runs: list[_Chosen] = []
    run = best.last
    while run:
        runs.append(run)
        run = run.before
    return runs[::-1]


def _ends(answer: Text) -> list[int]:
    """The break before each token and after the last one: 1 the end of a clause, 2 of a sentence, else 0."""
    starts = [start for start, _ in answer.spans]
    breaks = [0] * (len(starts) + 1)
    for kind, pattern in enumerate((_CLAUSE_END, _SENTENCE_END), start=1):
        for match in pattern.finditer(answer.text):
            breaks[bisect_left(starts, match.end())] = kind
    return breaks


def _holders(own: str, texts: Sequence[str], size: int) -> dict[str, list[int]]:
    """By the answer's runs of this many tokens: the passages that hold them, better-ranked ones first."""
    wanted = _runs(own, size)
    passages_of: dict[str, list[int]] = {}
    for passage, text in enumerate(texts):
        for run in wanted & _runs(text, size):
            passages_of.setdefault(run, []).append(passage)
    return passages_of


def _runs(text: str, size: int) -> set[str]:
    width = 2 * size - 1
    return {text[i : i + width] for i in range(1, len(text) - width + 1, 2)}


def _better(one: _Path | None, other: _Path | None) -> _Path | None:
    """The path with the higher sum; the first of equals."""
    return other if one is None or (other is not None and other.score > one.score) else one


class _Names(dict[str, str]):
    """Two characters a token: a name of the white space in front of it, and one of the rest.

    So runs are substrings that begin with the name of their first token's rest, searched for in C.
    """

    def __init__(self) -> None:
        super().__init__()
        self._spaces: dict[str, str] = {}
        self._rests: dict[str, str] = {}

    def __missing__(self, token: str) -> str:
        rest = token.lstrip()
        space = token[: len(token) - len(rest)]
        first = self._spaces.setdefault(space, chr(2 * len(self._spaces)))
        self[token] = name = first + self._rests.setdefault(rest, chr(2 * len(self._rests) + 1))
        return name

    def of(self, text: Text) -> str:
        """White space at the end of a token, or between tokens, belongs to the next token."""
        whole, position = text.text, 0
        letters: list[str] = []
        for start, end in text.spans:
            token = whole[position if position < start else start : end]
            visible = token.rstrip()
            position = end - len(token) + len(visible)
            letters.append(self[visible])
        return "".join(letters)
