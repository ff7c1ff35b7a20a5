"""Collections, documents, jobs and search over HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from rag_service.api import uploads
from rag_service.api.problems import as_problem
from retriever import DiskFull
from retriever.document_ids import id_of_name


@pytest.fixture
async def notes(client: httpx.AsyncClient) -> Any:
    """An empty collection."""
    assert (await client.post("/v1/collections", json={"name": "notes"})).status_code == 201
    yield "/v1/collections/notes"
    await client.delete("/v1/collections/notes")


async def ended(client: httpx.AsyncClient, response: httpx.Response) -> dict[str, Any]:
    assert response.status_code == 202, response.text
    for _ in range(600):
        job: dict[str, Any] = (await client.get(f"/v1/jobs/{response.json()['job_id']}")).json()
        if job["status"] not in ("queued", "running"):
            return job
        await asyncio.sleep(0.05)
    pytest.fail(f"the job did not end: {job}")


async def test_the_life_of_a_collection(client: httpx.AsyncClient, notes: str) -> None:
    taken = await client.post("/v1/collections", json={"name": "notes"})
    assert (taken.status_code, taken.json()["code"]) == (409, "collection_exists")
    documents = [
        {"id": "a", "title": "Apples", "text": "Apples are red.", "metadata": {"kind": "fruit"}},
        {"text": "Bricks are red too, and heavy."},
    ]
    job = await ended(client, await client.post(f"{notes}/documents", json={"documents": documents}))
    assert job["status"] == "succeeded"
    assert (job["collection"], job["done"], job["total"], job["failures"]) == ("notes", 2, 2, [])
    stats = (await client.get(notes)).json()
    assert (stats["name"], stats["documents"]) == ("notes", 2)
    listed = (await client.get("/v1/collections")).json()["collections"]
    assert stats in listed
    page = (await client.get(f"{notes}/documents", params={"limit": 1})).json()
    assert [d["document_id"] for d in page["documents"]] == ["a"]
    rest = (await client.get(f"{notes}/documents", params={"after": page["next"]})).json()
    assert len(rest["documents"]) == 1
    assert rest["next"] is None
    document = (await client.get(f"{notes}/documents/a")).json()
    assert document["text"] == "Apples are red."
    assert document["metadata"] == {"kind": "fruit"}
    found = (await client.post(f"{notes}/search", json={"question": "red", "filter": {"kind": "fruit"}})).json()
    assert [p["document_id"] for p in found["passages"]] == ["a"]
    assert (await client.delete(f"{notes}/documents/a")).status_code == 204
    assert (await client.get(f"{notes}/documents/a")).status_code == 404


async def test_unreadable_files_are_named_and_the_rest_goes_in(
    client: httpx.AsyncClient, notes: str, world: Any
) -> None:
    files = [
        ("files", ("good.md", b"# Pears\n\nPears are green.")),
        ("files", ("broken.pdf", b"%PDF-1.4 nothing of the kind")),
        ("files", ("sheet.xyz", b"what is this")),
        ("files", ("empty.txt", b"")),
        ("files", ("sub/deep.txt", "Käse und 東京.".encode())),
    ]
    job = await ended(client, await client.post(f"{notes}/documents", files=files))
    assert job["status"] == "succeeded"
    assert (job["done"], job["total"]) == (5, 5)
    assert {f["name"] for f in job["failures"]} == {"broken.pdf", "sheet.xyz", "empty.txt"}
    assert all(len(f["reason"]) > 10 for f in job["failures"])
    listed = (await client.get(f"{notes}/documents")).json()["documents"]
    assert {d["name"] for d in listed} == {"good.md", "sub/deep.txt"}
    uploads = world.data_dir / "uploads"
    while list(uploads.glob("*/[0-9]*")):  # they go with the job's end
        await asyncio.sleep(0)
    cancelled = await client.delete(f"/v1/jobs/{job['job_id']}")
    assert cancelled.json() == {"cancelled": False}


async def test_a_form_names_ids_titles_and_metadata_of_its_files(client: httpx.AsyncClient, notes: str) -> None:
    files = [("files", ("a.md", b"# Plums\n\nPlums are blue.")), ("files", ("b.md", b"# Figs\n\nFigs are sweet."))]
    details = [{"id": "plums", "metadata": {"kind": "fruit", "sync": {"path": "a.md"}}}, {"title": "All on figs"}]
    form = {"documents": json.dumps(details)}
    job = await ended(client, await client.post(f"{notes}/documents", files=files, data=form))
    assert (job["status"], job["failures"]) == ("succeeded", [])
    listed = (await client.get(f"{notes}/documents")).json()["documents"]
    assert [(d["document_id"], d["name"], d["title"], d["metadata"]) for d in listed] == [
        (id_of_name("b.md"), "b.md", "All on figs", {}),
        ("plums", "a.md", "Plums", {"kind": "fruit", "sync": {"path": "a.md"}}),
    ]


async def test_a_form_that_describes_other_files_is_refused(client: httpx.AsyncClient, notes: str) -> None:
    files = [("files", ("a.md", b"# Plums")), ("files", ("b.md", b"# Figs"))]
    for details, status, told in (
        ('[{"id": "one"}]', 422, "describes 1 files, and the form has 2"),
        ("[{}, {}", 400, "JSON"),
        ('[{}, {"id": "a/b"}]', 422, "documents[1].id"),
        ('[{}, {"name": "x"}]', 422, "there is no field 'name'"),
        ('{"id": "one"}', 422, "documents"),
        ("", 400, "JSON"),
        ("[" * 5000, 400, "well-formed JSON"),
    ):
        refused = await client.post(f"{notes}/documents", files=files, data={"documents": details})
        assert refused.status_code == status, refused.text
        assert told in refused.text
    twice = [("documents", (None, b"[]")), ("documents", (None, b"[]")), *files]
    assert "twice" in (await client.post(f"{notes}/documents", files=twice)).text
    large = {"documents": " " * (uploads.DETAILS_BYTES + 1)}
    assert "is larger than" in (await client.post(f"{notes}/documents", files=files, data=large)).text
    assert (await client.get(f"{notes}/documents")).json()["documents"] == []


async def test_a_search_gives_the_text_around_its_passages(client: httpx.AsyncClient, notes: str) -> None:
    parts = [f"## Part {n}\n\n" + f"Part {n} is on {'plums and figs ' * 40}.\n" for n in range(4)]
    text = "# Fruit\n\n" + "\n".join(parts)
    await ended(client, await client.post(f"{notes}/documents", json={"documents": [{"id": "f", "text": text}]}))

    async def search(**options: Any) -> list[dict[str, Any]]:
        body = {"question": "Part 2", "mode": "lexical", "top_k": 1, **options}
        found = await client.post(f"{notes}/search", json=body)
        assert found.status_code == 200, found.text
        passages: list[dict[str, Any]] = found.json()["passages"]
        return passages

    (plain,) = await search()
    (wide,) = await search(neighbours=1)
    assert plain["text"] in wide["text"] != plain["text"]
    assert wide["text"] == text[wide["source_start"] : wide["source_end"]]
    assert (wide["chunk_id"], wide["score"]) == (plain["chunk_id"], plain["score"])
    (part,) = await search(section=True)
    assert part["text"].startswith("## Part 2")
    assert "Part 3" not in part["text"]
    for options in ({"neighbours": 6}, {"neighbours": -1}, {"section": 1}):
        refused = await client.post(f"{notes}/search", json={"question": "Part 2", **options})
        assert refused.status_code == 422


async def test_texts_with_the_same_title_stay_apart(client: httpx.AsyncClient, notes: str) -> None:
    documents = [{"title": "Notes", "text": "One."}, {"title": "Notes", "text": "Two."}]
    await ended(client, await client.post(f"{notes}/documents", json={"documents": documents}))
    assert (await client.get(notes)).json()["documents"] == 2


async def test_the_page_and_the_api_description(client: httpx.AsyncClient) -> None:
    assert "rag-service" in (await client.get("/")).text
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert {"/v1/query", "/v1/answers/{answer_id}/events", "/v1/collections/{collection}/documents"} <= set(paths)


def test_a_full_disk_is_told_as_such() -> None:
    problem = as_problem(DiskFull("c"))
    assert (problem.status, problem.code) == (507, "storage_full")
    assert "Free space" in str(problem)


@pytest.mark.decoder_only("it reaches no engine")
async def test_the_advice_on_an_unknown_collection_fits_the_request(client: httpx.AsyncClient) -> None:
    new = {"json": {"name": "other"}}
    for method, path, options in (
        ("GET", "none", {}),
        ("DELETE", "none", {}),
        ("PATCH", "none", new),
        ("GET", "none/documents", {}),
        ("DELETE", "none/documents/d0", {}),
    ):
        refused = (await client.request(method, f"/v1/collections/{path}", **options)).json()
        expected = "There is no collection 'none'; GET /v1/collections lists those there are."
        assert (refused["code"], refused["detail"]) == ("unknown_collection", expected), method
    asked = (await client.post("/v1/query", json={"question": "Who?", "collection": "none"})).json()
    assert asked["detail"].endswith("; create it first, or list the collections there are.")
