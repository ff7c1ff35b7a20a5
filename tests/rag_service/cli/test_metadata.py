"""`--where` and `--meta`: metadata as it is typed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rag_service.cli.console import CliError
from rag_service.cli.metadata import filter_of, metadata_of
from rag_service.stack.exit_status import USAGE
from retriever.stores.filters import checked
from tests.support.command_line import rag

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("year>=2020", {"year": {"$gte": 2020}}),
        ("year > -2.5", {"year": {"$gt": -2.5}}),
        (" year<=2020", {"year": {"$lte": 2020}}),
        ("year<2020", {"year": {"$lt": 2020}}),
        ("team=hr", {"team": "hr"}),
        ("team == human resources", {"team": "human resources"}),
        ("team!=hr", {"team": {"$ne": "hr"}}),
        ("draft=true", {"draft": True}),
        ("code=007", {"code": "007"}),
        ('year="2020"', {"year": "2020"}),
        ("date>=2025", {"date": {"$gte": "2025"}}),
        ("date<1.3.2025", {"date": {"$lt": "2025-03-01"}}),
        ("team in hr, it", {"team": {"$in": ["hr", "it"]}}),
        ("year not  in 2020,2021", {"year": {"$nin": [2020, 2021]}}),
        ('team in ["a, b", "c"]', {"team": {"$in": ["a, b", "c"]}}),
        ("tags contains new", {"tags": {"$contains": "new"}}),
        ("note=what is in it", {"note": "what is in it"}),
        ("url=https://a.example/?b=c", {"url": "https://a.example/?b=c"}),
        ('{"year": {"$gte": 2020}}', {"year": {"$gte": 2020}}),
    ],
)
def test_a_condition_is_a_filter(typed: str, expected: dict[str, Any]) -> None:
    assert filter_of([typed]) == expected
    checked(expected)


def test_several_conditions_hold_together() -> None:
    assert filter_of(None) is None
    assert filter_of(["a=1", "a!=2"]) == {"$and": [{"a": 1}, {"a": {"$ne": 2}}]}


@pytest.mark.parametrize(
    "typed",
    ["year", "", "=5", "year>=", "team in ", "{not json}", "['a']", "$or=1", "a in [1", "year>>2020", "year=>5"],
)
def test_a_condition_that_cannot_be_read_is_shown_examples(typed: str) -> None:
    with pytest.raises(CliError, match="year>=2020") as caught:
        filter_of([typed])
    assert caught.value.status == USAGE
    assert repr(typed) in str(caught.value)


def test_metadata_has_the_types_that_it_looks_like() -> None:
    typed = ["team=hr", "year=2020", "draft=false", 'tags=["a", 1]', "date=2025", "link=a=b", "empty="]
    assert metadata_of(typed) == {
        "team": "hr",
        "year": 2020,
        "draft": False,
        "tags": ["a", 1],
        "date": "2025",
        "link": "a=b",
        "empty": "",
    }
    for wrong, said in ((["team"], "--meta team=hr"), (["=x"], "KEY=VALUE"), (["a=1", "a=2"], "twice")):
        with pytest.raises(CliError, match=said):
            metadata_of(wrong)


def test_files_get_metadata_and_are_found_by_it(api_url: str, tmp_path: Path, world: Any) -> None:
    where = ("-c", "typed", "--url", api_url)
    for team, year in (("hr", 2019), ("it", 2024)):
        (tmp_path / f"{team}.txt").write_text(f"Limits of the team {team}.")
        meta = ("--meta", f"team={team}", "--meta", f"year={year}", "--meta", f"date={year}-05-01")
        assert rag("ingest", str(tmp_path / f"{team}.txt"), *meta, *where).exit_code == 0

    def found(*more: str) -> list[str]:
        passages = json.loads(rag("search", "limits", "--json", *more, *where).stdout)["passages"]
        return sorted(passage["text"].split()[-1] for passage in passages)

    assert found() == ["hr.", "it."]
    assert found("-w", "year>=2020") == ["it."]
    assert found("--where", "date<2020", "-w", "team in hr,it") == ["hr."]
    assert found("-w", "team=hr", "-w", "year>=2020") == []
    answer = json.loads(rag("ask", "What limits?", "--json", "-w", "team=hr", *where).stdout)
    assert [passage["text"] for passage in answer["passages"]] == ["Limits of the team hr."]
    talked = rag("chat", "--json", "-w", "team=it", *where, said="What limits?\nAnd what limits has the team hr?\n")
    for line in talked.stdout.splitlines():
        assert {passage["text"] for passage in json.loads(line)["passages"]} == {"Limits of the team it."}
    for command in (("search", "x"), ("ask", "x"), ("chat",)):
        wrong = rag(*command, "-w", "year", *where)
        assert (wrong.exit_code, "year>=2020" in wrong.stderr) == (2, True)
    assert rag("search", "limits", "-w", "year>=true", *where).exit_code == 2
