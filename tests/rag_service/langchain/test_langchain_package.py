"""langchain-rag-service: what the wheel holds and needs, and its classes in an environment that has nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email.message import Message
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.client import RagClient, RagError
from tests.rag_service.langchain.conftest import BUILDER, SEPARATE, build
from tests.support.markdown_blocks import blocks

pytestmark = pytest.mark.usefixtures("own_folder")

ROOT = BUILDER.parents[1]
SPOKEN = "Backups are kept for thirty-five days."
ASK = """
import asyncio, json
from langchain_rag_service import ChatRagService, RagServiceLLM, RagServiceRetriever
from langchain_rag_service.client import NotFound, RagClient

chat = ChatRagService(collection="animals")
message = chat.invoke("What jumps?")
async def pieces():
    return [piece.text async for piece in chat.astream("What jumps?")]
try:
    ChatRagService(collection="nowhere").invoke("What?")
except NotFound as error:
    missing = error.code
with RagClient() as rag:
    names = [collection.name for collection in rag.collections()]
print(json.dumps({
    "text": message.text,
    "annotations": message.content_blocks[0]["annotations"],
    "stream": [piece.text for piece in chat.stream("What jumps?")],
    "astream": asyncio.run(pieces()),
    "history": chat.invoke([("system", "Be short."), ("human", "What jumps?")]).text,
    "llm": RagServiceLLM(collection="animals").invoke("What jumps?"),
    "documents": [found.metadata["document_id"] for found in RagServiceRetriever(collection="animals").invoke("fox")],
    "missing": missing,
    "collections": names,
}))
"""
USE = """
from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_rag_service import ChatRagService, RagServiceLLM, RagServiceRetriever
from langchain_rag_service.client import Done, RagClient, Token

message: AIMessage = ChatRagService(collection="notes", max_tokens=64).invoke("What?")
text: str = RagServiceLLM(temperature=0.5).invoke("What?")
documents: list[Document] = RagServiceRetriever(k=3).invoke("backups")
with RagClient() as rag:
    words: list[str] = [event.text for event in rag.stream("What?") if isinstance(event, Token)]
    tokens: list[int] | None = rag.query("What?", max_tokens=3).token_ids
"""
MISUSE = """
RagServiceRetriever(k="three")
rag.query("What?", max_tokens="three")
rag.query("What?").no_such_field
"""


def run(python: Path, code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run code in an environment of its own: `-I` leaves out this folder and PYTHONPATH."""
    command = [str(python), "-I", "-W", "error", "-c", code]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, check=False)


def test_the_wheel_has_one_package_and_needs_three_with_what_they_bring(wheel: Path, about: Message) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.partition("/")[0] for name in names} == {SEPARATE, f"{SEPARATE}-{version('rag-service')}.dist-info"}
    assert f"{SEPARATE}/py.typed" in names
    assert any(name.endswith("/LICENSE") for name in names)
    own = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = set(about.get_all("Requires-Dist", []))
    assert needed <= set(own["dependencies"]), "the bounds are this repository's"
    assert {line.partition(">")[0] for line in needed} == {"httpx", "httpx-sse", "langchain-core", "pydantic"}
    for header, field in (
        ("Version", "version"),
        ("Requires-Python", "requires-python"),
        ("License-Expression", "license"),
    ):
        assert about[header] == own[field]


def test_equal_files_give_equal_archives(built: Path, tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        assert build(tmp_path).returncode == 0
    finally:
        os.umask(before)
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(files) == 2
    assert files == {file.name: file.read_bytes() for file in built.iterdir()}


@pytest.mark.parametrize(
    ("file", "line", "reason"),
    [
        ("rag_service/client/calls.py", "import fastapi", "rag_service.client.calls imports fastapi"),
        (
            "rag_service/contract/answer.py",
            "def f():\n    import torch.nn",
            "rag_service.contract.answer imports torch",
        ),
        ("rag_service/langchain/llm.py", "from langchain import agents", "rag_service.langchain.llm imports langchain"),
        ("workers/broker/progress.py", "from redis import Redis", "workers.broker.progress imports redis"),
        (
            "rag_service/contract/responses.py",
            "from decoder.drafter_names import DrafterName",
            "rag_service.contract.responses imports decoder, which the package has no place for",
        ),
        (
            "rag_service/client/sync.py",
            "from rag_service.answering import names",
            "rag_service.client.sync imports rag_service.answering, which the package has no place for",
        ),
        (
            "rag_service/contract/feedback.py",
            "from workers.broker import keys",
            "rag_service.contract.feedback imports workers.broker.keys, which the package has no place for",
        ),
        ("rag_service/__init__.py", "VERSION = 1", "has code, which the package would lack"),
    ],
)
def test_what_the_package_cannot_have_is_refused(file: str, line: str, reason: str, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "LICENSE", "docs", "decoder"):
        (tmp_path / name).symlink_to(ROOT / name)
    for name in ("rag_service", "workers", "scripts"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("web", "__pycache__", "own"))
    with (tmp_path / file).open("a", encoding="utf-8") as changed:
        changed.write(f"\n\n{line}\n")
    told = build(tmp_path / "out", tmp_path / "scripts" / "langchain_package")
    assert told.returncode == 1
    assert reason in told.stderr
    assert "Traceback" not in told.stderr
    assert not list((tmp_path / "out").iterdir())


def test_every_module_loads_where_nothing_else_is_installed(fresh_python: Path) -> None:
    told = run(
        fresh_python,
        "import importlib, importlib.metadata, json, pkgutil, langchain_rag_service as package\n"
        "names = [module.name for module in pkgutil.walk_packages(package.__path__, 'langchain_rag_service.')]\n"
        "for name in names: importlib.import_module(name)\n"
        "print(json.dumps([names, sorted(found.name for found in importlib.metadata.distributions())]))",
    )
    assert told.returncode == 0, told.stderr
    modules, distributions = json.loads(told.stdout)
    assert f"{SEPARATE}.client.asynchronous" in modules
    assert f"{SEPARATE}.chat_model" in modules
    assert "langchain-rag-service" in distributions
    others = {"rag-service", "torch", "faiss-cpu", "celery", "redis", "fastapi", "numpy", "transformers", "langchain"}
    assert not others & {name.lower() for name in distributions}


def test_it_asks_streams_and_retrieves_where_nothing_else_is_installed(
    fresh_python: Path, live_url: str, world: Any
) -> None:
    told = run(fresh_python, ASK, RAG_URL=live_url, RAG_API_KEY="")
    assert told.returncode == 0, told.stderr
    said = json.loads(told.stdout)
    text = world.stage.text
    assert said["text"] == said["history"] == said["llm"] == text
    assert "".join(said["stream"]) == "".join(said["astream"]) == text
    assert len(said["stream"]) > 3
    assert len(said["astream"]) > 3
    copied = [annotation for annotation in said["annotations"] if annotation["extras"]["kind"] == "copied"]
    assert copied
    for annotation in copied:
        assert text[annotation["start_index"] : annotation["end_index"]] == annotation["cited_text"]
    assert set(said["documents"]) == {"foxes"}
    assert said["missing"] == "unknown_collection"
    assert "animals" in said["collections"]


def test_the_examples_of_its_page_run_where_nothing_else_is_installed(
    fresh_python: Path, about: Message, live_url: str, world: Any, tmp_path: Path
) -> None:
    world.stage.text = SPOKEN
    page = tmp_path / "README.md"
    page.write_text(str(about.get_payload()))
    assert "rag_service.client" not in page.read_text().replace(f"{SEPARATE}.client", "")
    code = [block.code for block in blocks(page) if block.language == "python"]
    assert len(code) == 3
    try:
        told = run(fresh_python, "\n".join(code), RAG_URL=live_url, RAG_API_KEY="")
        assert told.returncode == 0, told.stderr
        lines = told.stdout.splitlines()
        assert lines[:4] == [SPOKEN, SPOKEN, "2", SPOKEN]
        assert lines[-1].endswith(SPOKEN)
    finally:
        with RagClient(live_url) as rag:
            rag.delete_collection("notes")


def test_a_users_strict_types_see_its_types(fresh_python: Path, tmp_path: Path) -> None:
    (tmp_path / "right.py").write_text(USE)
    (tmp_path / "wrong.py").write_text(USE + MISUSE)
    options = ["--strict", "--config-file=", "--cache-dir=cache", "--python-executable", str(fresh_python)]
    command = [sys.executable, "-m", "mypy", *options, "right.py", "wrong.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    errors = [line.split(":")[:2] for line in told.stdout.splitlines() if ": error: " in line]
    first = len(USE.splitlines()) + 2
    assert errors == [["wrong.py", str(line)] for line in range(first, first + 3)], told.stdout + told.stderr


def test_both_packages_work_side_by_side(separate: Any, live_url: str, world: Any) -> None:
    from rag_service import langchain as ours

    told = [
        package.ChatRagService(base_url=live_url, collection="animals").invoke("What jumps?")
        for package in (ours, separate, ours)
    ]
    assert {message.text for message in told} == {world.stage.text}
    for message in told:
        assert message.content_blocks == told[0].content_blocks
        assert message.content_blocks[0]["annotations"]
    assert not issubclass(separate.client.RagError, RagError)
    assert separate.ChatRagService is not ours.ChatRagService


def test_requests_name_the_distribution_they_come_from(package: Any, separate: Any) -> None:
    seen: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.headers["user-agent"])
        return httpx.Response(200, json={"collections": []})

    kind = separate.client.RagClient if package is separate else RagClient
    with kind("http://rag", transport=httpx.MockTransport(answer)) as rag:
        assert rag.collections() == []
    name = "langchain-rag-service" if package is separate else "rag-service"
    assert seen == [f"{name}/{version('rag-service')}"]


def test_what_a_newer_service_says_of_a_job_is_read(package: Any, separate: Any) -> None:
    """An application's client may be older than the service: fields that it does not know are left out."""
    kind = separate.client.RagClient if package is separate else RagClient
    failure = {"name": "a.md", "reason": "r", "page": 1}
    job = {"job_id": "j", "status": "succeeded", "done": 1, "total": 1, "failures": [failure], "seconds": 2.0}
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=job))
    with kind("http://rag", transport=transport) as rag:
        assert rag.job("j").failures[0].reason == "r"
