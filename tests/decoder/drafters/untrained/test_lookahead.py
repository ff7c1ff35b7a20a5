"""`lookahead` against a plain reading of the paper, whose rows are passes of the target over what a row may see."""

from __future__ import annotations

import random

import pytest

from decoder import Engine, Generation, SamplingParams
from decoder.bench.simulated.replay import replay
from decoder.drafters.untrained.lookahead import LookaheadDrafter
from decoder.drafters.untrained.ngram_pool import NgramPool
from decoder.drafts.tree import ROOT, DraftTree
from decoder.recording.prompts import BenchError
from decoder.recording.record import Recording
from tests.support.tiny_models import tiny_target

VOCAB = 61
PROMPT = [5, 9, 14, 5, 9, 20, 33, 5]
Path = tuple[int, ...]


def paths(tree: DraftTree) -> set[Path]:
    made: list[Path] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        made.append((*(made[parent] if parent != ROOT else ()), token))
    return set(made)


class PlainReading:
    """Section 3 on lists: `levels[0]` lacks the last token, as in the paper's figures."""

    def __init__(self, engine: Engine, window: int, ngram: int, guesses: int) -> None:
        self.target, self.window, self.ngram, self.guesses = engine.target, window, ngram, guesses
        source = random.Random(0)
        first = [source.choice(PROMPT) for _ in range(window + ngram - 2)]
        self.levels = [first[1:]]
        self.pool: dict[int, list[Path]] = {}

    def greedy(self, text: list[int]) -> int:
        return int(self.target.prefill(text, self.target.new_cache(len(text))).logits[-1].argmax())

    def tree(self, text: list[int]) -> set[Path]:
        wanted: set[Path] = set()
        columns = len(self.levels[0]) + 1
        for column in range(columns):
            before = self.levels[0][:column]
            wanted.update(tuple(before[:size]) for size in range(1, column + 1))
            tail = [level[column] for level in self.levels[1:]]
            wanted.update((*before, *tail[:size]) for size in range(1, len(tail) + 1))
        for ngram in self.pool.get(text[-1], []):
            wanted.update(ngram[:size] for size in range(1, self.ngram))
        return wanted

    def step(self, text: list[int]) -> None:
        """A pass whose last token is the text's."""
        columns = len(self.levels[0]) + 1
        results = []
        for column in range(columns):
            seen = [*self.levels[0][:column], *(level[column] for level in self.levels[1:])]
            results.append(self.greedy(text + seen))
        if len(self.levels) < self.ngram - 1:
            self.levels = [level[1:] for level in [*self.levels, results]]
            return
        for column in range(columns):
            key = text[-1] if column == 0 else self.levels[0][column - 1]
            found = (*(level[column] for level in self.levels[1:]), results[column])
            kept = [ngram for ngram in self.pool.get(key, []) if ngram != found]
            self.pool[key] = [*kept, found][-self.guesses :]
        self.levels = [self.levels[1][1:], *self.levels[2:], results]


@pytest.mark.parametrize("temperature", [0.0, 0.9])
def test_trees_are_those_of_a_plain_reading(temperature: float) -> None:
    engine = Engine(tiny_target("llama", VOCAB, memory=0.3), "plain")
    reading = PlainReading(engine, window=5, ngram=4, guesses=3)
    drafter = LookaheadDrafter(window=5, ngram=4, guesses=3)
    params = SamplingParams(max_tokens=150, temperature=temperature, seed=4)
    sequence = engine.start(PROMPT, params, drafter=drafter)
    engine.prefill(sequence)
    while sequence.remaining > 90:
        text = sequence.prompt + sequence.tokens
        assert paths(drafter.draft(sequence, 64)) == reading.tree(text)
        reading.step(text)
        engine.step([sequence])
    assert sequence.stats.accepted > 5
    assert sum(len(ngrams) > 1 for ngrams in reading.pool.values()) > 1


def test_the_default_budget_holds_eight_columns_and_eight_ngrams() -> None:
    sequence = Generation(PROMPT, SamplingParams(max_tokens=99), (), LookaheadDrafter(), None, frozenset())
    drafter = LookaheadDrafter()
    for levels in range(1, 5):
        assert len(drafter.draft(sequence, 64)) <= 64
        assert drafter._window is not None
        assert drafter._window.levels == levels
        columns = len(drafter._window.rows(drafter.draft(sequence, 64)))
        if levels < 4:
            drafter._window.advance(range(20, 20 + columns))
    assert columns == 8
    for token in range(20):
        drafter._pool.add(sequence.last_token, [40 + token, 1, 2, 3])
    tree = drafter.draft(sequence, 64)
    assert sum(tree.child(ROOT, 40 + token) is not None for token in range(20)) == 8
    assert len(tree) <= 64


def test_budget_and_the_end_of_the_answer_bound_it() -> None:
    engine = Engine(tiny_target("llama", VOCAB, memory=0.3), "plain")
    for most in (0, 1, 2, 3, 5, 8, 20):
        drafter = LookaheadDrafter()
        sequence = engine.start(PROMPT, SamplingParams(max_tokens=30), drafter=drafter, max_nodes=most)
        engine.prefill(sequence)
        while not sequence.finished:
            if sequence.remaining > 1:
                tree = drafter.draft(sequence, most)
                assert len(tree) <= most
                assert max(tree.depths, default=0) < sequence.remaining
            engine.step([sequence])


def test_the_pool_keeps_the_newest_ngrams() -> None:
    pool = NgramPool(2)
    for rest in ([1, 2], [3, 4], [1, 2], [5, 6]):
        pool.add(9, rest)
    assert pool.after(9) == [(5, 6), (1, 2)]
    assert pool.after(1) == []


def test_recordings_do_not_have_its_rows() -> None:
    recording = Recording("a", "b", "c", 1, PROMPT, [1, 2, 3], "m", "float32", "length", 9)
    with pytest.raises(BenchError, match="rejected"):
        replay(recording, LookaheadDrafter())


@pytest.mark.parametrize("options", [{"window": 0}, {"ngram": 1}, {"guesses": 0}])
def test_options_are_checked(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        LookaheadDrafter(**options)
