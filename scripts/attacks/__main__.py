"""Attacks on a stack from outside: real processes, real HTTP. See scripts/attack."""

from __future__ import annotations

import sys
import time

import bodies
import cancelling
import doors
import ids
import ingests
import offline
import processes
import sessions
from service import Service
from stack import Stack

OVER_HTTP = [*doors.OVER_HTTP, *ids.OVER_HTTP, *bodies.OVER_HTTP, *ingests.OVER_HTTP, *sessions.OVER_HTTP]
OVER_HTTP += offline.OVER_HTTP
ON_A_STACK = [*doors.ON_A_STACK, *cancelling.ON_A_STACK, *ingests.ON_A_STACK, *processes.ON_A_STACK]


class Tally:
    """Runs attacks and counts them."""

    def __init__(self) -> None:
        self.passed = self.failed = self.skipped = 0

    def run(self, attack, target) -> None:  # type: ignore[no-untyped-def]
        started = time.monotonic()
        try:
            reason = attack(target)
        except Exception as error:
            self.failed += 1
            mark, more = "FAILED", f": {type(error).__name__}: {error}"
        else:
            mark, more = ("ok", "") if reason is None else ("skipped", f": {reason}")
            self.passed += reason is None
            self.skipped += reason is not None
        sentence = " ".join((attack.__doc__ or attack.__name__).split()).rstrip(".")
        print(f"{mark:7} {sentence}{more}  ({time.monotonic() - started:.1f} s)", flush=True)


def main(arguments: list[str]) -> int:
    tally = Tally()
    if arguments:
        url, key = arguments
        for attack in OVER_HTTP:
            tally.run(attack, Service(url, key))
    else:
        with Stack() as stack:
            for attack in OVER_HTTP:
                tally.run(attack, stack.service)
            for attack in ON_A_STACK:
                tally.run(attack, stack)
    print(f"{tally.passed} passed, {tally.failed} failed, {tally.skipped} skipped")
    return 1 if tally.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
