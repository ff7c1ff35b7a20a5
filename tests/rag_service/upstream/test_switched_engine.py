"""Answers of the engine before this one: their ids are another tokenizer's, yet their citations hold."""

from __future__ import annotations

from pathlib import Path

from rag_service.answering.answers import citations
from rag_service.setting_sections import Answers
from tests.support.fake_workers import save_tokenizer
from workers.broker.messages import DoneEvent, GenerateJob, Sampling
from workers.tokens.own_tokens import own_tokens
from workers.tokens.tokenizer import Tokens

PASSAGE = "Über die Brücke gehen viele Leute. The quick brown fox jumps over the lazy dog every morning. 😀 So it is."
COPIED = "The quick brown fox jumps over the lazy dog every morning. 😀"


def cited(ids: list[int], text: str, tokens: Tokens) -> list[tuple[str, str]]:
    passage = {"collection": "c", "document_id": "d", "chunk_id": "k", "source_start": 100, "text": PASSAGE}
    job = GenerateJob(
        answer_id="a",
        session_id="s",
        question="What does the fox do?",
        segments=[],
        passages=[passage],
        sampling=Sampling(seed=0),
        created=0.0,
    )
    done = DoneEvent(text=text, ids=ids, finish_reason="stop", usage={}, speculation={}, timings={})
    return [
        (text[one.answer_start : one.answer_end], PASSAGE[one.source_start - 100 : one.source_end - 100])
        for one in citations(done, job, tokens, Answers())
        if one.kind == "copied"
    ]


def test_citations_of_an_earlier_engines_answer_select_the_same_text_in_both(tmp_path: Path) -> None:
    decoder, own = Tokens.load(save_tokenizer(tmp_path / "decoder")), own_tokens()
    text = f"So – {COPIED} Then it rests."
    for before, after in ((decoder, own), (own, decoder)):
        found = cited(before.encode_content(text).ids, text, after)
        assert len(found) == 1
        assert found[0][0] == found[0][1]
        assert "quick brown fox jumps over the lazy dog every morning. 😀" in found[0][0]


def test_own_ids_are_used_as_they_are(tmp_path: Path) -> None:
    """Also where the text ends before they do: a stop string cut it."""
    tokens = Tokens.load(save_tokenizer(tmp_path / "decoder"))
    ids = tokens.encode_content(COPIED).ids
    assert cited(ids, COPIED[:40], tokens) == [(COPIED[:39], COPIED[:39])]
