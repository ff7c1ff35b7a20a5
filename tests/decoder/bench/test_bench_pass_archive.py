"""Recordings that keep logits and hidden states: drafters that read them replay with the counts the engine gives."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from decoder import Engine, SamplingParams
from decoder.bench.simulated.replay import replay
from decoder.drafters import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.recording.pass_archive import PassArchive, archive_contents, archive_path
from decoder.recording.prompts import BenchError, Item
from decoder.recording.record import Recording, read_recordings, record
from decoder.recording.specs import make_from_spec
from decoder.sequence import PromptSegment, Sequence
from tests.support.tiny_models import tiny_target

VOCAB = 200
LAYERS = (0, 1)
SPECS = ("plain", "casd", "logitspec")


class Plainest:
    """A chat whose prompt is the item's text, a token a character."""

    def prompt_ids(self, item: Item, replies: list[str]) -> list[int]:
        text = "".join([*item.messages()[: len(replies) + 1], *replies])
        return [3 + ord(character) % (VOCAB - 3) for character in text]

    def segments(self, item: Item, replies: list[str]) -> tuple[PromptSegment, ...]:
        ids = self.prompt_ids(item, replies)
        return PromptSegment("message", 2), PromptSegment("passage", len(ids) - 2)

    def text(self, ids: list[int]) -> str:
        return "".join(chr(97 + token % 26) for token in ids)


class ReadingDrafter(Drafter):
    """Drafts the second best token of the last logits, and what followed the row most like the last one (like PLD+)."""

    name: ClassVar[str] = "reading"

    def __init__(self, layer: int = 1) -> None:
        self.required_outputs = RequiredOutputs(hidden=frozenset({layer}))
        self._layer = layer
        self._rows: list[torch.Tensor] = []
        self._second = 0

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        assert outputs.logits.shape == (1, VOCAB)
        assert int(outputs.logits.argmax()) == accepted.tokens[-1]
        assert all(sequence.history.counts[token] for token in accepted.tokens)
        self._rows.extend(outputs.hidden[self._layer].float())
        assert sequence.finished or len(self._rows) == sequence.position - 1
        self._second = int(outputs.logits[0].topk(2).indices[1])

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        rows = torch.nn.functional.normalize(torch.stack(self._rows), dim=1)
        best = int((rows[:-1] @ rows[-1]).argmax())
        text = sequence.prompt + sequence.tokens
        tree = DraftTree()
        tree.add(self._second, ROOT, TokenSource(self.name))
        copied = text[best + 1 : best + 6]
        tree.add_chain(copied, [TokenSource(self.name, None, best + 1 + i) for i in range(len(copied))])
        return tree


ITEMS = [
    Item("a/b c", "bench", "qa", ("abcabcabd abcabd",)),
    Item("ü" * 300, "bench", "qa", ("hello hello", "again")),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_target(vocab_size=VOCAB, seed=3, memory=0.05, window=400), "plain", eos_token_ids=[2])


def recorded(engine: Engine, out: Path, **settings: Any) -> list[Recording]:
    chat: Any = Plainest()
    items: list[Item] = settings.pop("items", ITEMS)
    facts = {"model": "tiny", "dtype": "float64", "max_tokens": 40}
    record(engine, chat, items, out, **{**facts, "keep_logits": True, "keep_hidden": LAYERS, **settings})
    return read_recordings(out)


@pytest.fixture(scope="module")
def recordings(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    return recorded(engine, tmp_path_factory.mktemp("kept") / "r.jsonl")


def same_counts(engine: Engine, recording: Recording, make: Any) -> int:
    """Assert that engine and replay count alike; returns the tokens that were accepted."""
    params = SamplingParams(max_tokens=recording.max_tokens)
    segments = [PromptSegment(kind, length) for kind, length in recording.segments]
    assert len(segments) == 2
    sequence = engine.start(recording.prompt_ids, params, drafter=make(), segments=segments)
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    assert sequence.tokens == recording.output_ids
    stats, _ = replay(recording, make())
    assert dataclasses.replace(stats, ms=sequence.stats.ms) == sequence.stats
    return stats.accepted


READERS = {
    "reading": ReadingDrafter,
    "logitspec": lambda: make_from_spec("logitspec"),
    "pld_plus": lambda: make_from_spec("pld_plus:layer=1"),
}


@pytest.mark.parametrize("make", READERS.values(), ids=READERS)
def test_drafters_that_read_passes_count_as_in_the_engine(
    engine: Engine, recordings: list[Recording], make: Any
) -> None:
    assert sum(same_counts(engine, recording, make) for recording in recordings) > 0


@pytest.mark.parametrize("drafter", SPECS[1:])
@pytest.mark.parametrize("batch", [1, 3])
def test_what_is_kept_does_not_depend_on_how_it_was_recorded(
    engine: Engine, recordings: list[Recording], tmp_path: Path, drafter: str, batch: int
) -> None:
    other = recorded(engine, tmp_path / "r.jsonl", drafter=drafter, batch=batch)
    expected = {(r.id, r.turn): r for r in recordings}
    assert sum(r.steps < len(r.output_ids) - 1 for r in other) > 0  # some step chose several tokens
    for recording in other:
        plain = expected[recording.id, recording.turn]
        assert recording.output_ids == plain.output_ids
        assert recording.archive is not None
        assert plain.archive is not None
        ours, theirs = PassArchive.load(recording.archive, LAYERS), PassArchive.load(plain.archive, LAYERS)
        assert ours.logit_ids is not None
        assert ours.logit_ids.shape == (len(plain.output_ids), 64)
        assert ours.logit_ids[:, 0].tolist() == plain.output_ids
        np.testing.assert_array_equal(ours.logit_ids, theirs.logit_ids)
        np.testing.assert_allclose(ours.logit_values, theirs.logit_values, rtol=1e-6)  # type: ignore[arg-type]
        for layer in LAYERS:
            assert ours.hidden[layer].dtype == np.float16
            assert ours.hidden[layer].shape == (len(plain.prompt_ids) + len(plain.output_ids) - 1, 32)
            np.testing.assert_allclose(ours.hidden[layer], theirs.hidden[layer], rtol=2e-3, atol=1e-3)


def test_archives_lie_beside_the_lines_and_not_in_them(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    recorded(engine, out)
    assert '"archive"' not in out.read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.jsonl", "r.jsonl.d"]
    names = sorted(path.name for path in (tmp_path / "r.jsonl.d").iterdir())
    assert len(names) == 3
    assert all(len(name) < 100 and name.isascii() and "/" not in name for name in names)
    assert archive_path(out, "a/b c", 1) != archive_path(out, "a_b_c", 1)


def test_a_run_goes_on_only_with_what_the_first_one_kept(engine: Engine, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    recorded(engine, out, items=ITEMS[:1])
    assert len(recorded(engine, out)) == 3
    bare = tmp_path / "bare.jsonl"
    recorded(engine, bare, items=ITEMS[:1], keep_logits=False, keep_hidden=())
    for wanted in ({"keep_logits": True, "keep_hidden": ()}, {"keep_logits": False, "keep_hidden": (1,)}):
        with pytest.raises(BenchError, match="name another --out"):
            recorded(engine, bare, **wanted)
    with pytest.raises(BenchError, match="layers 0 to 1"):
        recorded(engine, out, keep_hidden=(2,))


def test_a_drafter_that_reads_what_is_not_there_is_told_what_to_record(engine: Engine, tmp_path: Path) -> None:
    [bare] = recorded(engine, tmp_path / "a.jsonl", items=ITEMS[:1], keep_logits=False, keep_hidden=())
    [one] = recorded(engine, tmp_path / "b.jsonl", items=ITEMS[:1], keep_logits=False, keep_hidden=(0,))
    assert bare.archive is None
    assert one.archive is not None
    assert archive_contents(one.archive) == (False, {0})
    assert replay(bare, make_from_spec("casd"))[0].tokens == len(bare.output_ids)
    with pytest.raises(BenchError, match=r"reading reads the hidden states of layer 1.*keeps none.*--keep-hidden 1"):
        replay(bare, ReadingDrafter())
    with pytest.raises(BenchError, match=r"keeps those of layer 0"):
        replay(one, ReadingDrafter())
    with pytest.raises(BenchError, match="record with --keep-logits"):
        replay(bare, make_from_spec("logitspec"))

    class AttentionDrafter(ReadingDrafter):
        def setup(self, context: DrafterContext) -> None:
            self.required_outputs = RequiredOutputs(queries=frozenset({1}))

    with pytest.raises(BenchError, match="bench decode"):
        replay(one, AttentionDrafter())


def test_the_lowest_kept_layer_is_the_one_to_read(engine: Engine, tmp_path: Path) -> None:
    layers_seen: list[int | None] = []

    class AskingDrafter(ReadingDrafter):
        def setup(self, context: DrafterContext) -> None:
            layers_seen.append(context.hidden_layer)

    for number, layers in enumerate([(1,), (0, 1)]):
        [recording] = recorded(engine, tmp_path / f"{number}.jsonl", items=ITEMS[:1], keep_hidden=layers)
        replay(recording, AskingDrafter())
    assert layers_seen == [1, 0]


def test_states_beyond_float16_are_kept_at_its_ends(engine: Engine, tmp_path: Path) -> None:
    block = engine.target.model.get_decoder().layers[0]
    hook = block.register_forward_hook(lambda _module, _inputs, output: output * 1e9)
    try:
        [recording] = recorded(engine, tmp_path / "r.jsonl", items=ITEMS[:1])
    finally:
        hook.remove()
    assert recording.archive is not None
    states = PassArchive.load(recording.archive, [0]).hidden[0]
    assert np.isfinite(states).all()
    assert np.abs(states).max() == np.finfo(np.float16).max
