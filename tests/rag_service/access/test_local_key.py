"""The local key: made once, private, and sent to nobody but this machine."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest

from rag_service.access import local_key
from rag_service.access.key_form import KEY, new_key
from rag_service.cli.stack import up
from rag_service.cli.stack.connect import key_for
from rag_service.client import RagClient, RagError
from rag_service.client.transport import Address
from rag_service.langchain import ChatRagService
from rag_service.settings import Settings
from tests.support.command_line import nowhere, rag

LOOPBACK = ("http://127.0.0.1:8080", "http://127.3.2.1:1", "http://[::1]:8080", "http://localhost", "https://localhost")
ELSEWHERE = (
    "http://10.0.0.7:8080",
    "http://0.0.0.0:8080",
    "http://rag.example.com",
    "http://localhost.example.com",
    "http://127.0.0.1.example.com",
    "http://127.0.0.1@example.com",
    "http://rag",
)


@pytest.fixture
def kept(own_folder: None, tmp_path: Path) -> str:
    """A local key in the default data folder of this working folder."""
    return local_key.ensure(tmp_path / ".rag")


def test_it_is_made_once_and_private(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    key = local_key.ensure(folder)
    assert KEY.fullmatch(key)
    assert local_key.ensure(folder) == local_key.read(folder) == key
    assert (folder / "key").read_text() == f"{key}\n"
    assert (folder / "key").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in folder.iterdir()] == ["key"]


def test_all_who_start_together_get_the_same_one(tmp_path: Path) -> None:
    found: list[str] = []
    begin = threading.Barrier(8)

    def start() -> None:
        begin.wait(30)
        found.append(local_key.ensure(tmp_path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert (len(found), len(set(found))) == (8, 1)


def test_a_file_of_no_use_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "key"
    for text in (b"", b"secret", b"\xff\xfe", new_key()[1].encode() * 2):
        file.write_bytes(text)
        file.chmod(0o600)
        with pytest.raises(local_key.LocalKeyError, match=r"is not a key\. Delete that file"):
            local_key.ensure(tmp_path)
    file.write_text(new_key()[1])
    file.chmod(0o604)
    with pytest.raises(local_key.LocalKeyError, match="Every user of this machine"):
        local_key.ensure(tmp_path)
    file.unlink()
    file.mkdir()
    with pytest.raises(local_key.LocalKeyError, match="cannot be read"):
        local_key.ensure(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(local_key.LocalKeyError, match=r"cannot be (read|created) \(Not a directory\)"):
        local_key.ensure(tmp_path / "file" / "data")


def test_serve_says_what_is_wrong_with_it(own_folder: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".rag").mkdir()
    (tmp_path / ".rag" / "key").write_text("nonsense")
    monkeypatch.setenv("RAG_REDIS_URL", "redis://127.0.0.1:1/0")
    for command in ("serve", "up"):
        ended = rag(command, "--port", "0")
        assert ended.exit_code == 1
        assert "is not a key. Delete that file" in ended.stderr


@pytest.mark.parametrize("url", LOOPBACK)
def test_clients_send_it_to_this_machine(url: str, kept: str) -> None:
    assert Address.of(url, None, None).client_options()["headers"]["Authorization"] == f"Bearer {kept}"
    assert key_for(url, None, Settings(_env_file=None)) == kept  # type: ignore[call-arg]


@pytest.mark.parametrize("url", ELSEWHERE)
def test_clients_send_it_nowhere_else(url: str, kept: str) -> None:
    assert "Authorization" not in Address.of(url, None, None).client_options()["headers"]
    assert key_for(url, None, Settings(_env_file=None)) is None  # type: ignore[call-arg]


def test_a_key_that_is_given_comes_first(kept: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_API_KEY", "from-outside")
    assert Address.of(None, None, None).api_key == "from-outside"
    assert Address.of(None, "given", None).api_key == "given"
    assert Address.of(None, "", None).api_key is None
    settings = Settings(_env_file=None)  # type: ignore[call-arg]
    assert key_for("http://127.0.0.1:1", None, settings) == "from-outside"
    assert key_for("http://127.0.0.1:1", "given", settings) == "given"
    monkeypatch.delenv("RAG_API_KEY")
    other = local_key.ensure(tmp_path / "other")
    monkeypatch.setenv("RAG_DATA_DIR", str(tmp_path / "other"))
    assert Address.of(None, None, None).api_key == other
    (tmp_path / "other" / "key").write_text("nonsense")
    with pytest.raises(RagError, match="is not a key"):
        Address.of(None, None, None)


@pytest.fixture
def guarded_url(world: Any, serve: Callable[..., AbstractContextManager[str]], tmp_path: Path) -> Any:
    """The API over a real connection, that wants a key."""
    with serve(world, open_without_key=False) as url:
        yield url


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_the_service_takes_it(world: Any, guarded_url: str, own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """As an admin of the default tenant, in the commands, the Python client and LangChain alike."""
    key = local_key.read(world.data_dir)
    assert key is not None
    assert httpx.get(f"{guarded_url}/v1/collections").status_code == 401
    wrong = key[:-1] + ("A" if key[-1] != "A" else "B")
    assert httpx.get(f"{guarded_url}/v1/collections", headers={"Authorization": f"Bearer {wrong}"}).status_code == 401
    assert rag("collections", "list", "--url", guarded_url).exit_code == 1
    monkeypatch.setenv("RAG_DATA_DIR", str(world.data_dir))
    with RagClient(guarded_url) as client:
        assert [one.name for one in client.collections()].count("animals") == 1
    assert "animals" in rag("collections", "list", "--url", guarded_url).stdout
    assert ChatRagService(base_url=guarded_url, collection="animals").invoke("What jumps?").text == world.stage.text
    verified = rag("verify", "What jumps?", "-c", "animals", "--url", guarded_url)
    assert verified.exit_code == 0, verified.stderr


def test_no_proxy_is_told_it(world: Any, guarded_url: str, own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the environment names would be sent what goes to loopback."""
    monkeypatch.setenv("RAG_DATA_DIR", str(world.data_dir))
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, nowhere())
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with RagClient(guarded_url) as client:
        assert client.collections()


def test_the_copied_client_takes_it(world: Any, guarded_url: str) -> None:
    """examples/rag_client.py, which has no more than the standard library."""
    examples = Path(__file__).parents[3] / "examples"
    program = (
        f"from rag_client import Rag; print(Rag({guarded_url!r}).ask('What jumps?', collection='animals')['answer'])"
    )
    command = [sys.executable, "-c", program]
    told = subprocess.run(
        command,
        cwd=world.data_dir,
        env={"PYTHONPATH": str(examples), "RAG_DATA_DIR": str(world.data_dir), "http_proxy": "http://127.0.0.1:1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.stdout.strip() == world.stage.text, told.stderr


@pytest.mark.parametrize(("mode", "shown"), [(0o600, True), (0o640, False), (0o644, False)])
def test_up_tells_it_to_nobody_else(mode: int, shown: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path / "data")  # type: ignore[call-arg]
    key = local_key.ensure(settings.data_dir)
    output = tmp_path / "up.log"
    output.touch(mode)
    output.chmod(mode)
    with output.open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        up._sign_in(settings, "http://127.0.0.1:8080")
    assert (f"http://127.0.0.1:8080/#key={key}\n" in output.read_text()) == shown
    assert shown or (key not in output.read_text() and str(settings.data_dir / "key") in output.read_text())
