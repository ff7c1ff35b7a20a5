"""Every example of README.md and docs/ runs, against a live service whose engine speaks from a script.

Console blocks run in bash with `rag` and curl, python blocks in one namespace a page. What cannot run here says why in
the page's source, and is read instead (`markdown_blocks.check`).
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import mcp.client.stdio  # noqa: F401 – it keeps the standard error of its import, which must be a file
import pytest

from rag_service.client import RagClient
from tests.support.markdown_blocks import RUN, SHELLS, Block, blocks, check, script
from tests.support.stacks.quick_rag import quick_rag

ROOT = Path(__file__).parents[2]
MODELS = ROOT / ".rag" / "models"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
READ_ONLY = {"cli.md"}
"""Pages whose examples name things that a reader has: read, not run."""
SPOKEN = "Backups are kept for thirty-five days."
NOTE = f"# Backups\n\n{SPOKEN} Only the night shift may restore them.\n"
PRELUDE = 'set -euo pipefail\ncurl() { command curl --fail-with-body --no-progress-meter "$@"; }\n'
SAID: dict[str, Callable[[list[str]], bool]] = {
    "anthropic.md": lambda lines: (
        lines[:2] == [SPOKEN, f"Backups 11 49 {SPOKEN}"] and SPOKEN in lines[2:] and lines[-1].isdigit()
    ),
    "langchain.md": lambda lines: (
        lines[:4] == [SPOKEN, SPOKEN, "2", SPOKEN]
        # two documents have it, and tie: there are no others
        and not {f"{SPOKEN} 0", f"{SPOKEN} 11"}.isdisjoint(lines)
        and lines[-1].endswith(SPOKEN)
    ),
    "llamaindex.md": lambda lines: lines[0] == "backups 0 88 # Backups" and any(SPOKEN in line for line in lines),
    "mcp.md": lambda lines: lines[0] == SPOKEN and any(line.startswith("Backups ") for line in lines[1:]),
    "openai.md": lambda lines: SPOKEN in lines and any(line.startswith("backups ") for line in lines),
}
"""What the python examples of a page have to print."""


@pytest.fixture(scope="session")
def rag_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with quick_rag(tmp_path_factory.mktemp("rag")) as folder:
        yield folder


@pytest.fixture(scope="session")
def _guarded(_working: Any, serve: Callable[..., contextlib.AbstractContextManager[str]]) -> Iterator[str]:
    with serve(_working, open_without_key=False) as url:
        yield url


@pytest.fixture
def guarded_url(_guarded: str, world: Any) -> str:
    """The API as it is by default: it wants a key."""
    return _guarded


@pytest.fixture
def reader(
    guarded_url: str, world: Any, tmp_path: Path, own_folder: None, rag_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Block], str]]:
    """Someone at a fresh machine with a running service, a folder of notes, the examples, and the collection `notes`.

    Runs a console block; returns what it printed.
    """
    world.stage.text = SPOKEN
    (tmp_path / ".rag").mkdir()
    (tmp_path / ".rag" / "key").symlink_to(world.data_dir / "key")
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "backups.md").write_text(NOTE)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for name, value in {
        "HOME": str(tmp_path),
        "RAG_URL": guarded_url,
        "RAG_REDIS_URL": world.redis_url,
        "PATH": f"{rag_folder}:{Path(sys.executable).parent}:{os.environ['PATH']}",
        "NO_PROXY": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)

    def run(block: Block) -> str:
        told = subprocess.run(
            ["bash", "-c", PRELUDE + here(script(block), guarded_url)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert told.returncode == 0, f"{block.where}\n{script(block)}\n{told.stdout}\n{told.stderr}"
        return told.stdout

    with RagClient(guarded_url) as rag:
        before = {collection.name for collection in rag.collections()}
        rag.ingest("notes", texts=[{"id": "backups", "title": "Backups", "text": NOTE}])
        yield run
        for collection in rag.collections():
            if collection.name not in before:
                rag.delete_collection(collection.name)


def here(code: str, url: str) -> str:
    return code.replace("http://127.0.0.1:8080", url)


def _run_page(page: Path) -> Any:
    verifies = "rag verify" in page.read_text(encoding="utf-8")
    marks = [pytest.mark.decoder_only("`rag verify` compares its own decoding")] if verifies else []
    return pytest.param(page, id=page.name, marks=marks)


@pytest.mark.parametrize("page", [_run_page(page) for page in PAGES])
def test_the_examples_of_a_page_run(
    page: Path, reader: Callable[[Block], str], guarded_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names: dict[str, Any] = {}
    for block in blocks(page):
        if block.language not in RUN or block.not_run or page.name in READ_ONLY:
            check(block)
        elif block.language in SHELLS:
            reader(block)
        else:
            exec(compile(here(block.code, guarded_url), block.where, "exec"), names)
    for name in ("client", "chat"):
        if hasattr(names.get(name), "close"):
            names[name].close()
    if page.name in SAID:
        said = capsys.readouterr().out.splitlines()
        assert SAID[page.name](said), "\n".join(said)


@pytest.mark.full
@pytest.mark.parametrize(
    "block", [block for page in PAGES for block in blocks(page) if block.full], ids=lambda block: block.where
)
def test_the_example_runs_with_the_demo_model(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".rag").mkdir()
    (tmp_path / ".rag" / "models").symlink_to(os.environ.get("RAG_MODELS_DIR", MODELS))
    monkeypatch.chdir(tmp_path)
    assert block.language == "python"
    exec(compile(block.code, block.where, "exec"), {})


def test_every_link_between_pages_leads_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_pages_are_found_from_the_index() -> None:
    docs = ROOT / "docs"
    index = (docs / "index.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name == "index.md" or f"({page.relative_to(docs)})" in index, page.name


def test_a_block_that_fails_is_noticed(tmp_path: Path, reader: Callable[[Block], str], guarded_url: str) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```console\n$ rag ask x -c nowhere | cat\n```\n\n"
        "```console\n$ curl -s http://127.0.0.1:8080/v1/answers/none\n```\n\n"
        "<!-- not run: no -->\n\n```console\n$ rag ask --wrong x\n```\n\n"
        "```nginx\nlocation / { proxy_pass http://x }\n```\n"
    )
    refused, missing, wrong, unended = blocks(page)
    for block in (refused, missing):
        with pytest.raises(AssertionError, match=r"page\.md"):
            reader(block)
    assert wrong.not_run == "no"
    for block in (wrong, unended):
        with pytest.raises(Exception, match=r"--wrong|page\.md"):
            check(block)
