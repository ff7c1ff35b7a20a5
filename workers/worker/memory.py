"""Free memory of the model's device. Knows the counters of system and device; knows no caches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

LEAST_FREE = 0.05
"""Memory is short if a smaller share of it is free."""
_MEMINFO = Path("/proc/meminfo")
_CGROUP = Path("/sys/fs/cgroup")


def shortage(device: str) -> Callable[[], bool]:
    """A function that returns whether memory is short on `device`; False if that is unknown."""

    def short() -> bool:
        counts = _device(device) if device.startswith("cuda") else _machine()
        return any(free < LEAST_FREE * total for free, total in counts)

    return short


def _device(device: str) -> list[tuple[int, int]]:
    import torch

    free, total = torch.cuda.mem_get_info(device)
    spare = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return [(free + spare, total)]


def _machine() -> list[tuple[int, int]]:
    """(free, total) bytes of the machine and of this process's control group."""
    counts = []
    try:
        lines = (line.split() for line in _MEMINFO.read_text(encoding="ascii").splitlines())
        sizes = {words[0].rstrip(":"): 1024 * int(words[1]) for words in lines}
        counts.append((sizes["MemAvailable"], sizes["MemTotal"]))
    except (OSError, KeyError, ValueError):
        pass
    try:
        total = int((_CGROUP / "memory.max").read_text(encoding="ascii"))
        used = int((_CGROUP / "memory.current").read_text(encoding="ascii"))
        statistics = dict(line.split() for line in (_CGROUP / "memory.stat").read_text(encoding="ascii").splitlines())
        counts.append((total - used + int(statistics["inactive_file"]), total))
    except (OSError, KeyError, ValueError):  # no limit, or another version of control groups
        pass
    return counts
