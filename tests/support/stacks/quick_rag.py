"""`rag` for scripts of tests, without the second that starting Python and reading the package takes each time.

A process that has read the package forks for every command; the script's `rag` hands it its arguments, folder,
environment and open files, and ends with its status.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SHIM = """#!{python} -ISE
import array, json, os, socket, sys
with socket.socket(socket.AF_UNIX) as asked:
    asked.connect({address!r})
    told = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
    socket.send_fds(asked, [len(told).to_bytes(8, "big")], [0, 1, 2])
    asked.sendall(told)
    sys.exit(int(asked.recv(16) or b"70"))
"""


@contextmanager
def quick_rag(folder: Path) -> Iterator[Path]:
    """A folder for PATH with a `rag` in it."""
    address = str(folder / "rag.sock")
    bin_folder = folder / "bin"
    bin_folder.mkdir()
    shim = bin_folder / "rag"
    shim.write_text(_SHIM.format(python=sys.executable, address=address))
    shim.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(address)
        listening.listen(16)
        command = [sys.executable, __file__, str(listening.fileno())]
        server = subprocess.Popen(command, pass_fds=[listening.fileno()])
        try:
            yield bin_folder
        finally:
            server.terminate()
            server.wait(30)


def _serve(listening: socket.socket) -> None:
    from rag_service.cli import app

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asked, _ = listening.accept()
        if os.fork():
            asked.close()
            continue
        listening.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        head, files, _, _ = socket.recv_fds(asked, 8, 3)
        told = b""
        while len(told) < int.from_bytes(head, "big"):
            told += asked.recv(1 << 16)
        arguments, folder, environment = json.loads(told)
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        status = 70
        try:
            app(arguments, prog_name="rag")
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            asked.sendall(str(status).encode())
            os._exit(status)


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
