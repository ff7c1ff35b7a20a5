"""Ingest: idempotent, replacing, reporting; documents, chunks and deletion."""

from __future__ import annotations

from pathlib import Path

import pytest

from retriever import (
    Collection,
    EmbedderMismatch,
    IngestFailure,
    InvalidQuery,
    Library,
    ReadLimits,
    SourceDocument,
    UnknownDocument,
)
from retriever.embedding.embedder import Vectors
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

LONG = "# Guide\n\n" + "".join(f"## Part {number}\n\n{'Words of this part. ' * 30}\n\n" for number in range(8))


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder()


@pytest.fixture
def collection(tmp_path: Path, embedder: HashEmbedder) -> Collection:
    return Library(tmp_path / "data", embedder).create("docs")


def text(content: str, name: str = "a.md", **more: object) -> SourceDocument:
    return SourceDocument(name=name, text=content, **more)  # type: ignore[arg-type]


def test_the_same_again_changes_nothing(collection: Collection, embedder: HashEmbedder) -> None:
    first = collection.ingest([text(LONG), text("Other.", "b.md")])
    assert len(first.added) == 2
    before, embedded = collection.stats(), embedder.embedded
    again = collection.ingest([text(LONG), text("Other.", "b.md")])
    assert again.unchanged == first.added
    assert (again.added, again.replaced, again.failures, again.ingested) == ((), (), (), 2)
    assert collection.stats() == before
    assert embedder.embedded == embedded


def test_other_content_replaces_and_only_new_chunks_are_embedded(
    collection: Collection, embedder: HashEmbedder
) -> None:
    (identity,) = collection.ingest([text(LONG)]).added
    before = collection.stats()
    embedder.calls.clear()
    report = collection.ingest([text(LONG.replace("Part 3\n\nWords", "Part 3\n\nNew words"))])
    assert report.replaced == (identity,)
    assert collection.stats().documents == 1
    assert collection.stats().chunks == before.chunks
    assert embedder.embedded == 1
    assert "New words" in collection.get(identity).text
    assert all(passage.document_id == identity for passage in collection.search("New words", 50))
    assert len(collection.search("words", 50)) == before.chunks


@pytest.mark.parametrize("change", [{"title": "T"}, {"metadata": {"a": 1}}])
def test_title_and_metadata_are_content_too(
    collection: Collection, embedder: HashEmbedder, change: dict[str, object]
) -> None:
    collection.ingest([text(LONG)])
    assert len(collection.ingest([text(LONG, **change)]).replaced) == 1
    assert len(collection.ingest([text(LONG, **change)]).unchanged) == 1


def test_ids_are_given_or_made_from_the_name_or_the_text(collection: Collection) -> None:
    report = collection.ingest(
        [text("One.", document_id="my id#1"), text("Two.", "dir/two words.md"), SourceDocument(text="Three.")]
    )
    given, named, hashed = report.added
    assert given == "my id#1"
    assert named.startswith("dir-two-words.md-")
    assert hashed.startswith("text-")
    assert collection.ingest([text("Other.", "dir/two words.md")]).replaced == (named,)
    assert collection.ingest([SourceDocument(text="Three.")]).unchanged == (hashed,)
    assert len(collection.ingest([SourceDocument(text="Four.")]).added) == 1


def test_failures_are_reported_by_name_and_the_rest_go_in(collection: Collection, tmp_path: Path) -> None:
    (tmp_path / "good.md").write_text("# Good\n\nfine")
    (tmp_path / "bad.pdf").write_bytes(b"%PDF-1.7\nbroken")
    (tmp_path / "sheet.png").write_bytes(b"PK\x03\x04")
    (tmp_path / "empty.txt").write_bytes(b"")
    sources = [
        *(SourceDocument(name=name, path=tmp_path / name) for name in ("bad.pdf", "sheet.png", "empty.txt", "none.md")),
        text("", "blank.md"),
        text("\ud800\0", "nothing.md"),
        text("x", document_id="a/b"),
        text("x", document_id=""),
        text("x", "nan.md", metadata={"a": float("nan")}),
        text("x", "object.md", metadata={"a": object()}),
        text("x", "key.md", metadata={1: "a"}),
        SourceDocument(name="neither.md"),
        SourceDocument(name="good.md", path=tmp_path / "good.md"),
        text("again", "good.md"),
    ]
    calls: list[tuple[int, int, str]] = []
    report = collection.ingest(sources, progress=lambda done, total, name: calls.append((done, total, name)))
    assert len(report.added) == 1
    assert [failure.name for failure in report.failures] == [
        *("bad.pdf", "sheet.png", "empty.txt", "none.md", "blank.md", "nothing.md", "a.md", "a.md"),
        *("nan.md", "object.md", "key.md", "neither.md", "good.md"),
    ]
    assert IngestFailure("empty.txt", "the file is empty") in report.failures
    assert "supported formats: .md" in report.failures[1].reason
    assert [done for done, _, _ in calls] == list(range(1, len(sources) + 1))
    assert {total for _, total, _ in calls} == {len(sources)}
    assert collection.stats().documents == 1


def test_a_failed_replacement_keeps_the_old_document(collection: Collection) -> None:
    (identity,) = collection.ingest([text("Old text.")]).added
    assert collection.ingest([text(" ")]).failures
    assert collection.get(identity).text == "Old text."


def test_documents_are_read_back_as_they_were_given(collection: Collection) -> None:
    source = "# Tïtle\r\n\r\nBödy 😀 text\0.\r\n"
    metadata = {"lang": "de", "tags": ["a", {"b": None}], "n": 1.5}
    (identity,) = collection.ingest([text(source, "dir/a.md", metadata=metadata)]).added
    document = collection.get(identity)
    assert document.text == "# Tïtle\n\nBödy 😀 text.\n"
    assert (document.title, document.name, document.kind, document.chunks) == ("Tïtle", "dir/a.md", "markdown", 1)
    assert document.metadata == metadata
    assert document.bytes == len(document.text.encode())
    (part,) = collection.chunks(identity)
    assert part.text == document.text[part.start : part.end] == "# Tïtle\n\nBödy 😀 text."


def test_chunks_of_every_document_select_its_text(collection: Collection) -> None:
    (identity,) = collection.ingest([text("é" * 10 + "\n\n" + LONG + "😀 日本語 " * 300)]).added
    document, chunks = collection.get(identity), collection.chunks(identity)
    assert len(chunks) == document.chunks > 8
    assert all(part.text == document.text[part.start : part.end] for part in chunks)
    assert chunks[3].heading[0] == "Guide"


def test_front_matter_is_stored_and_never_a_passage(collection: Collection) -> None:
    content = "---\ntitle: Kept\nowner: nobody\n---\n\n# Head\n\nBackups are kept.\n"
    report = collection.ingest([text(content), text("---\ntitle: Alone\n---\n", "alone.md")])
    assert [(failure.name, "front matter" in failure.reason) for failure in report.failures] == [("alone.md", True)]
    (identity,) = report.added
    document = collection.get(identity)
    assert (document.title, document.text) == ("Kept", content)
    for passage in collection.search("owner nobody"):
        assert passage.text == content[passage.source_start : passage.source_end] == "# Head\n\nBackups are kept."


def test_documents_are_listed_in_pages(collection: Collection) -> None:
    collection.ingest([text("x", document_id=f"d{number}") for number in range(5)])
    first = collection.documents(limit=2)
    assert [info.id for info in first] == ["d0", "d1"]
    assert [info.id for info in collection.documents(after="d1")] == ["d2", "d3", "d4"]
    with pytest.raises(InvalidQuery, match="limit"):
        collection.documents(limit=0)


def test_a_deleted_document_is_gone_from_everywhere(collection: Collection) -> None:
    collection.ingest([text("Zebra stripes.", document_id="z"), text("Other.", document_id="o")])
    collection.delete("z")
    for mode in ("hybrid", "dense", "lexical"):
        assert "z" not in [passage.document_id for passage in collection.search("zebra stripes", 10, mode)]  # type: ignore[arg-type]
    assert [info.id for info in collection.documents()] == ["o"]
    for call in (collection.get, collection.chunks, collection.delete):
        with pytest.raises(UnknownDocument, match="'z'"):
            call("z")
    assert (collection.stats().documents, collection.stats().chunks, collection.stats().bytes) == (1, 1, 6)
    assert collection.ingest([text("Zebra stripes.", document_id="z")]).added == ("z",)
    assert collection.search("zebra", 1)[0].document_id == "z"


def test_cancel_stops_between_documents_and_keeps_what_is_stored(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    collection = Library(tmp_path, embedder).create("docs")
    big = "\n\n".join(f"Paragraph {number}. " + "words " * 140 for number in range(300))
    sources = [text(big, "a.txt"), text(big + "more", "b.txt"), text("c", "c.txt")]
    report = collection.ingest(sources, cancelled=lambda: len(embedder.calls) >= 3)
    assert report.cancelled
    assert len(report.added) == collection.stats().documents == 1
    assert not collection.ingest(sources).cancelled
    assert collection.stats().documents == 3


def test_an_embedder_that_fails_leaves_the_old_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    embedder = HashEmbedder()
    collection = Library(tmp_path, embedder).create("docs")
    collection.ingest([text("Old.", document_id="d")])

    def fail(texts: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(embedder, "embed_documents", fail)
    with pytest.raises(RuntimeError, match="out of memory"):
        collection.ingest([text("New.", document_id="d")])
    assert collection.get("d").text == "Old."


def test_another_embedder_is_refused(tmp_path: Path) -> None:
    Library(tmp_path, HashEmbedder(64)).create("docs").ingest([text("x")])
    other = Library(tmp_path, HashEmbedder(32)).collection("docs")
    with pytest.raises(EmbedderMismatch, match="hash-64, not hash-32"):
        other.ingest([text("y")])
    with pytest.raises(EmbedderMismatch):
        other.search("x")
    assert len(other.search("x", mode="lexical")) == 1


def test_limits_reach_the_reader(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" * 100)
    collection = Library(tmp_path, HashEmbedder(), limits=ReadLimits(input_bytes=99, text_chars=50)).create("docs")
    report = collection.ingest([SourceDocument(name="a.txt", path=tmp_path / "a.txt"), text("y" * 51)])
    assert ["split it" in failure.reason for failure in report.failures] == [True, True]


def test_an_ingest_that_goes_on_brings_back_nothing_that_was_deleted(
    collection: Collection, embedder: HashEmbedder
) -> None:
    """Neither what it had stored nor what it had found unchanged."""
    sources = [text(f"About {name}.", f"{name}.md", document_id=name) for name in "xyz"]
    collection.ingest(sources[:1])
    report = collection.ingest(sources[:2], job="j")
    assert (report.unchanged, report.added) == (("x",), ("y",))
    for name in "xy":
        collection.delete(name)
    report = collection.ingest(sources, job="j")
    assert report.added == ("z",)
    assert [document.id for document in collection.documents()] == ["z"]


def test_what_another_worker_stored_meanwhile_and_was_deleted_stays_so(tmp_path: Path) -> None:
    class Slow(HashEmbedder):
        def embed_documents(self, texts: list[str]) -> Vectors:  # type: ignore[override]
            if self is slow and not done:
                done.append(True)
                other.ingest([text("About x.", "x.md", document_id="x")], job="j")
                other.delete("x")
            return super().embed_documents(texts)

    done: list[bool] = []
    slow = Slow()
    library = Library(tmp_path, slow)
    library.create("docs")
    other = Library(tmp_path, HashEmbedder()).collection("docs")
    report = library.collection("docs").ingest([text("About x.", "x.md", document_id="x")], job="j")
    assert report.unchanged == ("x",)
    assert not library.collection("docs").documents()


class SmallWindow(HashEmbedder):
    """Reads 60 tokens; a token is a letter outside ASCII, or four signs."""

    most_tokens = 60

    def tokens(self, text: str, /) -> int:
        foreign = sum(1 for char in text if not char.isascii())
        return foreign + -(-(len(text) - foreign) // 4)

    def known(self, text: str, /) -> float:
        return 1.0


PARAGRAPHS = {
    "en": "Members of staff may work from home on two days a week. ",
    "de": "Beschäftigte dürfen an zwei Tagen in der Woche zu Hause arbeiten. ",
    "es": "El personal puede trabajar desde casa dos días por semana. ",
    "ro": "Angajații pot lucra de acasă două zile pe săptămână. ",
    "tr": "Çalışanlar haftada iki gün evden çalışabilir. ",
    "el": "Το προσωπικό μπορεί να εργάζεται από το σπίτι δύο ημέρες την εβδομάδα. ",
    "ru": "Сотрудники могут работать из дома два дня в неделю. ",
    "ar": "يمكن للموظفين العمل من المنزل يومين في الأسبوع. ",
    "hi": "कर्मचारी सप्ताह में दो दिन घर से काम कर सकते हैं। ",
    "th": "พนักงานสามารถทำงานจากบ้านได้สองวันต่อสัปดาห์ ",
    "vi": "Nhân viên có thể làm việc tại nhà hai ngày một tuần. ",
    "zh": "员工每周可以在家工作两天。",
}


@pytest.mark.parametrize("language", PARAGRAPHS)
def test_an_embedder_reads_all_of_what_it_gets(tmp_path: Path, language: str) -> None:
    embedder = SmallWindow()
    collection = Library(tmp_path, embedder).create("docs")
    words = PARAGRAPHS[language]
    rows = "".join(f"| {words[:20]} | {number} |\n" for number in range(20))
    page = f"# {words}\n\n{words * 30}\n\n| {words[:9]} | № |\n|---|---|\n{rows}"
    collection.ingest([text(page)])
    texts = [one for call in embedder.calls for one in call]
    assert len(texts) >= 5
    assert max(map(embedder.tokens, texts)) <= embedder.most_tokens
