"""Replay counts what the engine would: the same passes, drafted and accepted tokens, without a model."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from decoder import Engine, SamplingParams
from decoder.bench import main
from decoder.bench.simulated.oracle import OracleDrafter, longest_copy
from decoder.bench.simulated.replay import make_drafter, replay
from decoder.bench.simulated.simulate import simulate
from decoder.drafters.pld import PldDrafter
from decoder.errors import UnknownDrafter
from decoder.recording.prompts import BenchError
from decoder.recording.record import Recording, read_recordings
from decoder.recording.specs import make_from_spec, parse_spec, split_specs
from tests.support.tiny_models import tiny_target

SPECS = ["pld", "pld:max_ngram=2", "copyspec", "casd", "casd:matches=1:length=4"]


def recording(
    prompt: list[int], output: list[int], max_tokens: int = 64, name: str = "a", category: str = "c"
) -> Recording:
    return Recording(name, "bench", category, 1, prompt, output, "tiny", "float64", "length", max_tokens)


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_target(memory=0.05), "plain", eos_token_ids=[2])


@pytest.mark.parametrize("spec", SPECS)
def test_counts_equal_those_of_the_engine(engine: Engine, spec: str) -> None:
    accepted = 0
    for seed in range(6):
        prompt = np.random.default_rng(seed).integers(3, 61, 30).tolist()
        for max_tokens in (1, 2, 40):
            sequence = engine.start(prompt, SamplingParams(max_tokens=max_tokens), drafter=make_from_spec(spec))
            engine.prefill(sequence)
            copied = 0
            while not sequence.finished:
                copied += sum(source is not None for source in engine.step([sequence])[0].sources)
            stats, replayed = replay(recording(prompt, sequence.tokens, max_tokens), make_from_spec(spec))
            stats.ms = sequence.stats.ms
            assert (stats, replayed) == (sequence.stats, copied)
            accepted += stats.accepted
    assert accepted > 0


def test_auto_is_told_of_the_prompts_parts() -> None:
    untagged = recording([*range(3, 43)], [50, 14, 15, 16])
    tagged = replace(untagged, segments=(("message", 10), ("edited", 30)))
    assert replay(untagged, make_from_spec("auto"))[0].steps == 2
    stats, _ = replay(tagged, make_from_spec("auto"))
    assert stats.steps == 1  # an edit begins at the text's first token, even where that is replaced
    assert [segment for segment, count in stats.by_segment.items() if count.accepted] == [1]


def test_parts_of_another_length_than_the_prompt_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    values = asdict(replace(recording([1, 2, 3], [4]), segments=(("message", 1), ("passage", 2))))
    del values["archive"]
    path.write_text(json.dumps(values) + "\n")
    assert read_recordings(path)[0].segments == (("message", 1), ("passage", 2))
    path.write_text(json.dumps(values | {"prompt_ids": [1, 2]}) + "\n")
    with pytest.raises(BenchError, match="another length than its prompt"):
        read_recordings(path)


@pytest.mark.parametrize("spec", [*SPECS, "oracle"])
def test_the_tokens_come_out_and_mat_counts_passes(spec: str) -> None:
    prompt, output = [1, 2, 3, 4, 5, 6, 7, 8], [2, 3, 4, 5, 6, 7, 9, 9]
    stats, copied = replay(recording(prompt, output), make_drafter(spec, recording(prompt, output)))
    assert stats.tokens == len(output)
    assert stats.steps + stats.accepted in {len(output) - 1, len(output)}  # an answer may end inside a draft
    assert copied == stats.accepted
    assert stats.mat == (len(output) - 1) / stats.steps


def test_oracle_is_never_beaten_by_one_chain() -> None:
    for seed in range(30):
        random = np.random.default_rng(seed)
        prompt, output = random.integers(0, 3, 40).tolist(), random.integers(0, 3, 60).tolist()
        recorded = recording(prompt, output)
        best, _ = replay(recorded, OracleDrafter(output))
        for spec in ("pld", "copyspec", "casd:matches=1"):
            assert best.steps <= replay(recorded, make_from_spec(spec))[0].steps


@pytest.mark.parametrize(
    ("text", "ahead", "expected"),
    [
        ([1, 2, 3, 4, 1, 2], [1, 2, 3, 9], (0, 3)),
        ([1, 2, 3], [3, 3, 3], (2, 1)),  # the source lies before the current position: no reading of one's own copy
        ([1, 2, 3], [9], (0, 0)),
        ([1, 2, 3], [], (0, 0)),
        ([5, 1, 5, 1, 7], [5, 1, 7], (2, 3)),
    ],
)
def test_longest_copy(text: list[int], ahead: list[int], expected: tuple[int, int]) -> None:
    assert longest_copy(np.asarray(text, np.int32), ahead) == expected


def test_longest_copy_equals_brute_force() -> None:
    for seed in range(50):
        random = np.random.default_rng(seed)
        text, ahead = random.integers(0, 3, 30).tolist(), random.integers(0, 3, 10).tolist()
        brute = max(
            next((n for n in range(len(ahead), 0, -1) if text[start : start + n] == ahead[:n]), 0)
            for start in range(len(text))
        )
        start, length = longest_copy(np.asarray(text, np.int32), ahead)
        assert length == brute
        assert text[start : start + length] == ahead[:length]


def test_oracle_copies_at_most_64_tokens() -> None:
    tokens = list(range(200))
    stats, _ = replay(recording(tokens, tokens, 300), OracleDrafter(tokens))
    assert (stats.steps, stats.accepted) == (4, 196)  # 3 * (64 + bonus) + 4 of the 199 after the first


def test_specs() -> None:
    assert parse_spec("pld:max_ngram=2:length=5") == ("pld", {"max_ngram": 2, "length": 5})
    assert parse_spec("x:a=0.5:b=true:c=word") == ("x", {"a": 0.5, "b": True, "c": "word"})
    assert split_specs("pld, casd,,pld") == ["pld", "casd"]
    drafter = make_from_spec("pld:max_ngram=2")
    assert isinstance(drafter, PldDrafter)
    assert drafter.sizes == [2, 1]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("pld:max_ngram", "option without a value"),
        ("pld:ngram=2", "no option 'ngram'; it has max_ngram, length"),
        ("pld:max_ngram=9", "cannot be made: max_ngram must be 1 to 4"),
    ],
)
def test_bad_specs(spec: str, message: str) -> None:
    with pytest.raises(BenchError, match=message):
        make_from_spec(spec)


def test_unknown_drafter() -> None:
    with pytest.raises(UnknownDrafter):
        make_from_spec("magic")


def test_rows_sum_over_answers_and_categories() -> None:
    prompt = list(range(10))
    recordings = [
        recording(prompt, [3, 4, 5, 6, 7], name="a", category="x"),
        recording(prompt, [20, 21, 22], name="b", category="y"),
    ]
    rows = simulate(recordings, ["casd", "oracle"])
    assert [(row["category"], row["drafter"]) for row in rows] == [
        (category, drafter) for category in ("x", "y", "all") for drafter in ("casd", "oracle")
    ]
    total = rows[4]
    assert (total["prompts"], total["tokens"]) == (2, 8)
    assert total["steps"] == rows[0]["steps"] + rows[2]["steps"] == 1 + 2
    assert total["mat"] == pytest.approx((8 - 2) / total["steps"])
    assert total["copied_fraction"] == pytest.approx(4 / 8)


def test_command_writes_json_and_markdown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "recorded.jsonl"
    recorded = recording(list(range(10)), [3, 4, 5, 6, 7])
    fields = {name: getattr(recorded, name) for name in Recording.__slots__}
    path.write_text(json.dumps(fields) + "\n")
    arguments = ["--drafters", "pld:max_ngram=2,oracle", "--json", str(tmp_path / "out" / "s.json")]
    status = main(["simulate", "--recorded", str(path), *arguments, "--markdown", str(tmp_path / "s.md")])
    assert status == 0, capsys.readouterr().err
    result = json.loads((tmp_path / "out" / "s.json").read_text())
    assert {row["drafter"] for row in result["rows"]} == {"pld:max_ngram=2", "oracle"}
    assert result["environment"]["command"].startswith("rag bench simulate --recorded")
    assert result["environment"]["model"] == "tiny"
    assert "| bench | c | 1 | 1 | 5 | 4.00 | 4.00 |" in (tmp_path / "s.md").read_text()


def test_command_tells_what_is_wrong(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["simulate", "--recorded", str(tmp_path / "none"), "--drafters", "pld", "--json", "x"])
    assert status == 2
    assert "write one with `rag bench record`" in capsys.readouterr().err


def test_recordings_of_several_models_or_twice_are_refused(tmp_path: Path) -> None:
    one = recording([1, 2], [3])
    with pytest.raises(BenchError, match="recorded twice"):
        simulate([one, one], ["pld"])
    with pytest.raises(BenchError, match="nothing is recorded"):
        simulate([], ["pld"])
    with pytest.raises(BenchError, match="at least one drafter"):
        simulate([one], [])
    other = Recording("b", "bench", "c", 1, [1], [2], "other", "float64", "stop", 4)
    with pytest.raises(BenchError, match="several models"):
        simulate([one, other], ["pld"])


def test_reading_drops_a_cut_line_and_names_a_bad_one(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    fields = {name: getattr(recording([1], [2]), name) for name in Recording.__slots__}
    path.write_text(json.dumps(fields) + "\n" + json.dumps(fields)[:20])
    assert len(read_recordings(path)) == 1
    path.write_text('{"id": "a"}\n')
    with pytest.raises(BenchError, match="lacks benchmark, category"):
        read_recordings(path)
