"""The compiled core does what the readable one does, to the last bit: the same trees, probabilities and sources, and
the same learned tables."""

from __future__ import annotations

import random
import tarfile
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from decoder import Corpus, PromptSegment, SamplingParams, Sequence
from decoder.bench.simulated.replay import replayed_steps
from decoder.drafters.auto import core_choice
from decoder.drafters.auto.copies import HEAD, NO_PLACE, Copies
from decoder.drafters.auto.core import Core, ReadableCore
from decoder.drafters.auto.core_choice import compiled_core, core_for
from decoder.drafters.auto.draft_probabilities import DraftProbabilities
from decoder.drafters.auto.drafter import AutoDrafter
from decoder.drafters.auto.guesses import Guesses
from decoder.drafters.auto.trie import Evidence, Trie
from decoder.drafters.best_tokens import best_tokens
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.acceptance import AcceptanceTable, shipped
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.record import read_recordings

pytest.importorskip("numba")

from decoder.drafters.auto.compiled import lookup, merging
from decoder.jit import digest

RECORDED = Path(__file__).parents[2] / "recorded" / "answers.tar.xz"
KINDS = ("prompt", "passage", "answer", "edited", "template")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    return folder


def contents(tree: DraftTree) -> tuple[object, ...]:
    return tree.tokens, tree.parents, tree.depths, tree.values, tree.sources, tree.is_chain, tree._children


def learned(table: AcceptanceTable) -> list[bytes]:
    return [array.tobytes() for array in (*table.arrays, *table.eos_prior.arrays)]


@pytest.mark.parametrize("module", [lookup, merging])
def test_code_with_other_constants_is_compiled_anew(module: ModuleType) -> None:
    """numba's cache knows a file's time of change alone, and a number of another file was once an old one."""
    assert digest(vars(module)) == module.CONSTANTS, "write this digest into the file"


@pytest.mark.parametrize("name", ["answers", "states"])
def test_recorded_answers_get_the_same_drafts_and_teach_the_same(recorded: Path, name: str) -> None:
    trees: dict[bool, list[Any]] = {}
    tables = {}
    recordings = read_recordings(recorded / f"{name}.jsonl")
    for compiled in (False, True):
        context, found = DrafterContext(cost=AssumedCurve(1.0, 1.5)), list[Any]()
        for recording in recordings:
            drafter = Watched(found, compiled=compiled)
            for _ in replayed_steps(recording, drafter, context=context):
                pass
        domains = sorted({recording.benchmark for recording in recordings})
        trees[compiled], tables[compiled] = found, [learned(context.acceptance.of(domain)) for domain in domains]
    assert len(trees[True]) > 100
    assert trees[True] == trees[False]
    assert tables[True] == tables[False]


class Watched(AutoDrafter):
    def __init__(self, trees: list[Any], **options: Any) -> None:
        super().__init__(**options)
        self._trees = trees

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = super().draft(sequence, budget)
        self._trees.append(contents(tree))
        return tree


class History:
    """A random answer to a random prompt that repeats itself, and what a model would show of each step."""

    def __init__(self, seed: int) -> None:
        self.random = source = random.Random(seed)
        self.vocab = source.choice((2, 5, 30, 400))
        text = [source.randrange(self.vocab) for _ in range(source.choice((1, 3, 40, 900)))]
        while source.random() < 0.8 and len(text) < 4000:
            text += self.stretch(text)
        borders = sorted(source.randrange(len(text) + 1) for _ in range(source.randrange(4)))
        lengths = [end - start for start, end in zip([0, *borders], [*borders, len(text)], strict=True)]
        corpora = [
            Corpus(kind, tuple(self.stretch(text)))
            for kind in ("prediction", "unread", "store", "store")
            if source.random() < 0.3
        ]
        self.sequence = Sequence(
            text,
            SamplingParams(max_tokens=source.choice((20, 2000))),
            [PromptSegment(source.choice(KINDS), length) for length in lengths],
            None,
            frozenset(source.choices(range(self.vocab), k=source.randrange(3))),
            corpora=corpora,
        )

    def stretch(self, text: list[int]) -> list[int]:
        start = self.random.randrange(len(text))
        return text[start : start + self.random.choice((1, 8, 80, 700))]

    def guesses(self) -> Guesses | None:
        source = self.random
        if source.random() < 0.2:
            return None
        logits = torch.tensor([source.gauss(-14, 6) for _ in range(self.vocab)], dtype=torch.float32)
        if source.random() < 0.3:
            logits = logits.round()  # equal ones
        return Guesses(logits.to(source.choice((torch.float32, torch.bfloat16))))

    def similarities(self) -> Any:
        if self.random.random() < 0.4:
            return None
        seed = self.random.random()

        def cosines(positions: Any) -> list[float | None]:
            of = [random.Random(seed + position) for position in positions]
            return [None if one.random() < 0.3 else one.uniform(0.2, 1.0) for one in of]

        return cosines

    def drafted(self) -> DraftProbabilities | None:
        source = self.random
        if source.random() < 0.5:
            return None
        tree = DraftTree()
        for _ in range(source.randrange(20)):
            parent = source.randrange(-1, len(tree))
            above = 1.0 if parent == ROOT else tree.values[parent]
            before = len(tree)
            tree.add(source.randrange(self.vocab), parent, TokenSource("head"))
            if len(tree) > before:
                tree.values.append(above * source.choice((0.0, 0.005, 0.5, source.random())))
        return DraftProbabilities(tree, HEAD)

    def truth(self, tree: DraftTree) -> tuple[list[int], int]:
        """The step's tokens, most of them as drafted, and how many of them were."""
        tokens, node = list[int](), ROOT
        while self.random.random() < 0.9:
            children = [child for child, parent in enumerate(tree.parents) if parent == node]
            if not children:
                break
            node = self.random.choice(children)
            tokens.append(tree.tokens[node])
        return [*tokens, self.random.randrange(self.vocab)], len(tokens)


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_get_the_same_drafts_and_teach_the_same(seed: int) -> None:
    history = History(seed)
    sequence, source = history.sequence, history.random
    matches, longest = source.choice((1, 24, 100)), source.choice((1, 64))
    compiled = compiled_core()
    assert compiled is not None
    cores: list[Core] = [kind("auto", Copies(matches, longest)) for kind in (ReadableCore, compiled)]
    start = shipped().faded(500.0) if source.random() < 0.5 else AcceptanceTable()
    if source.random() < 0.3:
        observed = np.asarray(start.observed)
        observed[observed > 0] = 4095.0  # so that counts are halved
    tables = [start.copy(), start.copy()]
    for _ in range(25):
        guesses, similarities, drafted = history.guesses(), history.similarities(), history.drafted()
        recent, least = source.randrange(4), source.choice((0.0, 0.002, 0.05))
        budget, depth = source.choice((0, 1, 7, 64)), min(sequence.remaining - 1, source.choice((0, 1, 100)))
        tries = list[Trie]()
        for core, table in zip(cores, tables, strict=True):
            evidence = Evidence(table, recent, sequence.last_token, sequence.end_tokens, guesses, drafted)
            first = core.find(sequence, evidence, least, similarities)
            assert first == cores[0].find(sequence, evidence, least, similarities)
            tries.append(core.merge(sequence, evidence, nodes=budget, depth=depth, least=least))
        readable, fast = tries
        assert contents(fast.tree) == contents(readable.tree)
        tokens, copied = history.truth(readable.tree)
        assert fast.leading(tokens[:copied]) == readable.leading(tokens[:copied])
        position, length = readable.leading(tokens[:copied])
        for core, trie in zip(cores, tries, strict=True):
            trie.learn(tokens)
            end, run = (None, 0) if position == NO_PLACE else (position + copied, length + copied)
            core.copies.follow(end, run, len(tokens))
        assert learned(tables[1]) == learned(tables[0])
        if source.random() < 0.1:
            tokens += history.stretch(sequence.prompt)  # a long one freezes the index anew
        sequence.extend(tokens)
        if sequence.finished:
            break


@pytest.mark.parametrize("vocab", [1, 63, 64, 65, 1000])
def test_the_best_logits_come_in_the_same_order(vocab: int) -> None:
    from decoder.drafters.auto.compiled.lookup import best

    source = np.random.default_rng(vocab)
    for values in (source.normal(size=vocab), source.integers(-3, 3, vocab), np.full(vocab, -np.inf)):
        logits = torch.tensor(values, dtype=torch.float32)
        for count in (1, 11, 49):
            assert best(logits.numpy(), count).tolist() == best_tokens(logits, count)


def test_without_numba_the_core_is_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(AutoDrafter()._core) is compiled_core()
    monkeypatch.setattr(core_choice, "compiled_core", lambda: None)
    assert type(AutoDrafter()._core) is ReadableCore
    with pytest.raises(ValueError, match=r"run .pip install -e '\.\[native\]'. in the project's folder"):
        core_for(True)
