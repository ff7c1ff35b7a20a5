"""`rag verify`: two answers compared, what is said where they part, and the exit status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rag_service.cli.api import Api
from rag_service.cli.commands.asking import verify
from rag_service.cli.commands.asking.verify import compare, first_difference
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
    assert lines[1].startswith("  with casd: ")
    assert "MAT" in lines[1]
    assert lines[2].startswith("  without: ")
    assert sessions(api_url) == before


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
        asked.append(call.json)
        made = follow(api, call, screen)
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
