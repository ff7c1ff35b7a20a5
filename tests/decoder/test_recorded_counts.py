"""Drafting does not change unseen: every drafter's counts on a small set of recorded answers equal the ones on file.

`recorded/answers.tar.xz` holds answers of SmolLM2-135M to `benchmarks/items/items.jsonl`, with the logits and hidden
states that drafters read; recorded with

    rag bench record --model smollm2-135m --data items.jsonl --max-tokens 96 --keep-logits --drafter auto
    rag bench record --model smollm2-135m --data … --max-tokens 64 --keep-hidden 12 --drafter auto

where the second has one item each of rag, document_edit, code_fix and follow_up. Drafters that need a model run on tiny
ones. `python -m tests.decoder.test_recorded_counts` writes `counts.json` anew; a change to it is a change to drafting,
and its commit says why.
"""

from __future__ import annotations

import json
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pytest

from decoder import Engine, SamplingParams
from decoder.bench.simulated.replay import make_drafter, replay
from decoder.drafters import Drafter
from decoder.drafters import make_drafter as named
from decoder.drafters.context import DrafterContext
from decoder.drafters.pld_plus import PldPlusDrafter
from decoder.drafts.stats import DecodeStats
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.record import read_recordings
from tests.support.tiny_models import knowing_adapters, tiny_eagle, tiny_target

FOLDER = Path(__file__).parent / "recorded"
COUNTS = FOLDER / "counts.json"
REPLAYED = {
    "pld": "answers",
    "copyspec": "answers",
    "casd": "answers",
    "casd:matches=1:length=4": "answers",
    "logitspec": "answers",
    "auto": "answers",
    "oracle": "answers",
    "pld_plus:layer=12": "states",
}
LIVE = (
    "pld_plus_a",
    "recycling",
    "lookahead",
    "small_model",
    "copyspec+small_model",
    "casd+small_model",
    "eagle",
    "casd+eagle",
    "sdsat",
    "sdsat_two_step",
)

Counts = list[Any]
"""[id, turn or mode, tokens, passes, drafted, accepted, [accepted by source]] an answer."""


def counts_of(name: str, turn: int | str, stats: DecodeStats) -> Counts:
    by_source = {source: count.accepted for source, count in sorted(stats.by_source.items())}
    return [name, turn, stats.tokens, stats.steps, stats.drafted, stats.accepted, by_source]


def replayed(folder: Path, spec: str) -> list[Counts]:
    """One answer after the other, so that what a drafter learns shows."""
    context = DrafterContext(cost=AssumedCurve(1.0, 1.5))
    return [
        counts_of(one.id, one.turn, replay(one, make_drafter(spec, one), context=context)[0])
        for one in read_recordings(folder / f"{REPLAYED[spec]}.jsonl")
    ]


def live(name: str) -> list[Counts]:
    target = tiny_target("llama", 61, memory=0.05)
    target.adapters = knowing_adapters(target)
    context = DrafterContext(
        draft_model=tiny_target("llama", 61, memory=0.0),
        eagle_head=tiny_eagle(target, draft_vocab=50),
        induction_heads=((0, 1), (1, 3)),
        cost=AssumedCurve(1.0, 1.5),
    )
    engine = Engine(target, "plain", [2], context=context)
    modes = {
        "greedy": SamplingParams(max_tokens=48, ignore_eos=True),
        "sampled": SamplingParams(max_tokens=48, ignore_eos=True, temperature=0.8, top_p=0.9, seed=3),
    }
    found = []
    for number in range(4):
        run = [5 + (7 * i * i + number) % 50 for i in range(12)]
        for mode, params in modes.items():
            drafter: Drafter = PldPlusDrafter("a") if name == "pld_plus_a" else named(name)
            sequence = engine.start([*run, 3 + number, *run, *run[:5]], params, drafter=drafter)
            engine.prefill(sequence)
            while not sequence.finished:
                engine.step([sequence])
            found.append(counts_of(f"tiny-{number}", mode, sequence.stats))
    return found


def unpack(folder: Path) -> Path:
    with tarfile.open(FOLDER / "answers.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpack(tmp_path_factory.mktemp("recorded"))


@pytest.fixture(scope="module")
def counts() -> dict[str, list[Counts]]:
    stored: dict[str, list[Counts]] = json.loads(COUNTS.read_text(encoding="utf-8"))
    return stored


@pytest.mark.parametrize("spec", REPLAYED)
def test_counts_on_recorded_answers_are_as_ever(recorded: Path, counts: dict[str, list[Counts]], spec: str) -> None:
    assert replayed(recorded, spec) == counts[spec]
    assert sum(accepted for *_, accepted, _ in counts[spec]) > 0


@pytest.mark.parametrize("name", LIVE)
def test_counts_on_tiny_models_are_as_ever(counts: dict[str, list[Counts]], name: str) -> None:
    assert live(name) == counts[name]
    assert sum(accepted for *_, accepted, _ in counts[name]) > 0


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = unpack(Path(name))
        found = {spec: replayed(folder, spec) for spec in REPLAYED} | {name: live(name) for name in LIVE}
    lines = [
        f"{json.dumps(spec)}: [\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]" for spec, rows in found.items()
    ]
    COUNTS.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
