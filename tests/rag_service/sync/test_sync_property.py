"""Whatever happens to a source, and wherever a sync is killed: afterwards the collection is what the source is."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import httpx
import pytest

from rag_service.cli.api import Api, Rejected
from rag_service.cli.sync.documents import SyncedDocuments
from rag_service.client import calls
from rag_service.sync.documents import Upload
from rag_service.sync.mirror import Mirror
from rag_service.sync.source import Entry, Fetched, Listing, ReadFailed, Skipped

FOLDERS = ("", "x/", "x/y/", "z/")


class Killed(BaseException):
    """The end of the process, as the code under test sees it."""


class MemorySource:
    """Files in memory: path -> (content, time)."""

    name = "memory"

    def __init__(self) -> None:
        self.files: dict[str, tuple[str, int]] = {}
        self.unreadable: set[str] = set()
        """Folders, such as `x`."""
        self.clock = 0

    def write(self, path: str, content: str) -> None:
        self.clock += 1
        self.files[path] = (content, self.clock)

    def readable(self, path: str) -> bool:
        return not any(path.startswith(f"{folder}/") for folder in self.unreadable)

    def listing(self) -> Listing:
        return Listing(
            tuple(
                Entry(path, len(content.encode()), str(time))
                for path, (content, time) in sorted(self.files.items())
                if self.readable(path)
            ),
            unreadable=tuple(Skipped(folder, "denied") for folder in sorted(self.unreadable)),
        )

    def read(self, entry: Entry) -> Fetched:
        if entry.path not in self.files:
            raise ReadFailed("gone")
        data = self.files[entry.path][0].encode()
        return Fetched(io.BytesIO(data), hashlib.sha256(data).hexdigest(), len(data))


class MemoryDocuments:
    """A collection in memory that may kill the sync before a call, or in the middle of one."""

    def __init__(self) -> None:
        self.documents: dict[str, dict[str, Any]] = {}
        self.calls_left = -1

    def all(self) -> Iterator[dict[str, Any]]:
        yield from [dict(one) for one in self.documents.values()]

    def put(self, uploads: Sequence[Upload], progress: Callable[[int], None]) -> dict[str, str]:
        for upload in uploads:
            self._step()
            self.documents[upload.document_id] = {
                "document_id": upload.document_id,
                "name": upload.name,
                "metadata": dict(upload.metadata),
                "text": upload.file.read().decode(),
            }
        return {}

    def delete(self, document_id: str) -> None:
        self._step()
        self.documents.pop(document_id, None)

    def texts(self) -> list[tuple[str, str]]:
        return sorted((one["name"].removeprefix("memory/"), one["text"]) for one in self.documents.values())

    def _step(self) -> None:
        if self.calls_left == 0:
            raise Killed
        self.calls_left -= 1


def change(source: MemorySource, chance: random.Random) -> None:
    """One thing that people do to folders."""
    paths = sorted(source.files)
    fresh = f"{chance.choice(FOLDERS)}{chance.randrange(12)}.md"
    match chance.choice(("add", "add", "change", "rename", "rename", "remove", "swap", "touch", "copy", "folder")):
        case "change" if paths:
            source.write(chance.choice(paths), f"# Text {chance.randrange(30)}\n\nSome words.")
        case "rename" if paths:
            source.files[fresh] = source.files.pop(chance.choice(paths))
        case "remove" if len(paths) > 1:
            del source.files[chance.choice(paths)]
        case "swap" if len(paths) > 1:
            one, two = chance.sample(paths, 2)
            source.files[one], source.files[two] = source.files[two], source.files[one]
        case "touch" if paths:
            path = chance.choice(paths)
            source.write(path, source.files[path][0])
        case "copy" if paths:
            source.write(fresh, source.files[chance.choice(paths)][0])
        case "folder":
            moved = [path for path in paths if path.startswith("x/")]
            for path in moved:
                source.files["z/" + path.removeprefix("x/")] = source.files.pop(path)
        case _:
            source.write(fresh, f"# Text {chance.randrange(30)}\n\nSome words.")


@pytest.mark.parametrize("seed", range(40))
def test_random_changes_and_kills(seed: int) -> None:
    chance = random.Random(seed)
    source, documents = MemorySource(), MemoryDocuments()
    for _ in range(25):
        for _ in range(chance.randrange(6)):
            change(source, chance)
        source.unreadable = {chance.choice(("x", "x/y", "z"))} if chance.random() < 0.3 else set()
        before = {path: text for path, text in documents.texts() if not source.readable(path)}
        documents.calls_left = chance.randrange(8) if chance.random() < 0.4 else -1
        try:
            mirror = Mirror(source, documents, delete_many=True)
            mirror.carry_out(mirror.plan(), remove=True)
        except Killed:
            documents.calls_left = -1
            mirror = Mirror(source, documents, delete_many=True)
            mirror.carry_out(mirror.plan(), remove=True)
        documents.calls_left = -1
        readable = {path: content for path, (content, _) in source.files.items() if source.readable(path)}
        if not readable:
            continue  # an empty source removes nothing
        texts = documents.texts()
        assert len(dict(texts)) == len(texts)  # never two documents of a path
        assert dict(texts) == {**before, **readable}
    source.unreadable = set()
    source.write("last.md", "last")
    mirror = Mirror(source, documents, delete_many=True)
    mirror.carry_out(mirror.plan(), remove=True)
    assert dict(documents.texts()) == {path: content for path, (content, _) in source.files.items()}
    again = mirror.plan()
    assert (again.uploads, again.removed, again.unchanged) == ([], [], len(source.files))


def test_no_kill_leaves_two_documents_of_a_renamed_file() -> None:
    for calls_left in range(6):
        source, documents = MemorySource(), MemoryDocuments()
        for number in range(3):
            source.write(f"x/{number}.md", f"text {number}")
        mirror = Mirror(source, documents)
        mirror.carry_out(mirror.plan(), remove=True)
        for number in range(3):
            source.files[f"z/{number}.md"] = source.files.pop(f"x/{number}.md")
        documents.calls_left = calls_left
        with contextlib.suppress(Killed):
            mirror.carry_out(mirror.plan(), remove=True)
        assert sorted(text for _, text in documents.texts()) == ["text 0", "text 1", "text 2"]


@pytest.fixture
def api(live_url: str) -> Iterator[Api]:
    with Api(live_url) as api:
        yield api
        with contextlib.suppress(Rejected):
            api.send(calls.delete_collection("synced"))


@pytest.mark.parametrize("seed", range(2))
def test_random_changes_over_http(api: Api, seed: int) -> None:
    """The same against the service; a killed sync leaves its job behind, and the next one waits for it."""
    chance = random.Random(seed)
    source = MemorySource()

    class Killing(SyncedDocuments):
        def put(self, uploads: Sequence[Upload], progress: Callable[[int], None]) -> dict[str, str]:
            if not chance.randrange(3):
                details = [{"id": one.document_id, "metadata": dict(one.metadata)} for one in uploads]
                call = calls.add_files_described("synced", [(one.name, one.file) for one in uploads], details)
                api.json(call)
                raise Killed  # sent, and nobody waits for it
            return super().put(uploads, progress)

    for _ in range(6):
        for _ in range(chance.randrange(1, 6)):
            change(source, chance)
        for _ in range(20):
            mirror = Mirror(source, Killing(api, "synced", create=True), delete_many=True)
            with contextlib.suppress(Killed):
                mirror.carry_out(mirror.plan(), remove=True)
                break
        listed = api.json(calls.documents("synced", 1000, ""))["documents"]
        texts = {one["name"]: api.json(calls.document("synced", one["document_id"]))["text"] for one in listed}
        assert len(texts) == len(listed)
        assert texts == {f"memory/{path}": content for path, (content, _) in source.files.items()}


def test_a_sync_waits_for_the_ingests_of_its_collection() -> None:
    states = iter(("queued", "running", "succeeded"))
    asked: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        job = {"job_id": "0" * 32, "collection": "synced", "status": "running", "done": 0}
        replies: dict[str, Any] = {
            "/v1/collections/synced": {},
            "/v1/jobs": {"jobs": [{**job, "collection": "other", "job_id": "1" * 32}, job]},
            "/v1/collections/synced/documents": {"documents": [], "next": None},
        }
        path = request.url.path
        return httpx.Response(200, json=replies[path] if path in replies else {**job, "status": next(states)})

    with Api("http://127.0.0.1:1", transport=httpx.MockTransport(answer)) as api:
        assert list(SyncedDocuments(api, "synced", create=False).all()) == []
    assert asked[1:] == ["/v1/jobs", *["/v1/jobs/" + "0" * 32] * 3, "/v1/collections/synced/documents"]


def test_uploads_that_are_too_much_together_are_sent_one_by_one() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.method == "GET":
            return httpx.Response(200, json={"status": "succeeded", "done": 1, "failures": []})
        if len(request.read()) < 1500:
            return httpx.Response(202, json={"job_id": "0" * 32})
        problem = {"status": 413, "code": "body_too_large", "detail": "The body is too large.", "title": "x"}
        return httpx.Response(413, json=problem, headers={"Content-Type": "application/problem+json"})

    sizes = {"m/a.md": 600, "m/b.md": 2000, "m/c.md": 600}
    uploads = [Upload(name[2], name, {}, io.BytesIO(b"x" * size)) for name, size in sizes.items()]
    done: list[int] = []
    with Api("http://127.0.0.1:1", transport=httpx.MockTransport(answer)) as api:
        failed = SyncedDocuments(api, "synced", create=False).put(uploads, done.append)
    assert failed == {"m/b.md": "The body is too large."}
    assert done == [1, 2, 3]


def test_a_file_that_failed_is_not_sent_again_until_it_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(MemoryDocuments):
        sent = 0

        def put(self, uploads: Sequence[Upload], progress: Callable[[int], None]) -> dict[str, str]:
            self.sent += len(uploads)
            return {upload.name: "damaged" for upload in uploads}

    source, documents = MemorySource(), Refusing()
    source.write("a.pdf", "?")
    mirror = Mirror(source, documents)
    for _ in range(3):
        assert mirror.carry_out(mirror.plan(), remove=True).failures == [Skipped("a.pdf", "damaged")]
    assert documents.sent == 1
    source.write("a.pdf", "?!")
    mirror.carry_out(mirror.plan(), remove=True)
    assert documents.sent == 2
    monkeypatch.setattr("rag_service.sync.mirror.RETRY_S", 0.0)
    mirror.carry_out(mirror.plan(), remove=True)
    assert documents.sent == 3


def test_entries_of_a_listing_can_be_remembered() -> None:
    entry = Entry("a.md", 1, "1")
    assert {entry: 1}[dataclasses.replace(entry)] == 1
