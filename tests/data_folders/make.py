"""Write a data folder with the code as it is, and pack it: what later versions must still be able to read.

    PYTHONPATH=. python tests/data_folders/make.py v0_1       v0_1.tar.xz and v0_1.json beside this script

Asks a real `rag up` with the small demo models, which must lie in `.rag/models`. It was run once for each released
format of the data; do not run it again for an old name. The JSON tells what the folder holds and is what tests compare
with.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from workers.broker.app import make_redis

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
EXAMPLES = ROOT / "examples" / "documents"
MODELS = ROOT / ".rag" / "models"
PATIENCE_S = 180.0
LEFT_OUT = {"up.lock", "redis.lock", "run.json", "logs", "redis.log", "models"}
"""What belongs to the machine or to a stack that runs."""


class Maker:
    """A stack on a data folder of its own, and what was asked of it."""

    def __init__(self, data_dir: Path) -> None:
        self.data_dir = data_dir
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RAG_")},
            "PYTHONPATH": str(ROOT),
            "RAG_DATA_DIR": str(data_dir),
            "RAG_MODELS_DIR": str(MODELS),
            "RAG_ANSWERS__STORE_TOKENS": "5000",
        }
        command = [sys.executable, "-m", "rag_service.cli", "up", "--port", "0"]
        self.stack = subprocess.Popen(command, env=self.environment, cwd=data_dir.parent)
        self.until((data_dir / "run.json").exists, "the stack")
        run = json.loads((data_dir / "run.json").read_text())
        self.redis = make_redis(run["redis_url"])
        self.http = httpx.Client(base_url=run["url"], timeout=600.0)
        self.keys: dict[str, str] = {}

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            if time.monotonic() > deadline or self.stack.poll() is not None:
                sys.exit(f"{what} did not happen")
            time.sleep(0.1)

    def rag(self, *arguments: str) -> Any:
        command = [sys.executable, "-m", "rag_service.cli", *arguments]
        return json.loads(subprocess.check_output(command, env=self.environment, cwd=self.data_dir.parent))

    def call(self, method: str, path: str, tenant: str = "default", **options: Any) -> Any:
        reply = self.http.request(
            method, path, headers={"Authorization": f"Bearer {self.keys[tenant]}"}, **options
        ).raise_for_status()
        return reply.json() if reply.content else None

    def upload(self, collection: str, files: list[tuple[str, bytes]], tenant: str = "default") -> str:
        path = f"/v1/collections/{collection}/documents"
        accepted = self.call("POST", path, tenant, files=[("files", file) for file in files])
        return str(accepted["job_id"])

    def ingest(self, collection: str, files: list[tuple[str, bytes]], tenant: str = "default") -> None:
        job = self.upload(collection, files, tenant)
        self.until(lambda: self.status(job, tenant) not in ("queued", "running"), "an ingest")

    def status(self, job: str, tenant: str = "default") -> str:
        return str(self.call("GET", f"/v1/jobs/{job}", tenant)["status"])

    def ask(self, question: str, collection: str, session: str, tenant: str = "default") -> str:
        body = {"question": question, "collection": collection, "session_id": session, "max_tokens": 24, "seed": 1}
        return str(self.call("POST", "/v1/query", tenant, json=body)["answer_id"])

    def lose_a_job(self) -> str:
        """A job whose retries run out while another one is at work: it stays `queued`, and no message is left."""
        self.call("POST", "/v1/collections", json={"name": "scratch"})
        text = "".join(f"Record {number}: the sensor {number * 7} was calibrated.\n\n" for number in range(20_000))
        busy = self.upload("scratch", [("records.txt", text.encode())])
        self.until(lambda: self.status(busy) == "running", "a long ingest")
        lost = self.upload("handbook", [("lost.md", b"# Lost\n\nThe lost document is about lighthouses.\n")])
        self.until(lambda: self.messages_of(lost), "its message")
        self.until(lambda: not self.messages_of(lost), "the loss of a job")
        if (self.status(busy), self.status(lost)) != ("running", "queued"):
            sys.exit("no job was lost; make the long one longer")
        self.call("DELETE", f"/v1/jobs/{busy}")
        self.until(lambda: self.status(busy) == "cancelled", "cancelling the long one")
        self.call("DELETE", "/v1/collections/scratch")
        return lost

    def messages_of(self, job: str) -> list[str]:
        waiting = [*self.redis.lrange("ingest", 0, -1), *self.redis.hvals("unacked")]
        return [message for message in waiting if job in message]

    def contents(self, tenant: str) -> dict[str, Any]:
        collections: dict[str, Any] = {}
        for name in [found["name"] for found in self.call("GET", "/v1/collections", tenant)["collections"]]:
            listed = self.call("GET", f"/v1/collections/{name}/documents", tenant)["documents"]
            path = f"/v1/collections/{name}/documents"
            collections[name] = {
                document["document_id"]: self.call("GET", f"{path}/{document['document_id']}", tenant)["text"]
                for document in listed
            }
        ids = [session["session_id"] for session in self.call("GET", "/v1/sessions", tenant)["sessions"]]
        turns = {session: self.call("GET", f"/v1/sessions/{session}", tenant)["turns"] for session in ids}
        jobs = self.call("GET", "/v1/jobs", tenant)["jobs"]
        return {"collections": collections, "sessions": turns, "jobs": jobs}

    def stop(self) -> None:
        self.redis.close()
        self.http.close()
        self.stack.send_signal(signal.SIGINT)
        self.stack.wait(60)


def fill(maker: Maker) -> dict[str, Any]:
    """Everything a data folder can hold; returns what tests compare with."""
    for tenant in ("default", "research"):
        maker.keys[tenant] = maker.rag("keys", "create", f"frozen {tenant}", "--tenant", tenant, "--json")["key"]
    names = ("data-retention.md", "travel-policy.md", "api-rate-limits.html", "warranty-and-returns.pdf")
    maker.call("POST", "/v1/collections", json={"name": "handbook"})
    maker.ingest("handbook", [(name, (EXAMPLES / name).read_bytes()) for name in names])
    maker.ingest("handbook", [("gone.txt", b"This document is deleted again.\n"), ("rota.md", b"# Rota\n\nAnna.\n")])
    maker.ingest("handbook", [("rota.md", b"# Rota\n\nThe duty officer in the fifth week is Berta.\n")])
    maker.ingest("handbook", [("table.xls", b"no document")])
    for document in maker.call("GET", "/v1/collections/handbook/documents")["documents"]:
        if document["name"] == "gone.txt":
            maker.call("DELETE", f"/v1/collections/handbook/documents/{document['document_id']}")
    maker.call("POST", "/v1/collections", "research", json={"name": "papers"})
    maker.ingest("papers", [("foxes.md", b"# Foxes\n\nThe red fox eats berries in autumn.\n")], "research")

    maker.ask("How long are backups kept?", "handbook", "retention")
    maker.ask("And web server logs?", "handbook", "retention")
    last = maker.ask("Who can lift a legal hold?", "handbook", "retention")
    edit = {"instruction": "Say it in fewer words.", "max_tokens": 24, "seed": 1}
    maker.call("POST", f"/v1/answers/{last}/edits", json=edit)
    maker.ask("How much is the hotel limit?", "handbook", "travel")
    maker.ask("What does the red fox eat?", "papers", "foxes", "research")
    lost = maker.lose_a_job()
    return {
        "data_dir": str(maker.data_dir),
        "keys": maker.keys,
        "lost_job": lost,
        "tenants": {tenant: maker.contents(tenant) for tenant in maker.keys},
    }


def main(name: str) -> None:
    commit = subprocess.check_output(["git", "-C", str(ROOT), "describe", "--always"], text=True).strip()
    folder = Path(tempfile.mkdtemp(prefix="frozen-"))
    try:
        maker = Maker(folder / "data")
        try:
            facts = {"commit": commit, **fill(maker)}
        finally:
            maker.stop()
        facts["frozen"] = int(time.time())
        with tarfile.open(HERE / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            for path in sorted((folder / "data").rglob("*")):
                inside = path.relative_to(folder / "data")
                if path.is_file() and not LEFT_OUT & set(inside.parts):
                    archive.add(path, str(inside))
        text = json.dumps(facts, ensure_ascii=False, indent=1, sort_keys=True)
        (HERE / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
