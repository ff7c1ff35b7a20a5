"""An answer as the tool `ask` returns it: citations with what they quote and where it stands. Pure."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from rag_service.contract.answer import Answer, CitationOut
from rag_service.mcp.quoted import heading, lines, place, quoted
from rag_service.mcp.tool import Result


class Citation(BaseModel):
    number: int
    kind: Literal["copied", "retrieved"] = Field(
        description="`copied`: the answer says it in the document's words. `retrieved`: the passage it rests on."
    )
    collection: str
    document_id: str
    title: str
    heading: str | None
    page: int | None
    date: str | None
    quote: str = Field(description="The document's text, from `start` to `end`.")
    start: int = Field(description="Of the quote in the document, in characters; for read_passage.")
    end: int
    answer_start: int = Field(description="Of what it supports in `answer`, in characters.")
    answer_end: int
    support: float | None = Field(description="The chance, 0 to 1, that the passages state this part of the answer.")

    def shown(self) -> str:
        title = heading(self.title, self.heading, self.page, self.date)
        where = place(self.collection, self.document_id, self.start, self.end)
        return lines([f"[{self.number}] {self.kind}: {title}", f"({where})", quoted(self.quote)])


class GivenAnswer(Result):
    answer: str
    citations: list[Citation]
    support: float | None = Field(
        description="The chance, 0 to 1, that the documents state the answer; null if it is not known."
    )
    calibrated: bool | None = Field(description="False: `support` only orders answers.")
    warning: str | None = Field(description="Why not to rely on the answer; null if nothing is known against it.")
    nearest: str | None = Field(
        default=None,
        description="With such a warning: the sentence of the documents that has most of what was asked. It need not "
        "answer. Null if none has much of it.",
    )
    search_note: str | None = Field(
        description="Why the search used a follow-up's own words; null if the question was searched as it is meant."
    )
    refused: bool = Field(description="Whether the answer was withheld because the documents do not answer.")
    collection: str | None = Field(description="What was searched; null: nothing, the answer rests on no documents.")
    session_id: str = Field(description="Pass it to ask for a follow-up question.")
    answer_id: str
    finish_reason: str | None = Field(description="`stop`: the answer is complete.")

    def text(self) -> str:
        parts = [self.answer]
        if self.warning is not None:
            parts.append(f"Warning: {self.warning}")
        if self.nearest is not None:
            parts.append(f"Nearest in the documents: {self.nearest}")
        if self.search_note is not None:
            parts.append(f"Note: {self.search_note}")
        if self.finish_reason not in ("stop", None):
            parts.append(f"The answer is not complete ({self.finish_reason}).")
        if self.support is not None:
            remark = "" if self.calibrated else ", not calibrated for this model, prompt or language"
            parts.append(f"Support: {self.support:.2f}{remark}")
        parts.append("Citations:" if self.citations else "The answer has no citations.")
        parts += [one.shown() for one in self.citations]
        parts.append(f"For a follow-up question, pass session_id {self.session_id}.")
        return "\n\n".join(parts)


def given(answer: Answer) -> GivenAnswer:
    """A finished answer."""
    cited = [_citation(number, answer, one) for number, one in enumerate(answer.citations or (), 1)]
    return GivenAnswer(
        answer=answer.answer or "",
        citations=cited,
        support=answer.support,
        calibrated=answer.calibrated,
        warning=answer.note,
        nearest=None if answer.nearest is None else answer.nearest.shown(),
        search_note=answer.search_note,
        refused=answer.abstained == "refused",
        collection=answer.collection,
        session_id=answer.session_id,
        answer_id=answer.answer_id,
        finish_reason=answer.finish_reason,
    )


def _citation(number: int, answer: Answer, cited: CitationOut) -> Citation:
    passage = next(
        one
        for one in answer.passages
        if (one.collection, one.chunk_id) == (cited.collection, cited.chunk_id)
        and one.source_start <= cited.source_start <= cited.source_end <= one.source_end
    )
    start, end = cited.source_start - passage.source_start, cited.source_end - passage.source_start
    return Citation(
        number=number,
        kind=cited.kind,
        collection=cited.collection or answer.collection or "",
        document_id=cited.document_id,
        title=passage.title,
        heading=passage.heading,
        page=passage.page,
        date=passage.date,
        quote=passage.text[start:end],
        start=cited.source_start,
        end=cited.source_end,
        answer_start=cited.answer_start,
        answer_end=cited.answer_end,
        support=cited.support,
    )
