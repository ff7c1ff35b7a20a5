"""`bench decode` and `bench record` on tiny models: rows, differences, margins, and going on after a stop."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from decoder import Engine, SamplingParams
from decoder.bench.decode.command import run_decode
from decoder.bench.decode.divergence import plain_margins
from decoder.bench.decode.interleaved import compare, modes_of
from decoder.bench.decode.outcomes import Difference, Outcome, PromptsFile, read_outcomes
from decoder.bench.decode.plots import draw, shares
from decoder.bench.decode.rows import decode_rows, differences
from decoder.bench.decode.timing import TimedAnswer, first_difference, measure
from decoder.drafters import DRAFTERS
from decoder.errors import UnknownDrafter
from decoder.planning.cost_curve import ROWS, CostCurve
from decoder.recording.chat import Chat
from decoder.recording.loaded_model import LoadedModel
from decoder.recording.prompts import BenchError, Item
from decoder.recording.record import read_recordings, record
from decoder.sampling.history import History
from decoder.sampling.near_ties import decide
from tests.support.tiny_models import RandomDrafter, tiny_target

VOCAB = 61
FIELDS = [
    *("model", "dtype", "benchmark", "category", "turn", "drafter", "prompts", "tokens", "mat", "acceptance_rate"),
    *("copied_fraction", "drafted_per_step", "tokens_per_s", "speedup_vs_plain", "speedup_min", "speedup_max"),
    *("total_speedup", "identical", "divergent", "flips_per_1000", "control_flips_per_1000", "near_ties"),
    *("overhead", "draft_ms_per_step", "by_source", "by_kind"),
]


class Letters:
    """A tokenizer whose tokens are characters, and a chat template of one character a role."""

    chat_template = "yes"

    def apply_chat_template(self, messages: list[dict[str, str]], tokenize: bool, add_generation_prompt: bool) -> str:
        assert not tokenize
        assert add_generation_prompt
        return "".join(f"{message['role'][0]}{message['content']}\n" for message in messages) + "a"

    def __call__(self, text: str, add_special_tokens: bool) -> dict[str, list[int]]:
        assert not add_special_tokens
        return {"input_ids": [3 + ord(character) % (VOCAB - 3) for character in text]}

    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(chr(64 + token) for token in ids)


ITEMS = [
    Item("a", "bench", "qa", ("What is what is what is this?",)),
    Item("b", "bench", "chat", ("Write this.", "Write this again.")),
    Item("c", "bench", "qa", ("Who?",), ("Nobody knows, nobody knows.",)),
]


class WrongDrafter(RandomDrafter):
    """Random, and slow to no one: shows up as drafting without being accepted."""

    name: ClassVar[str] = "wrong"


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(tiny_target(vocab_size=VOCAB, seed=3, memory=0.05, window=400), "plain", eos_token_ids=[2])


@pytest.fixture(scope="module")
def chat() -> Chat:
    return Chat(Letters())


def run(engine: Engine, chat: Chat, path: Path, items: list[Item] = ITEMS, **settings: Any) -> list[Outcome]:
    params = SamplingParams(max_tokens=24, **settings)
    modes = modes_of("casd,pld")
    return compare(engine, chat, items, params, modes, PromptsFile(path, {"modes": modes, **settings}))


@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_rows_have_the_contract_and_drafters_equal_plain(
    engine: Engine, chat: Chat, tmp_path: Path, temperature: float
) -> None:
    outcomes = run(engine, chat, tmp_path / "p", temperature=temperature)
    rows = decode_rows(outcomes, ["plain", "casd", "pld"], model="tiny", dtype="float64")
    assert all(list(row) == FIELDS for row in rows)
    assert [(row["category"], row["turn"]) for row in rows[::3]] == [("chat", 1), ("chat", 2), ("qa", 1)]
    assert all(row["divergent"] == 0 and row["identical"] == row["prompts"] for row in rows)
    plain, casd, _ = rows[6:9]
    assert (plain["drafter"], plain["mat"], plain["speedup_vs_plain"], plain["total_speedup"]) == ("plain", 1, 1, 1)
    assert plain["tokens"] == casd["tokens"]
    assert casd["drafted_per_step"] > 0
    if temperature == 0.0:
        assert casd["mat"] > 1.2
        assert 0 < casd["copied_fraction"] < 1
    json.dumps(rows, allow_nan=False)


def test_second_turn_follows_plains_reply(engine: Engine, chat: Chat, tmp_path: Path) -> None:
    outcomes = {(outcome.id, outcome.turn): outcome for outcome in run(engine, chat, tmp_path / "p")}
    reply = chat.text(outcomes["b", 1].answers["plain"].tokens)
    assert outcomes["b", 2].prompt_tokens == len(f"uWrite this.\na{reply}\nuWrite this again.\na")


def test_modes_take_turns_and_every_second_prompt_goes_backwards(
    engine: Engine, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    def noted(engine: Engine, prompt: list[int], params: SamplingParams, mode: str, **more: Any) -> TimedAnswer:
        if not params.ignore_eos:  # not the warm-up
            order.append(mode)
        return measure(engine, prompt, params, mode, **more)

    monkeypatch.setattr("decoder.bench.decode.interleaved.measure", noted)
    items = [Item(f"{n}", "bench", "qa", ("What is this?",)) for n in range(4)]
    run(engine, chat, tmp_path / "p", [*items, ITEMS[1]])
    assert [order[i : i + 3] for i in range(0, 18, 3)] == [
        ["plain", "casd", "pld"],
        ["pld", "casd", "plain"],
        ["casd", "pld", "plain"],
        ["plain", "pld", "casd"],
        ["casd", "pld", "plain"],  # the first prompt of the second category
        ["pld", "plain", "casd"],  # its second turn is a category of its own
    ]


def test_a_stopped_run_goes_on_at_the_next_mode(
    engine: Engine, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p"
    whole = run(engine, chat, path)
    lines = path.read_text().splitlines(keepends=True)
    assert len(lines) == 1 + 4 * (3 + 1)  # settings; four prompts, a line a mode and one to close
    # Left: settings, two prompts, one answer to the third, half of its second.
    path.write_text("".join(lines[:10]) + lines[10][:30])
    measured: list[str] = []

    def counted(engine: Engine, prompt: list[int], params: SamplingParams, mode: str, **more: Any) -> TimedAnswer:
        measured.append(mode)
        return measure(engine, prompt, params, mode, **more)

    monkeypatch.setattr("decoder.bench.decode.interleaved.measure", counted)
    again = run(engine, chat, path)
    begun = json.loads(lines[9])["mode"]
    assert sorted(measured[3:5]) == sorted({"plain", "casd", "pld"} - {begun})  # after a warm-up
    assert len(measured) == 3 + 2 + 3
    assert [outcome.answers["casd"].tokens for outcome in again] == [o.answers["casd"].tokens for o in whole]
    assert again[:2] == whole[:2]
    assert run(engine, chat, path) == again
    with pytest.raises(BenchError, match="other settings"):
        run(engine, chat, path, seed=1)


def test_items_beyond_the_window_are_left_out(engine: Engine, chat: Chat, tmp_path: Path) -> None:
    lines: list[str] = []
    items = [Item("long", "bench", "qa", ("x" * 500,)), ITEMS[0]]
    partial = PromptsFile(tmp_path / "p", {})
    outcomes = compare(engine, chat, items, SamplingParams(max_tokens=4), ["plain"], partial, lines.append)
    assert [outcome.id for outcome in outcomes] == ["a"]
    assert "long turn 1 left out" in lines[0]


def measured(tokens: list[int], decode_s: float, steps: int, **counts: Any) -> TimedAnswer:
    counts = {"drafted": 0, "accepted": 0, "copied": 0} | counts
    return TimedAnswer(tokens, "length", 1.0, decode_s, steps, **counts)


def test_speedups_are_medians_of_pairs() -> None:
    def outcome(name: str, plain_s: float, drafted_s: float) -> Outcome:
        answers = {
            "plain": measured([1, 2, 3, 4, 5], plain_s, 4),
            "casd": measured([1, 2, 3, 4, 5], drafted_s, 2, drafted=8, accepted=2, copied=2, draft_ms=3.0),
        }
        return Outcome(name, "bench", "qa", 1, 7, answers, {})

    outcomes = [outcome("a", 4.0, 2.0), outcome("b", 12.0, 2.0), outcome("c", 3.0, 1.0)]
    row = decode_rows(outcomes, ["plain", "casd"], model="m", dtype="d")[1]
    assert (row["speedup_vs_plain"], row["speedup_min"], row["speedup_max"]) == (3.0, 2.0, 6.0)
    assert row["total_speedup"] == 2.0  # 5/3, 13/3, 4/2
    assert (row["mat"], row["acceptance_rate"], row["copied_fraction"]) == (2.0, 0.25, 0.4)
    assert (row["drafted_per_step"], row["tokens_per_s"]) == (4.0, 2.4)
    assert row["draft_ms_per_step"] == 1.5


def test_answers_of_one_token_have_no_speedup() -> None:
    answers = {"plain": measured([1], 0.0, 0), "casd": measured([1], 0.0, 0)}
    row = decode_rows([Outcome("a", "b", "c", 1, 7, answers, {})], ["plain", "casd"], model="m", dtype="d")[1]
    assert row["speedup_vs_plain"] is None
    assert (row["mat"], row["total_speedup"]) == (1.0, 1.0)


def test_a_lossy_mode_is_counted_and_its_margin_listed(
    engine: Engine, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lossy(engine: Engine, prompt: list[int], params: SamplingParams, mode: str, **more: Any) -> TimedAnswer:
        answer = measure(engine, prompt, params, mode, **more)
        if mode == "casd" and len(answer.tokens) > 5:
            answer.tokens[5] = (answer.tokens[5] + 1) % VOCAB
        return answer

    monkeypatch.setattr("decoder.bench.decode.interleaved.measure", lossy)
    outcomes = run(engine, chat, tmp_path / "p", ITEMS[:1])
    row = next(r for r in decode_rows(outcomes, ["plain", "casd"], model="m", dtype="d") if r["drafter"] == "casd")
    assert (row["identical"], row["divergent"]) == (0, 1)
    listed = differences(outcomes)[0]
    assert (listed["id"], listed["drafter"], listed["token"]) == ("a", "casd", 5)
    assert listed["position"] == outcomes[0].prompt_tokens + 5
    assert listed["margin"] > 0


@pytest.mark.parametrize(
    "params", [SamplingParams(max_tokens=8), SamplingParams(max_tokens=8, temperature=1.0, seed=4)]
)
def test_margin_is_that_of_plains_own_logits(engine: Engine, params: SamplingParams) -> None:
    prompt = [5, 6, 7, 8]
    plain = measure(engine, prompt, params, "plain").tokens
    index = 5
    inputs = torch.tensor([prompt + plain[:index]])
    cache = engine.target.new_cache(20)
    logits = engine.target.prefill(inputs[0].tolist(), cache).logits[0]
    history = History(prompt)
    for token in plain[:index]:
        history.push(token)
    _, expected = decide(logits, params, len(prompt) + index, history)
    margins = plain_margins(engine, prompt, plain, [index, 2], params)
    assert list(margins) == [2, index]
    assert margins[index] == pytest.approx(expected, abs=1e-9)
    assert expected > 0
    assert plain_margins(engine, prompt, plain, [], params) == {}


def test_first_difference() -> None:
    assert first_difference([1, 2], [1, 2]) is None
    assert first_difference([1, 3], [1, 2]) == 1
    assert first_difference([1], [1, 2]) == 1


def test_a_drafter_that_copies_nothing_has_no_copied_fraction(
    engine: Engine, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DRAFTERS, "wrong", WrongDrafter)
    partial = PromptsFile(tmp_path / "p", {})
    outcomes = compare(engine, chat, ITEMS, SamplingParams(max_tokens=30), ["plain", "wrong"], partial)
    rows = decode_rows(outcomes, ["wrong"], model="m", dtype="d")
    assert sum(row["drafted_per_step"] for row in rows) > 0
    assert all(row["copied_fraction"] == 0.0 for row in rows)


def test_modes_start_with_plain_once_and_are_checked() -> None:
    assert modes_of("casd,plain,pld:max_ngram=2,casd") == ["plain", "casd", "pld:max_ngram=2"]
    with pytest.raises(UnknownDrafter):
        modes_of("magic")


def test_run_decode_writes_the_result_and_keeps_the_answers(
    engine: Engine, chat: Chat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("decoder.bench.decode.command.open_model", lambda *_, **__: LoadedModel(engine, chat, "tiny"))
    monkeypatch.setattr(
        "decoder.bench.decode.command.load_or_measure", lambda *_: CostCurve({(0, 0): [0.01] * len(ROWS)})
    )
    options = argparse.Namespace(
        drafters="casd,auto,hf", max_tokens=12, temperature=0.0, seed=0, plots=tmp_path / "plots", model="tiny",
        models_dir=None, dtype="float64", device="cpu", json=tmp_path / "out.json", line="rag bench decode",
        control=True, near_tie=None, draft_model=None, eagle_head=None, sdsat_adapters=None,
        markdown=tmp_path / "out.md", cost_64=None,
    )  # fmt: skip
    lines: list[str] = []
    run_decode(options, ITEMS, lines.append)
    result = json.loads((tmp_path / "out.json").read_text())
    facts = {"model", "dtype", "device", "cpu", "cores", "threads", "torch", "transformers", "commit", "date"}
    assert facts | {"command"} <= set(result["environment"])
    assert len(result["rows"]) == 3 * 4
    assert result["cost_curve"]["rows"] == list(ROWS)
    assert set(result["cost_curve"]["seconds_at_start"]) == {"0,0"}
    by_task = {(entry["category"], entry["against"]) for entry in result["promise"]}
    assert {against for category, against in by_task if category == "qa"} == {"plain", "hf", "best single drafter"}
    assert {against for category, against in by_task if category == "chat"} == {"plain", "hf"}  # one prompt a turn
    assert set(result["overhead"]) == {"plain", "casd", "auto"}
    settings, outcomes = read_outcomes(tmp_path / "out.prompts.jsonl")
    assert settings["modes"] == ["plain", "casd", "auto", "hf"]
    assert decode_rows(outcomes, settings["modes"], model="tiny", dtype="float64") == result["rows"]
    text = (tmp_path / "out.md").read_text()
    assert "| bench | chat | 2 |" in text
    assert "## The promise" in text
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    assert names == {"mat.svg", "speedup_vs_plain.svg", "sources.svg", "cost_curve.svg"}
    options.json, options.cost_64 = tmp_path / "elsewhere.json", 1.5
    run_decode(options, ITEMS, lines.append)
    result = json.loads(options.json.read_text())
    assert result["environment"]["assumed_cost_of_64_rows"] == 1.5
    assumed = [0.01 * (1 + (rows - 1) / 126) for rows in ROWS]
    assert result["cost_curve"]["seconds"] == {"0,0": pytest.approx(assumed, abs=1e-7)}
    options.temperature = 1.0
    with pytest.raises(BenchError, match="greedy"):
        run_decode(options, ITEMS, lines.append)


def test_plots_are_drawn(tmp_path: Path) -> None:
    casd = measured([1, 2, 3], 1.0, 1, drafted=4, accepted=1, by_source={"casd": [4, 1]}, by_kind={"passage": 1})
    answers = {"plain": measured([1, 2, 3], 2.0, 2), "casd": casd}
    rows = decode_rows([Outcome("a", "b", "c", 1, 7, answers, {})], list(answers), model="m", dtype="d")
    assert [path.name for path in draw(rows, tmp_path)] == ["mat.svg", "speedup_vs_plain.svg", "sources.svg"]
    assert "passage" in (tmp_path / "sources.svg").read_text()
    assert "<svg" in (tmp_path / "mat.svg").read_text()


def test_shares_add_up_to_all_tokens() -> None:
    row = {"tokens": 10, "by_source": {"auto": [20, 5], "small_model": [4, 2]}, "by_kind": {"passage": 3, "answer": 2}}
    shares_of_row = shares(row)
    assert shares_of_row == {"answer": 0.2, "passage": 0.3, "drafted, source unknown": 0.2, "chosen by the target": 0.3}


# -- record ---------------------------------------------------------------------------------------------------------


def test_records_plain_answers_and_goes_on(engine: Engine, chat: Chat, tmp_path: Path) -> None:
    out = tmp_path / "r.jsonl"
    settings: dict[str, Any] = {"model": "tiny", "dtype": "float64", "max_tokens": 24}
    assert record(engine, chat, ITEMS[:1], out, **settings) == 1
    with out.open("a") as file:
        file.write('{"id": "cut')
    assert record(engine, chat, ITEMS, out, drafter="casd", batch=2, **settings) == 3
    assert record(engine, chat, ITEMS, out, **settings) == 0
    recordings = read_recordings(out)
    by_turn = {(r.id, r.turn): r for r in recordings}
    assert {key: r.drafter for key, r in by_turn.items()} == {
        ("a", 1): "plain",
        ("b", 1): "casd",
        ("b", 2): "casd",
        ("c", 1): "casd",
    }
    for recording in recordings:
        plain = measure(engine, recording.prompt_ids, SamplingParams(max_tokens=24), "plain")
        assert (recording.output_ids, recording.finish_reason) == (plain.tokens, plain.finish_reason)
    assert by_turn["b", 2].prompt_ids == chat.prompt_ids(ITEMS[1], [chat.text(by_turn["b", 1].output_ids)])
    with pytest.raises(BenchError, match="record with the same settings"):
        record(engine, chat, ITEMS, out, model="tiny", dtype="float64", max_tokens=25)


def test_an_outcome_survives_the_file(tmp_path: Path) -> None:
    partial = PromptsFile(tmp_path / "p", {"a": 1})
    assert partial.read() == ({}, {})
    outcome = Outcome("a", "b", "c", 2, 7, {"plain": measured([1, 2], 1.0, 1)}, {"x": Difference(1, 8, 0.5)})
    for mode, answer in outcome.answers.items():
        partial.add_answer("a", 2, mode, answer)
    partial.close(outcome)
    assert PromptsFile(tmp_path / "p", {"a": 1}).read() == ({("a", 2): outcome}, {})


def test_a_tokenizer_without_a_template_is_refused() -> None:
    class Bare:
        chat_template = None

    with pytest.raises(BenchError, match="no chat template"):
        Chat(Bare())
