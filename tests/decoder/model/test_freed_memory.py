"""Freed memory goes back to the system, below blocks that are still in use too."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from decoder.model.freed_memory import give_back

BLOCK, BLOCKS = 100_000, 1_000


def own_bytes() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("RssAnon"))


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="of glibc alone")
def test_freed_blocks_below_a_block_in_use_go_back() -> None:
    blocks = [bytearray(BLOCK) for _ in range(BLOCKS)]
    for block in blocks:
        block[:] = b"x" * BLOCK
    above = bytearray(BLOCK)
    before = own_bytes()
    del blocks, block
    give_back()
    assert before - own_bytes() > 0.5 * BLOCK * BLOCKS
    assert above is not None
