"""Child processes end with their parent, even where the handler of SIGTERM hangs."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys

CHILD = """
import os, signal
from rag_service.stack import process
signal.signal(signal.SIGTERM, signal.SIG_IGN)
process.ORPHAN_S = 0
process.end_with_parent(os.getppid())
print(os.getpid(), flush=True)
signal.pause()
"""
PARENT = f"""
import subprocess, sys
subprocess.run([sys.executable, "-c", {CHILD!r}])
"""


def test_a_child_that_ignores_sigterm_ends_after_its_parent_was_killed() -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout is not None
        ended = os.pidfd_open(int(parent.stdout.readline()))
    finally:
        parent.kill()
        parent.wait()
    try:
        assert select.select([ended], [], [], 60)[0], "the child still runs"
    finally:
        if not select.select([ended], [], [], 0)[0]:
            signal.pidfd_send_signal(ended, signal.SIGKILL)
        os.close(ended)
        parent.stdout.close()
