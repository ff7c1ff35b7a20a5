"""Another account of the machine gets at nothing: not at files, sockets, processes, nor at the API without a key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.stacks.real_stack import Stack, started

OTHER = 65534
"""The account `nobody`."""

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and becomes another account by setpriv"),
    pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="only root can become another account"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="setpriv is not installed"),
]

REACH = """
import json, socket, sys
reached = []
for path in sys.argv[2:]:
    try:
        with open(path, "rb") as file:
            file.read(1)
        reached.append(path)
    except IsADirectoryError:
        import os
        try:
            os.listdir(path)
            reached.append(path)
        except PermissionError:
            pass
    except PermissionError:
        pass
    except OSError as error:
        if not error.errno == 6:  # a socket cannot be opened
            raise
        reached.append(path)
client = socket.socket(socket.AF_UNIX)
try:
    client.connect(sys.argv[1])
    reached.append(sys.argv[1])
except PermissionError:
    pass
print(json.dumps(reached))
"""
ASK = """
import sys, urllib.error, urllib.request
try:
    print(urllib.request.urlopen(sys.argv[1], timeout=30).status)
except urllib.error.HTTPError as error:
    print(error.code)
"""


@pytest.fixture(scope="module")
def stack(tiny_models: Path) -> Iterator[Stack]:
    """One whose data folder the other account could reach, were it open; as those of earlier versions were."""
    folder = Path(tempfile.mkdtemp(prefix="rag-other-", dir="/tmp"))
    try:
        folder.chmod(0o755)
        (folder / "data").mkdir()
        (folder / "data" / "redis").mkdir()
        for made in (folder / "data", folder / "data" / "redis"):
            made.chmod(0o755)
        with started(tiny_models, folder) as stack:
            stack.until(lambda: stack.process.poll() is not None or "Ctrl-C stops it." in stack.text, "getting ready")
            assert stack.process.poll() is None, stack.text
            yield stack
    finally:
        shutil.rmtree(folder)


def as_another(code: str, *arguments: str) -> str:
    command = ["setpriv", f"--reuid={OTHER}", f"--regid={OTHER}", "--clear-groups", "--"]
    python = [shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin") or sys.executable, "-I", "-S", "-c"]
    return subprocess.run(
        [*command, *python, code, *arguments], cwd="/", capture_output=True, text=True, check=True
    ).stdout.strip()


def run_json(stack: Stack) -> dict[str, str]:
    found = stack.run_json()
    assert found is not None
    return found


def socket_of(stack: Stack) -> str:
    return run_json(stack)["redis_url"].removeprefix("unix://")


def test_the_other_account_can_reach_what_is_open(stack: Stack) -> None:
    """So that being refused means something."""
    shared = stack.output.with_name("shared.txt")
    shared.write_text("For all to read.")
    shared.chmod(0o644)
    assert json.loads(as_another(REACH, socket_of(stack), str(shared))) == [str(shared)]


def test_no_file_of_the_data_folder_and_no_socket_is_reached(stack: Stack) -> None:
    inside = [str(path) for path in (stack.data_dir, *stack.data_dir.rglob("*"))]
    assert any(path.endswith("worker.log") for path in inside)
    assert any(path.endswith(".aof") for path in inside)
    assert json.loads(as_another(REACH, socket_of(stack), *inside)) == []


def test_files_are_closed_even_where_the_folder_is_open(stack: Stack) -> None:
    """A folder that someone opens up again, or a file that is linked elsewhere, shows nothing."""
    files = [path for path in stack.data_dir.rglob("*") if not path.is_symlink()]
    assert [str(path) for path in files if path.lstat().st_mode & 0o077] == []


def test_no_environment_is_read_and_no_command_line_shows_a_secret(stack: Stack) -> None:
    processes = [stack.process.pid, *stack.children()]
    environments = [f"/proc/{pid}/environ" for pid in processes]
    assert json.loads(as_another(REACH, socket_of(stack), *environments)) == []
    lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in processes]
    assert len(lines) == 4
    key = stack.data_dir / "key"
    secrets = ["requirepass", "redis://", "rag_", *([key.read_text().strip()] if key.exists() else [])]
    shown = [secret for secret in secrets for line in lines if secret in line.replace("rag_service", "")]
    assert shown == []


def test_the_api_refuses_who_has_no_key(stack: Stack) -> None:
    assert as_another(ASK, f"{run_json(stack)['url']}/v1/collections") == "401"
