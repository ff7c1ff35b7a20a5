"""The private Redis: it keeps its data, is alone in its folder, and ends with its parent."""

from __future__ import annotations

import os
import select
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from workers.broker import embedded_redis, restarts
from workers.broker.app import make_redis
from workers.broker.embedded_redis import MAX_SOCKET_PATH, EmbeddedRedis, EmbeddedRedisError

PARENT = """
import sys
from pathlib import Path
from workers.broker.embedded_redis import EmbeddedRedis
server = EmbeddedRedis(Path(sys.argv[1]))
print(server.start(), server.pid, flush=True)
sys.stdin.read()
"""


def test_data_survives_a_restart(tmp_path: Path) -> None:
    folder = tmp_path / "a folder with 'quotes' and spaces"
    with EmbeddedRedis(folder) as server:
        client = make_redis(server.url)
        client.xadd("stream", {"event": "é 😀 \x00"})
        assert client.config_get("appendonly") == {"appendonly": "yes"}
        assert client.config_get("appendfsync") == {"appendfsync": "everysec"}
        first = server.url
        client.close()
    assert not server.running()
    with EmbeddedRedis(folder) as server:
        client = make_redis(server.url)
        assert server.url == first
        assert [fields for _, fields in client.xrange("stream")] == [{"event": "é 😀 \x00"}]
        client.close()


def test_only_this_user_can_reach_it_and_nobody_over_the_network(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        socket = Path(server.url.removeprefix("unix://"))
        assert stat.S_IMODE(socket.stat().st_mode) == 0o700
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        client = make_redis(server.url)
        assert client.config_get("port") == {"port": "0"}
        client.close()
    assert not socket.parent.exists()


def test_starting_and_stopping_twice_is_harmless(tmp_path: Path) -> None:
    server = EmbeddedRedis(tmp_path)
    with pytest.raises(EmbeddedRedisError, match="start"):
        server.url  # noqa: B018
    assert server.start() == server.start()
    server.stop()
    server.stop()
    assert server.start()
    server.stop()


def test_one_server_a_folder(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        with pytest.raises(EmbeddedRedisError, match="another rag-service uses the data folder"):
            EmbeddedRedis(tmp_path).start()
        assert server.running()


def test_a_long_folder_for_temporary_files_is_passed_over(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a-rather-long-name-for-a-folder"] * 4)
    deep.mkdir(parents=True)
    with EmbeddedRedis(deep / "data", runtime_dir=deep) as server:
        socket = server.url.removeprefix("unix://")
        assert len(os.fsencode(socket)) <= MAX_SOCKET_PATH
        client = make_redis(server.url)
        assert client.ping()
        client.close()


@pytest.mark.skipif(sys.platform != "linux", reason="asks the Linux kernel to end the server with its parent")
def test_a_killed_parent_takes_the_server_down_and_frees_the_folder(tmp_path: Path) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(embedded_redis.__file__).parents[2],
    )
    with parent:
        assert parent.stdout is not None
        url, pid = parent.stdout.readline().split()
        client = make_redis(url)
        client.set("k", "v")
        client.close()
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    server = os.pidfd_open(int(pid)) if Path(f"/proc/{pid}").exists() else None
    if server is not None:
        assert select.select([server], [], [], 20)[0], "the server outlived its parent"
        os.close(server)
    with EmbeddedRedis(tmp_path) as again:
        client = make_redis(again.url)
        assert client.get("k") == "v"
        client.close()


def test_a_binary_that_cannot_run_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "valkey-server"
    broken.write_text("#!/bin/sh\necho 'cannot find libfoo' >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(embedded_redis, "_binary", lambda: broken)
    server = EmbeddedRedis(tmp_path / "data")
    with pytest.raises(EmbeddedRedisError, match=r"cannot find libfoo.*RAG_REDIS_URL"):
        server.start()
    monkeypatch.undo()
    with server:  # nothing of the failed start is left
        assert server.running()


def test_damaged_data_is_reported_in_the_servers_own_words(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path):
        pass
    (manifest,) = tmp_path.glob("appendonlydir/*.manifest")
    manifest.write_text("this is not a manifest\n")
    with pytest.raises(EmbeddedRedisError, match=r"redis\.log says"):
        EmbeddedRedis(tmp_path).start()


def looks(server: EmbeddedRedis) -> Iterator[str]:
    """What the server is said to do, as it comes."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if said := server.look():
            yield said
        time.sleep(0.01)
    pytest.fail("nothing more was said")


def test_a_server_that_dies_is_started_again_on_its_socket_with_its_data(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        client = make_redis(server.url)
        client.set("k", "v")
        url, first = server.url, server.pid
        assert server.look() is None
        assert first is not None
        os.kill(first, signal.SIGKILL)
        said = looks(server)
        assert "The private Redis ended (signal 9)" in next(said)
        assert "answers again" in next(said)
        assert (server.url, client.get("k")) == (url, "v")
        assert server.pid != first
        client.close()


def test_a_server_that_dies_again_and_again_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restarts, "FIRST_WAIT", 0.0)
    broken = tmp_path / "valkey-server"
    broken.write_text("#!/bin/sh\necho 'cannot find libfoo' >&2\nexit 3\n")
    broken.chmod(0o755)
    with EmbeddedRedis(tmp_path / "data") as server:
        monkeypatch.setattr(embedded_redis, "_binary", lambda: broken)
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(EmbeddedRedisError, match=r"5 times in a row \(exit status 3\).*cannot find libfoo"):
            list(looks(server))


def test_a_command_that_was_half_written_is_cut_off(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        client = make_redis(server.url)
        client.set("k", "v")
        client.close()
    (log,) = tmp_path.glob("appendonlydir/*.incr.aof")
    with log.open("ab") as half:
        half.write(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nha")
    with EmbeddedRedis(tmp_path) as server:
        client = make_redis(server.url)
        assert client.get("k") == "v"
        client.close()


def test_a_killed_server_and_parent_leave_nothing_behind_for_temporary_files(tmp_path: Path) -> None:
    temporary, data = tmp_path / "tmp", tmp_path / "data"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    command = [sys.executable, "-c", PARENT, str(data)]
    folder = Path(embedded_redis.__file__).parents[2]
    for _ in range(2):
        parent = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder, env=environment
        )
        with parent:
            assert parent.stdout is not None
            url, pid = parent.stdout.readline().split()
            server = os.pidfd_open(int(pid))
            os.kill(parent.pid, signal.SIGKILL)
            os.kill(int(pid), signal.SIGKILL)
            assert select.select([server], [], [], 20)[0]
            os.close(server)
        assert list(temporary.iterdir()) == []
        assert Path(url.removeprefix("unix://")).parent.parent == data


def test_where_the_path_is_too_long_the_same_folder_elsewhere_is_used_again(tmp_path: Path) -> None:
    data = tmp_path.joinpath(*["a-rather-long-name-for-a-folder"] * 4)
    with tempfile.TemporaryDirectory() as made:  # the test's own folder may be too long as well
        elsewhere = Path(made)
        with EmbeddedRedis(data, elsewhere) as server:
            first = Path(server.url.removeprefix("unix://"))
        assert first.parent.parent == elsewhere
        assert list(elsewhere.iterdir()) == []
        first.parent.mkdir()  # as a killed one leaves it
        first.touch()
        with EmbeddedRedis(data, elsewhere) as server:
            assert server.url == f"unix://{first}"
        assert list(elsewhere.iterdir()) == []


def test_a_folder_of_that_name_that_is_not_ones_own_is_passed_over(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "run").symlink_to(theirs)
    with EmbeddedRedis(tmp_path / "data") as server:
        assert theirs not in Path(server.url.removeprefix("unix://")).resolve().parents
