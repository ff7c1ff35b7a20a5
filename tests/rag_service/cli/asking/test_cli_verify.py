"""`rag verify`: two answers compared, what is said where they part, and the exit status."""

from __future__ import annotations

import json
import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from rag_service.cli.api import Api
from rag_service.cli.commands.asking import verify
from rag_service.cli.commands.asking.verify import compare, first_difference, report_of
from rag_service.client.calls import Call
from tests.support.command_line import nowhere, rag

pytestmark = pytest.mark.usefixtures("own_folder")


def answer(ids: list[int], text: str, **changes: Any) -> dict[str, Any]:
    how = {"steps": 4, "mat": 2.0, "drafted": 9, "accepted": 5, "near_ties": 0, "extra_passes": 0}
    return {
        "answer_id": "a",
        "session_id": "s",
        "token_ids": ids,
        "answer": text,
        "citations": [],
        "passages": [],
        "collection": "c",
        "seed": 3,
        "finish_reason": "stop",
        "speculation": how,
        "timings": {"prefill": 5.0, "decode": 10.0, "total": 20.0},
        **changes,
    }


def test_equal_answers_are_identical() -> None:
    off = answer([1, 2, 3], "abc", timings={"prefill": 5.0, "decode": 25.0, "total": 40.0})
    report = compare(answer([1, 2, 3], "abc"), off)
    assert report["identical"] is True
    assert report["first_difference"] is None
    assert report["speedup"] == 2.5
    assert (report["on"]["tokens"], report["off"]["steps"]) == (3, 4)


@pytest.mark.parametrize(
    ("on", "index", "ids"),
    [([1, 9, 3], 1, (9, 2)), ([1, 2], 2, (None, 3)), ([1, 2, 3, 4], 3, (4, None)), ([], 0, (None, 1))],
)
def test_the_first_difference_is_named(on: list[int], index: int, ids: tuple[int | None, int | None]) -> None:
    report = compare(answer(on, "abx"), answer([1, 2, 3], "aby"))
    where = report["first_difference"]
    assert report["identical"] is False
    assert (where["index"], where["on"]["id"], where["off"]["id"]) == (index, *ids)
    assert (where["on"]["text"], where["off"]["text"]) == ("x", "y")


def test_a_support_that_a_rounding_moves_is_no_difference() -> None:
    cited = {"document_id": "d", "source_start": 0, "source_end": 4}
    on, off = (answer([1], "a", citations=[{**cited, "support": support}]) for support in (0.8, 0.81))
    assert compare(on, off)["identical"]
    assert not compare(on, {**off, "citations": [{**cited, "source_end": 5, "support": 0.8}]})["identical"]


@pytest.mark.parametrize("change", [{"citations": [{}]}, {"finish_reason": "length"}, {"answer": "abd"}])
def test_text_citations_and_ends_are_compared_too(change: dict[str, Any]) -> None:
    report = compare(answer([1], "abc"), {**answer([1], "abc"), **change})
    assert report["identical"] is False
    assert report["first_difference"] is None


def test_first_difference() -> None:
    assert first_difference("ab", "ab") is None
    assert first_difference("ab", "ac") == 1
    assert first_difference("ab", "a") == 1


def sessions(api_url: str) -> set[str]:
    with Api(api_url) as api:
        return {session["session_id"] for session in api.request("GET", "/v1/sessions")["sessions"]}


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_identical_answers_are_status_0_and_leave_no_sessions(api_url: str) -> None:
    before = sessions(api_url)
    result = rag("verify", "What jumps?", "-c", "animals", "--drafter", "casd", "--url", api_url)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0].startswith("Identical: ")
    assert lines[0].endswith("tokens, text and 1 citation.")
    assert lines[1].startswith("Passes of the model after the first: ")
    assert re.search(r": \d+ with casd \(MAT [\d.]+\), \d+ without \(MAT [\d.]+\)\.$", lines[1])
    assert lines[2].startswith("  with casd: prefill ")
    assert lines[3].startswith("  without: prefill ")
    assert lines[4].startswith("  Times are medians of 3 runs")
    assert sessions(api_url) == before


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
@pytest.mark.parametrize(("short_ms", "rounds"), [(1e9, 3), (-1.0, 1)])
def test_short_answers_are_asked_for_in_turns_after_a_warm_up(
    short_ms: float, rounds: int, api_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    follow = verify.follow

    def noted(api: Api, call: Call[Any], screen: None) -> dict[str, Any]:
        asked.append(call.json)
        return follow(api, call, screen)

    monkeypatch.setattr(verify, "follow", noted)
    monkeypatch.setattr(verify, "SHORT_MS", short_ms)
    result = rag("verify", "What jumps?", "-c", "animals", "--temperature", "0.5", "--json", "--url", api_url)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert [one["speculation"] for one in asked] == ["auto", *("auto", "off") * rounds]
    assert [one.get("max_tokens") for one in asked] == [verify.WARM_UP_TOKENS, *[None] * 2 * rounds]
    assert [one.get("seed") for one in asked] == [None, None, *[report["seed"]] * (2 * rounds - 1)]
    assert [len(times) for times in report["decode_ms"].values()] == [rounds, rounds]


def timed(decode: float, **changes: Any) -> dict[str, Any]:
    return answer([1, 2, 3], "abc", timings={"prefill": 5.0, "decode": decode, "total": 40.0}, **changes)


def test_times_are_medians_and_passes_those_of_the_first_round() -> None:
    taught = {**answer([1], "")["speculation"], "steps": 1}  # by the answer before it
    report = report_of(
        [(timed(900.0), timed(30.0)), (timed(10.0, speculation=taught), timed(25.0)), (timed(11.0), timed(26.0))]
    )
    assert (report["on"]["ms"]["decode"], report["off"]["ms"]["decode"], report["on"]["steps"]) == (11.0, 26.0, 4)
    assert report["speedup"] == pytest.approx(26 / 11)
    assert report["decode_ms"] == {"on": [900.0, 10.0, 11.0], "off": [30.0, 25.0, 26.0]}


def test_a_later_round_that_differs_is_a_difference() -> None:
    other = answer([1, 9, 3], "abx", answer_id="other")
    report = report_of([(timed(10.0), timed(30.0)), (other, timed(30.0))])
    assert (report["identical"], report["first_difference"]["index"]) == (False, 1)
    assert report["on"]["answer_id"] == "other"


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ([(9.0, 30.0)], "Times are of a single run, so load on the machine may decide them; the passes say"),
        ([(9.0, 30.0), (10.0, 31.0), (9.5, 33.0)], "Times are medians of 3 runs."),
        (
            [(9.0, 30.0), (36.0, 31.0), (9.5, 33.0)],
            "3 runs that differed much: the machine is busy, so trust",
        ),
    ],
)
def test_what_times_rest_on_is_said(decode: list[tuple[float, float]], said: str) -> None:
    screen = Console(file=StringIO(), width=200)
    report = {"drafter": "auto", **report_of([(timed(on), timed(off)) for on, off in decode])}
    verify.show(report, screen)
    lines = screen.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines[1] == "Passes of the model after the first: 4 with auto (MAT 2.00), 4 without (MAT 2.00)."
    assert said in lines[4]


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_json_has_counts_and_times_of_both(api_url: str) -> None:
    arguments = ["verify", "What jumps?", "-c", "animals", "--max-tokens", "9", "--seed", "11", "--json"]
    result = rag(*arguments, "--url", api_url)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert (report["identical"], report["seed"], report["drafter"]) == (True, 11, "auto")
    assert report["on"]["tokens"] == report["off"]["tokens"] == 9
    assert set(report["on"]["ms"]) == {"prefill", "decode", "total"}
    assert report["speedup"] > 0


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_answers_that_differ_are_status_1_and_are_kept(
    api_url: str, world: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []
    follow = verify.follow

    def then_another(api: Api, call: Call[Any], screen: None) -> dict[str, Any]:
        made = follow(api, call, screen)
        if call.json.get("max_tokens") != verify.WARM_UP_TOKENS:
            asked.append(call.json)
            world.stage.text = "The quick brown fox sleeps."
        return made

    monkeypatch.setattr(verify, "follow", then_another)
    before = sessions(api_url)
    result = rag("verify", "What jumps?", "-c", "animals", "--temperature", "0.5", "--json", "--url", api_url)
    assert result.exit_code == 1, result.output
    report = json.loads(result.stdout)
    assert report["identical"] is report["text_identical"] is False
    assert report["passages_identical"] is True
    assert report["first_difference"]["index"] > 0
    assert report["first_difference"]["on"]["text"].startswith("jumps")
    assert report["first_difference"]["off"]["text"] == "sleeps."
    assert len(sessions(api_url) - before) == 2
    first, second = asked
    assert (first["speculation"], second["speculation"]) == ("auto", "off")
    assert second["seed"] == report["seed"]
    world.stage.text = "The quick brown fox jumps."
    said = rag("verify", "What jumps?", "-c", "animals", "--url", api_url)
    assert said.exit_code == 1
    assert "The first difference is at token" in said.stdout
    assert "--exact strict" in said.stdout


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_refusals_keep_their_status(api_url: str) -> None:
    for arguments, said in ((("verify", "x", "-c", "none"), "no collection 'none'"),):
        result = rag(*arguments, "--url", api_url)
        assert result.exit_code == 1
        assert said in result.stderr
    for wrong in ((), ("x", "--drafter", "warp"), ("x", "--exact", "very")):
        assert rag("verify", *wrong).exit_code == 2, "1 says that the answers differ"
    result = rag("verify", "x", "--url", nowhere())
    assert result.exit_code == 3
    assert "rag up" in result.stderr
