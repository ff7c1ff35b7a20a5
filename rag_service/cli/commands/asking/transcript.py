"""A conversation as Markdown with the numbers of its sources: the form that the page saves (`web/answer/export.js`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from rag_service.cli.answers import nearest_line
from rag_service.cli.headings import headings


def as_markdown(answers: Sequence[Mapping[str, Any]], day: str) -> str:
    """The first question as the title, a date, and all questions as headings, each with the last version of its answer.

    Args:
        answers: those of a session in order, as the API gives them, with `warning` and `nearest`; these and
            `citations` may be None.
    """
    latest: dict[str, Mapping[str, Any]] = {}
    first: dict[str, str] = {}
    for answer in answers:
        question = first.get(answer["base"], answer["answer_id"])
        first[answer["answer_id"]] = question
        latest[question] = answer
    title = f"# {_line(answers[0]['question'])}\n\n*{day}*\n\n" if answers else ""
    return title + "\n".join(map(_turn, latest.values()))


def _turn(answer: Mapping[str, Any]) -> str:
    changed = f"*Changed: {answer['instruction']}*\n\n" if answer["instruction"] else ""
    warning = f"> {answer['warning']}\n\n" if answer["warning"] else ""
    nearest = f"> {nearest_line(answer['nearest'])}\n\n" if answer.get("nearest") else ""
    return f"## {_line(answer['question'])}\n\n{changed}{warning}{nearest}{with_sources(answer)}\n"


def _line(text: str) -> str:
    return " ".join(text.split())


def with_sources(answer: Mapping[str, Any]) -> str:
    """The answer with the numbers of its citations in it, and its sources below. Copied words go before retrieved."""
    text, passages = answer["answer"], answer["passages"]
    indices = {(one.get("collection"), one["chunk_id"]): index for index, one in enumerate(passages)}
    citations = [one for one in answer["citations"] or () if _chunk(one) in indices]
    owners: list[int | None] = [None] * len(text)
    for number, citation in enumerate(citations):
        for at in range(citation["answer_start"], citation["answer_end"]):
            if citation["kind"] == "copied" or owners[at] is None:
                owners[at] = number
    runs = [
        (owner, "".join(text[at] for at in places)) for owner, places in groupby(range(len(text)), owners.__getitem__)
    ]
    last = {owner: at for at, (owner, _) in enumerate(runs)}
    cited: set[int] = set()
    parts = []
    for at, (owner, words) in enumerate(runs):
        passage = None if owner is None else indices[_chunk(citations[owner])]
        following = runs[at + 1][0] if at + 1 < len(runs) else None
        goes_on = following is not None and indices[_chunk(citations[following])] == passage
        if passage is None or last[owner] != at or goes_on:
            parts.append(words)
            continue
        cited.add(passage)
        ending = words[len(words.rstrip()) :]  # the number stands behind the last word
        parts.append(f"{words.rstrip()} [{passage + 1}]{ending}")
    sources = [f"* [{index + 1}] {_place(passages[index])}" for index in sorted(cited)]
    return "".join(parts) + ("\n\nSources:\n\n" + "\n".join(sources) if sources else "")


def has_changed(answer: Mapping[str, Any]) -> bool:
    """Whether a passage that an answer cites has changed since; of one without citations, any that was found for it."""
    passages = answer["passages"]
    chunks = {_chunk(one) for one in answer["citations"] or ()}
    cited = [one for one in passages if _chunk(one) in chunks]
    found = [one for one in passages if one["in_prompt"] and not one.get("earlier")]
    return any(one.get("changed") for one in cited or found)


def _chunk(one: Mapping[str, Any]) -> tuple[str | None, str]:
    return one.get("collection"), one["chunk_id"]


def _place(passage: Mapping[str, Any]) -> str:
    """Title, headings below it, page, date and document of a passage."""
    title = passage["title"]
    above = [one for one in headings(passage) if one != title]
    page = f"page {passage['page']}" if passage.get("page") else None
    changed = "changed or deleted since" if passage.get("changed") else None
    parts = [title, " › ".join(above), page, passage.get("date"), passage["document_id"], changed]
    return " · ".join(part for part in parts if part)
