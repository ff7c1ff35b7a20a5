"""Of several versions of a document the newest comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import Collection, Library, SourceDocument
from retriever.search.versions import Dated, in_force, newest_first
from tests.support.hash_embedder import HashEmbedder

LIMIT = "The limit for a hotel is {} euros a night, breakfast included. Rooms are booked by the office."
QUESTION = "What is the limit for a hotel?"


def one(document: str, title: str, amount: int, date: str | None = None) -> Dated:
    return Dated(document, title, date, LIMIT.format(amount))


def order(*ranked: Dated, question: str = QUESTION) -> list[str]:
    return [item.document for item in newest_first(ranked, lambda item: item, question)]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Travel policy 2024", "Travel policy 2025"),
        ("Travel policy (draft, 2023-11)", "Travel policy 2024-02-01"),
        ("Travel policy v1.2 of 2024", "Travel Policy v2 of 2025"),
    ],
)
def test_a_year_in_the_title_tells(older: str, newer: str) -> None:
    assert order(one("a", older, 120), one("b", newer, 140)) == ["b", "a"]
    assert order(one("b", newer, 140), one("a", older, 120)) == ["b", "a"]


def test_a_document_s_own_date_tells() -> None:
    assert order(one("a", "Travel", 120, "2024-05-01"), one("b", "Travel", 140, "2024-05-02")) == ["b", "a"]
    assert order(one("a", "Travel", 120, "2024-05"), one("b", "Travel", 140)) == ["a", "b"], "no date, no version"
    assert order(one("a", "Travel", 120, "2024"), one("b", "Travel", 140, "2024")) == ["a", "b"]


def test_other_documents_keep_their_places() -> None:
    ranked = [
        one("old", "Travel policy 2023", 100),
        one("town", "Travel policy Zurich 2025", 210),
        Dated("else", "Travel policy 2026", None, "Trains are second class. Taxis only at night."),
        one("new", "Travel policy 2025", 140),
        one("mid", "Travel policy 2024", 120),
    ]
    assert order(*ranked) == ["new", "town", "else", "mid", "old"]


def test_chapters_are_no_versions() -> None:
    ranked = [one("a", "Chapter 3", 1, "2020"), one("b", "Chapter 4", 1, "2021")]
    assert order(*ranked) == ["a", "b"]
    assert order(one("a", "2024", 1), one("b", "2025", 1)) == ["a", "b"], "a title that is only a year names no family"


def test_the_year_that_the_question_names_comes_first() -> None:
    ranked = [one("new", "Travel policy 2025", 140), one("old", "Travel policy 2024", 120)]
    assert order(*ranked, question="What was the limit for a hotel in 2024?") == ["old", "new"]
    assert order(*ranked, question="What was the limit for a hotel in 2019?") == ["new", "old"]


def kept(*ranked: Dated, question: str = QUESTION, language: str = "en") -> list[str]:
    return [item.document for item in in_force(ranked, lambda item: item, question, language)]


NEW, OLD = one("new", "Travel policy 2025", 140), one("old", "Travel policy 2024", 120)
EXPIRED = one("expired", "Travel rules (out of date since 31 December 2024)", 120)


def test_answers_use_what_is_in_force() -> None:
    assert kept(NEW, OLD) == ["new"]
    assert kept(OLD, NEW) == ["new"], "whatever comes first"
    assert kept(OLD, one("town", "Travel policy Zurich 2025", 210)) == ["old", "town"]
    assert kept(EXPIRED, one("other", "Rules for travel", 140)) == ["other"], "its title says it"
    german = Dated("alt", "Reisen (veraltet)", None, "Ein Hotel darf 120 Euro kosten.")
    assert kept(german, Dated("neu", "Dienstreisen", None, "Ein Hotel darf 140 Euro kosten."), language="de") == ["neu"]


@pytest.mark.parametrize(
    "question",
    [
        "What was the limit for a hotel in 2024?",
        "What is the difference between the old and the new limit for a hotel?",
        "Wie hoch war die Grenze für ein Hotel früher?",
        "Wat was vroeger de grens voor een hotel?",
        "What was the limit for a hotel last year?",
        "Wie hoch war die Grenze für ein Hotel letztes Jahr?",
        "Wat was verleden jaar de grens voor een hotel?",
        "¿Cuál era el límite para un hotel el año pasado?",
        "What is the limit for a hotel in all our policies?",
    ],
)
def test_a_question_about_the_past_uses_all(question: str) -> None:
    assert kept(NEW, OLD, EXPIRED, question=question) == ["new", "old", "expired"]


def test_an_old_one_that_alone_has_a_word_of_the_question_stays() -> None:
    """Invoices and reports of one form are no versions of each other, however much they have in common."""
    for older, newer in (("May", "June"), ("a pump", "a fence")):
        report = "In this month we bought {} for the pool. The meeting was short, and the next one is in the hall."
        ranked = [
            Dated("a", "Report 2025-05", None, report.format(older)),
            Dated("b", "Report 2025-06", None, report.format(newer)),
        ]
        assert kept(*ranked, question=f"Did we buy anything in {older} for the pool?") == ["a", "b"]
    assert kept(EXPIRED, question=QUESTION) == ["expired"], "nothing else is there"
    months = [one("march", "Heating report 2026-03", 120), one("april", "Heating report 2026-04", 140)]
    assert kept(*months, question="What is the limit for a hotel in March?") == ["march", "april"]
    assert kept(one("day", "Travel", 120, "2024-05-01"), one("year", "Travel 2024", 140)) == ["day", "year"]


def test_what_only_sounds_out_of_date_stays() -> None:
    passports = Dated("p", "Expired passports", None, "An expired passport is renewed at the town hall.")
    travel = Dated("t", "Travel", None, "An expired passport is no excuse. It is renewed at the town hall, in a week.")
    assert kept(passports, travel, question="Where is a passport renewed?") == ["p", "t"]
    rules = Dated("r", "House rules (outdated)", None, "Quiet hours start at 22:00, and at 23:00 on Saturdays.")
    minutes = Dated("m", "Minutes", None, "The board talked about when quiet hours start, about bins and a new roof.")
    assert kept(rules, minutes, question="When do the quiet hours start?") == ["r", "m"], "minutes are no new rules"
    assert kept(rules, minutes, question="And then?") == ["r", "m"], "no word of the question is anywhere"


def test_how_old_asks_for_no_old_version() -> None:
    assert kept(NEW, OLD, question="How old is the limit for a hotel?") == ["new"]
    assert kept(NEW, OLD, question="Can I change the limit for a hotel?") == ["new"]


@pytest.fixture
def policies(tmp_path: Path) -> Collection:
    collection = Library(tmp_path, HashEmbedder(64)).create("c")
    texts = {
        "old": ("Travel policy 2024", LIMIT.format(120)),
        "new": ("Travel policy 2025", LIMIT.format(140) + " Trains too."),
    }
    collection.ingest([SourceDocument(document_id=key, title=title, text=text) for key, (title, text) in texts.items()])
    return collection


def test_a_search_gives_the_newest_first_and_counts_ranks_from_one(policies: Collection) -> None:
    question = f"{LIMIT.format(120)} Which limit?"
    found = policies.search(question, 2)
    assert [(passage.document_id, passage.rank) for passage in found] == [("new", 1), ("old", 2)]
    assert found[0].score >= found[1].score
    assert [passage.document_id for passage in policies.search(question, 1)] == ["new"], "also if only one is wanted"
