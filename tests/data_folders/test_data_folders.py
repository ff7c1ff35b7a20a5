"""Data folders that earlier versions wrote are read by the code as it is."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from thaw import thaw

from decoder.drafters.learning.acceptance import AcceptanceTables
from rag_service.answering.pipeline import Pipeline
from rag_service.main import create_app
from rag_service.settings import Settings
from retriever import Library
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker, save_tokenizer
from tests.support.hash_embedder import HashEmbedder
from workers.broker.embedded_redis import EmbeddedRedis
from workers.tokens.tokenizer import Tokens

ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".rag" / "models"
PATIENCE_S = 30.0
READY_S = 120.0
VERSIONS = ("v0_1",)


@dataclass
class Thawed:
    """A frozen folder's Redis, and the API over it."""

    folder: Path
    facts: dict[str, Any]
    redis_url: str
    tokens: Tokens
    http: TestClient

    def call(self, method: str, path: str, tenant: str = "default", **options: Any) -> Any:
        key = self.facts["keys"][tenant]
        reply = self.http.request(method, path, headers={"Authorization": f"Bearer {key}"}, **options)
        assert reply.is_success, reply.text
        return reply.json()

    @property
    def tenants(self) -> dict[str, Any]:
        found: dict[str, Any] = self.facts["tenants"]
        return found


def embedder() -> HashEmbedder:
    """In the place of the model that the folder was written with; its vectors find nothing in there."""
    embedder = HashEmbedder(384)
    embedder.name = "all-minilm-l6-v2"
    return embedder


@pytest.fixture(scope="module", params=VERSIONS)
def thawed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Thawed]:
    folder = tmp_path_factory.mktemp("thawed") / "data"
    facts = thaw(request.param, folder)
    tokens = Tokens.load(save_tokenizer(tmp_path_factory.mktemp("tokenizer")))
    with EmbeddedRedis(folder / "redis") as server:
        settings = Settings(_env_file=None, data_dir=folder)  # type: ignore[call-arg]
        pipeline = Pipeline(settings, server.url, embedder=embedder(), tokens=tokens, window=2048)
        with TestClient(create_app(pipeline=pipeline), base_url="http://127.0.0.1") as http:
            yield Thawed(folder, facts, server.url, tokens, http)


def test_collections_and_documents_are_as_they_were(thawed: Thawed) -> None:
    for tenant, held in thawed.tenants.items():
        names = [found["name"] for found in thawed.call("GET", "/v1/collections", tenant)["collections"]]
        assert sorted(names) == sorted(held["collections"])
        for name, texts in held["collections"].items():
            path = f"/v1/collections/{name}/documents"
            listed = thawed.call("GET", path, tenant)["documents"]
            assert {document["document_id"] for document in listed} == set(texts)
            for document, text in texts.items():
                assert thawed.call("GET", f"{path}/{document}", tenant)["text"] == text


def test_a_search_finds_passages_in_them(thawed: Thawed) -> None:
    body = {"question": "the duty officer in the fifth week", "mode": "lexical", "top_k": 1}
    (passage,) = thawed.call("POST", "/v1/collections/handbook/search", json=body)["passages"]
    text = thawed.tenants["default"]["collections"]["handbook"][passage["document_id"]]
    assert "Berta" in passage["text"]
    assert text[passage["source_start"] : passage["source_end"]] == passage["text"]


def test_sessions_have_their_turns(thawed: Thawed) -> None:
    for tenant, held in thawed.tenants.items():
        listed = [session["session_id"] for session in thawed.call("GET", "/v1/sessions", tenant)["sessions"]]
        assert sorted(listed) == sorted(held["sessions"])
        for session, before in held["sessions"].items():
            turns = thawed.call("GET", f"/v1/sessions/{session}", tenant)["turns"]
            assert len(turns) == len(before) > 0
            for turn, known in zip(turns, before, strict=True):
                assert known == _as_known(turn, known), "fields may have been added, none lost or changed"


def _as_known(now: Any, known: Any) -> Any:
    """`now` without the fields that `known` has not, at any depth."""
    if isinstance(known, dict) and isinstance(now, dict):
        return {name: _as_known(value, known[name]) for name, value in now.items() if name in known}
    if isinstance(known, list) and isinstance(now, list) and len(known) == len(now):
        return [_as_known(*pair) for pair in zip(now, known, strict=True)]
    return now


def test_answers_can_be_read_with_their_versions(thawed: Thawed) -> None:
    turns = thawed.tenants["default"]["sessions"]["retention"]
    for turn in turns:
        assert thawed.call("GET", f"/v1/answers/{turn['answer_id']}")["answer"] == turn["answer"]
    versions = thawed.call("GET", f"/v1/answers/{turns[-1]['base']}/versions")["versions"]
    assert [version["answer_id"] for version in versions] == [turn["answer_id"] for turn in turns[-2:]]


def test_keys_open_their_own_tenant_and_nothing_else_does(thawed: Thawed) -> None:
    (made,) = [key for tenant, key in thawed.facts["keys"].items() if tenant == "research"]
    altered = {"Authorization": f"Bearer {made[:-1]}{'A' if made[-1] != 'A' else 'B'}"}
    assert thawed.http.get("/v1/collections", headers=altered).status_code == 401
    assert [c["name"] for c in thawed.call("GET", "/v1/collections", "research")["collections"]] == ["papers"]


def test_jobs_that_ended_are_listed_as_they_ended(thawed: Thawed) -> None:
    for tenant, held in thawed.tenants.items():
        jobs = {job["job_id"]: job for job in thawed.call("GET", "/v1/jobs?limit=1000", tenant)["jobs"]}
        for known in held["jobs"]:
            found = jobs[known["job_id"]]
            if known["job_id"] != thawed.facts["lost_job"]:
                assert {**found, **known} == found


def test_what_was_learned_is_read(thawed: Thawed, tmp_path: Path) -> None:
    folder = thawed.folder / "learned" / "acceptance-smollm2-135m"
    tables = AcceptanceTables(folder)
    for domain in ("default/handbook", "research/papers"):
        (file,) = folder.glob(f"*-{hashlib.sha256(domain.encode()).hexdigest()[:16]}.json")
        tables.of(domain).save(tmp_path / file.name)
        saved, kept = (json.loads(one.read_text()) for one in (tmp_path / file.name, file))
        assert [row[1:] for row in saved.pop("rows")] == [row[1:] for row in kept.pop("rows")]
        assert {**saved, "format": None} == {**kept, "format": None}, "the format alone is that of this version"


def test_a_job_that_was_lost_ends(thawed: Thawed) -> None:
    engine = FakeEngine(thawed.tokens, lambda prompt: [])
    library = Library(thawed.folder, embedder())
    place = make_worker_context(thawed.redis_url, thawed.tokens, engine, library, thawed.folder / "uploads")
    lost = f"/v1/jobs/{thawed.facts['lost_job']}"
    deadline = time.monotonic() + PATIENCE_S
    with running_worker(thawed.redis_url, place):
        while thawed.call("GET", lost)["status"] in ("queued", "running") and time.monotonic() < deadline:
            time.sleep(0.1)
    library.close()
    assert thawed.call("GET", lost)["status"] == "succeeded"


@pytest.mark.full
@pytest.mark.parametrize("name", VERSIONS)
def test_rag_up_goes_on_with_it(name: str, tmp_path: Path) -> None:
    """With the models it was written with: an old session goes on, and new documents go in beside the old ones."""
    facts = thaw(name, tmp_path / "data")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RAG_")},
        "PYTHONPATH": str(ROOT),
        "RAG_DATA_DIR": str(tmp_path / "data"),
        "RAG_MODELS_DIR": str(MODELS),
        "RAG_ANSWERS__STORE_TOKENS": "5000",
    }
    command = [sys.executable, "-m", "rag_service.cli", "up", "--port", "0"]
    stack = subprocess.Popen(command, env=environment, cwd=tmp_path, start_new_session=True)
    try:
        run_file = tmp_path / "data" / "run.json"
        until(lambda: stack.poll() is not None or run_file.exists())
        assert stack.poll() is None
        key = {"Authorization": f"Bearer {facts['keys']['default']}"}
        with httpx.Client(base_url=json.loads(run_file.read_text())["url"], headers=key, timeout=READY_S) as http:
            body = {"question": "And the meals?", "collection": "handbook", "session_id": "travel", "max_tokens": 8}
            answer = http.post("/v1/query", json=body).raise_for_status().json()
            assert answer["answer"]
            assert answer["passages"]
            turns = http.get("/v1/sessions/travel").json()["turns"]
            assert len(turns) == len(facts["tenants"]["default"]["sessions"]["travel"]) + 1
            file = ("files", ("stars.md", b"# Stars\n\nThe brightest star in the sky is Sirius.\n"))
            documents = "/v1/collections/handbook/documents"
            job = http.post(documents, files=[file]).raise_for_status().json()["job_id"]
            until(lambda: http.get(f"/v1/jobs/{job}").json()["status"] not in ("queued", "running"))
            search = {"question": "Which star is brightest?", "top_k": 1}
            (found,) = http.post("/v1/collections/handbook/search", json=search).json()["passages"]
            assert "Sirius" in found["text"]
            search = {"question": "How long are backups kept?", "top_k": 1}
            (found,) = http.post("/v1/collections/handbook/search", json=search).json()["passages"]
            assert "35 days" in found["text"]
        stack.send_signal(signal.SIGINT)
        assert stack.wait(READY_S) == 0
    finally:
        if stack.poll() is None:
            stack.kill()
            stack.wait()


def until(holds: Callable[[], Any]) -> None:
    deadline = time.monotonic() + READY_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.1)
