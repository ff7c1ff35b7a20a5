"""`rag up` for real, with tiny random models: it gets ready, survives its worker's death, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from typer.testing import Result

from rag_service.cli.stack.data_folder import is_in_use
from tests.support.command_line import rag_in
from tests.support.fake_workers import save_tokenizer
from tests.support.stacks.real_stack import PATIENCE_S, ROOT, Stack, started
from workers.broker import keys
from workers.broker.app import make_redis

STAMPED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} ")


@pytest.fixture(scope="module")
def models(tiny_models: Path) -> Path:
    return tiny_models


@pytest.fixture
def stack(models: Path, tmp_path: Path) -> Iterator[Stack]:
    with started(models, tmp_path) as stack:
        yield stack


def open_to_others(folder: Path) -> list[Path]:
    """What someone else could read or list, the folder itself included."""
    return [path for path in (folder, *folder.rglob("*")) if path.lstat().st_mode & 0o077]


def gone(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def test_up_from_start_to_stop(stack: Stack, tmp_path: Path) -> None:
    stack.until(lambda: stack.process.poll() is not None or "Ctrl-C stops it." in stack.text, "getting ready")
    where = stack.run_json()
    assert where is not None, stack.text
    log = (stack.data_dir / "logs" / "worker.log").read_text()
    for step in ("starting the worker's programs", "loading the weights of", "measuring how long passes"):
        assert step in log
        assert f"{step[:1].upper()}{step[1:]}" in stack.text
    shown = [stack.text.index(step) for step in ("Loading the weights of", "Measuring how long", "Ready at")]
    assert shown == sorted(shown)
    key = (stack.data_dir / "key").read_text().strip()
    assert f"{where['url']}/#key={key}\n" in stack.text, "in a file that nobody else reads"
    assert f'  RAG_DATA_DIR={stack.data_dir} rag ask "…"\n' in stack.text
    sent = {"Authorization": f"Bearer {key}"}
    assert httpx.get(f"{where['url']}/v1/collections").status_code == 401
    assert httpx.get(f"{where['url']}/v1/collections", headers=sent).status_code == 200
    assert httpx.get(f"{where['url']}/", headers={"Host": "evil.example"}).status_code == 421
    for log in (stack.data_dir / "logs").iterdir():
        assert key not in log.read_text()
    (tmp_path / "fox.md").write_text("# Foxes\n\nThe quick brown fox jumps over the lazy dog.")

    def rag(*arguments: str) -> Result:
        return rag_in(tmp_path, {"RAG_DATA_DIR": str(stack.data_dir)}, *arguments)

    assert "1 of 1 file" in rag("ingest", "fox.md").stdout
    asked = rag("ask", "What jumps?", "--max-tokens", "8", "--json")
    assert asked.exit_code == 0, asked.stderr
    assert json.loads(asked.stdout)["usage"]["completion_tokens"] == 8
    second = rag("up", "--port", "0")
    assert second.exit_code == 1
    assert f"process {stack.process.pid}" in second.stderr

    redis = make_redis(where["redis_url"])
    before = set(redis.zrange(keys.WORKERS, 0, -1))
    (worker,) = [pid for pid, command in stack.children().items() if "cli worker" in command]
    os.kill(worker, signal.SIGKILL)
    stack.until(lambda: "The worker ended (signal 9)" in stack.text, "noticing the dead worker")
    stack.until(lambda: set(redis.zrange(keys.WORKERS, 0, -1)) - before, "another worker")
    assert len(redis.zrange(keys.WORKERS, 0, -1)) == len(redis.hkeys(keys.WORKER_INFO)) == 1
    assert rag("ask", "What jumps?", "--max-tokens", "4").exit_code == 0

    redis.set("kept", "yes")
    (server,) = [pid for pid, command in stack.children().items() if "valkey-server" in command]
    os.kill(server, signal.SIGKILL)
    stack.until(lambda: "The private Redis ended (signal 9)" in stack.text, "noticing the dead Redis")
    stack.until(lambda: "The private Redis answers again" in stack.text, "another Redis")
    stack.until(lambda: httpx.get(f"{where['url']}/readyz").is_success, "getting ready again")
    assert redis.get("kept") == "yes"
    redis.close()
    (tmp_path / "dog.md").write_text("# Dogs\n\nThe lazy dog sleeps.")
    assert "1 of 1 file" in rag("ingest", "dog.md").stdout
    assert rag("ask", "What sleeps?", "--max-tokens", "4").exit_code == 0

    children = stack.children()
    assert len(children) == 3
    socket_file = Path(where["redis_url"].removeprefix("unix://"))
    assert socket_file.exists()
    stack.process.send_signal(signal.SIGINT)
    assert stack.process.wait(PATIENCE_S) == 0
    assert all(gone(pid) for pid in children)
    assert not socket_file.parent.exists()
    for log in (stack.data_dir / "logs" / "worker.log", stack.data_dir / "logs" / "api.log"):
        lines = log.read_text().splitlines()
        assert all(STAMPED.match(line) for line in lines), lines
    assert open_to_others(stack.data_dir) == []
    assert stack.run_json() is None
    with pytest.raises(httpx.ConnectError):
        httpx.get(where["url"])


def test_rag_stop_ends_all_of_it(stack: Stack, tmp_path: Path) -> None:
    where = {"RAG_DATA_DIR": str(stack.data_dir)}
    stack.until(lambda: stack.process.poll() is not None or is_in_use(stack.data_dir), "beginning")
    early = rag_in(tmp_path, where, "stop")
    assert (early.exit_code, "is still starting" in early.stderr) == (1, True), early.stderr
    stack.until(lambda: stack.process.poll() is not None or stack.run_json(), "getting ready")
    children = stack.children()
    assert len(children) == 3, stack.text
    stopped = rag_in(tmp_path, where, "stop")
    assert (stopped.exit_code, f"process {stack.process.pid}" in stopped.stderr) == (0, True), stopped.stderr
    assert all(gone(pid) for pid in children), "it waits for all of them"
    assert stack.process.wait(PATIENCE_S) == 0
    assert stack.run_json() is None
    again = rag_in(tmp_path, where, "stop")
    assert (again.exit_code, "No `rag up` runs" in again.stderr) == (0, True)


def test_nothing_outlives_a_killed_up(stack: Stack) -> None:
    stack.until(lambda: len(stack.children()) == 3, "starting its processes")
    children = stack.children()
    stack.process.kill()
    stack.until(lambda: all(gone(pid) for pid in children), "the end of all processes")


def test_a_start_that_fails_leaves_no_data_folder(models: Path, tmp_path: Path) -> None:
    """Neither for a model that is nowhere nor for a port in use; a folder that was there stays."""
    kept = tmp_path / "kept"
    kept.mkdir()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        for folder, model, place, said in (
            (tmp_path / "new" / "data", "smolm2-135m", "0", "Did you mean"),
            (tmp_path / "new" / "data", str(models / "tiny"), port, port),
            (kept, str(models / "tiny"), port, port),
        ):
            environment = {
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "RAG_DATA_DIR": str(folder),
                "RAG_MODELS_DIR": str(models),
                "RAG_MODEL": model,
                "RAG_EMBEDDING_MODEL": str(models / "tiny-embedder"),
            }
            command = [sys.executable, "-m", "rag_service.cli", "up", "--port", place]
            ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert ended.returncode != 0
            assert said in ended.stderr
    assert not (tmp_path / "new").exists()
    assert (kept / "key").exists()


def test_a_model_that_cannot_be_loaded_ends_up_with_its_reason(models: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    save_tokenizer(broken)
    (broken / "config.json").write_text('{"max_position_embeddings": 128, "model_type": "llama"}')
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "RAG_DATA_DIR": str(tmp_path / "other"),
        "RAG_MODELS_DIR": str(models),
        "RAG_MODEL": str(broken),
        "RAG_EMBEDDING_MODEL": str(models / "tiny-embedder"),
    }
    command = [sys.executable, "-m", "rag_service.cli", "up", "--port", "0"]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "The worker does not start" in ended.stderr
    assert "safetensors" in ended.stderr
