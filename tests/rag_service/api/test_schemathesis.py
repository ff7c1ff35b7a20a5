"""The service keeps to its OpenAPI document, whatever is sent: schemathesis makes requests from it, good and bad.

Checked on every answer: no 5xx, a documented status and media type, a body that the schema describes; bad requests are
refused, good ones are not. A tenant of its own keeps it apart from other tests.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rag_service.access.api_keys import ApiKeys
from rag_service.client import RagClient
from tests.support.api_keys import add_key
from workers.broker.app import make_redis

CONFIG = Path(__file__).with_name("schemathesis.toml")


@pytest.fixture
def key(world: Any, live_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An API key of a tenant of its own, which has a collection, a session and an answer."""
    client = make_redis(world.redis_url)
    keys = ApiKeys(client)
    made, key = add_key(keys, "schemathesis", "schemathesis", role="admin")
    with RagClient(live_url, key) as rag:
        rag.ingest("fruit", texts=[{"id": "kiwi", "text": "Kiwis are green."}])
        answer = rag.query("What is green?", collection="fruit")
        monkeypatch.setenv("RAG_ANSWER", answer.answer_id)
        monkeypatch.setenv("RAG_SESSION", answer.session_id)
        yield key
        for collection in rag.collections():
            rag.delete_collection(collection.name)
    for other in keys.list():
        if other.tenant == made.tenant:
            keys.revoke(other.id)
    client.close()


def run(url: str, key: str, folder: Path, *options: str, seconds: int) -> None:
    """Run schemathesis; what it complains of fails the test."""
    command = [Path(sys.executable).with_name("schemathesis"), "--config-file", CONFIG, "run", f"{url}/openapi.json"]
    told = subprocess.run(
        [*map(str, command), "--header", f"Authorization: Bearer {key}", "--no-color", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-20000:] + told.stderr


@pytest.mark.parametrize(
    "options",
    [
        ("--phases", "coverage,fuzzing", "--max-examples", "2", "--include-path-regex", "^/v1/collections"),
        ("--phases", "fuzzing", "--max-examples", "4", "--exclude-path-regex", "^/v1/collections"),
    ],
    ids=["collections", "others"],
)
def test_every_call_keeps_to_its_description(live_url: str, key: str, tmp_path: Path, options: tuple[str, ...]) -> None:
    run(live_url, key, tmp_path, *options, seconds=280)


@pytest.mark.full
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("phases", ["coverage", "fuzzing", "stateful"])
def test_many_calls_keep_to_their_descriptions(live_url: str, key: str, tmp_path: Path, phases: str) -> None:
    run(live_url, key, tmp_path, "--phases", phases, "--max-examples", "60", seconds=1700)
