"""How a sync's plan and outcome are shown."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence

from rag_service.cli.console import err, out, print_json
from rag_service.contract.file_names import sendable
from rag_service.sync.mirror import Outcome
from rag_service.sync.plan import Plan
from rag_service.sync.source import Skipped

SHOWN = 10
"""Paths shown of a group; of those that will be removed, all."""


def print_plan(plan: Plan, source: str, collection: str) -> None:
    """What will be done, on standard error: groups with their first paths, every removal, and what is skipped why."""
    screen = err()
    screen.print(f"{source} → {collection}", style="bold")
    _group("new", [entry.path for entry in plan.added])
    _group("changed", [entry.path for _, entry in plan.changed])
    _group("renamed", [f"{document.path} → {entry.path}" for document, entry in plan.renamed])
    gone = [document.path for document in plan.removed]
    if plan.refusal:
        _group("gone from the source, their documents stay", gone)
    else:
        _group("removed", gone, most=len(gone))
    screen.print(f"  {plan.unchanged} unchanged")
    _reasons("skipped", plan.skipped)
    _reasons("unreadable", plan.unreadable)
    _reasons("kept, though not there", plan.kept)
    if plan.refusal:
        screen.print(plan.refusal, style="yellow")


def print_failures(outcome: Outcome) -> None:
    for failure in outcome.failures:
        err().print(f"{sendable(failure.path)}: {failure.reason}", style="yellow")


def print_counts(outcome: Outcome, source: str, collection: str) -> None:
    """What was done and what was not, as one line on standard output; troubles are left out where there are none."""
    plan = outcome.plan
    failed = {failure.path for failure in outcome.failures}
    groups = {
        "added": plan.added,
        "changed": [entry for _, entry in plan.changed],
        "renamed": [entry for _, entry in plan.renamed],
    }
    done = [f"{sum(entry.path not in failed for entry in entries)} {what}" for what, entries in groups.items()]
    done += [f"{len(outcome.removed)} removed", f"{plan.unchanged} unchanged"]
    troubles = {
        "failed": outcome.failures,
        "unreadable": plan.unreadable,
        "kept, though not there": plan.kept,
        "skipped": plan.skipped,
    }
    done += [f"{len(paths)} {what}" for what, paths in troubles.items() if paths]
    out().print(f"{source} → {collection}: {', '.join(done)}.")


def print_outcome_json(outcome: Outcome, source: str, collection: str, dry_run: bool, *, one_line: bool) -> None:
    plan = outcome.plan
    value = {
        "source": source,
        "collection": collection,
        "dry_run": dry_run,
        "added": [entry.path for entry in plan.added],
        "changed": [entry.path for _, entry in plan.changed],
        "renamed": [{"from": document.path, "to": entry.path} for document, entry in plan.renamed],
        "to_remove": [document.path for document in plan.removed],
        "removed": outcome.removed,
        "unchanged": plan.unchanged,
        "refusal": plan.refusal or None,
        "failures": _listed(outcome.failures),
        "kept": _listed(plan.kept),
        "unreadable": _listed(plan.unreadable),
        "skipped": _listed(plan.skipped),
    }
    if one_line:
        print(json.dumps(value, ensure_ascii=False), flush=True)
    else:
        print_json(value)


def _group(what: str, paths: Sequence[str], most: int = SHOWN) -> None:
    if not paths:
        return
    err().print(f"  {len(paths)} {what}")
    for path in paths[:most]:
        err().print(f"    {sendable(path)}")
    if len(paths) > most:
        err().print(f"    and {len(paths) - most} more")


def _reasons(what: str, skipped: Iterable[Skipped]) -> None:
    paths: dict[str, list[str]] = {}
    for one in skipped:
        paths.setdefault(one.reason, []).append(sendable(one.path) or "the folder itself")
    for reason, number in Counter({reason: len(found) for reason, found in paths.items()}).most_common():
        some = ", ".join(paths[reason][:3]) + (", …" if number > 3 else "")
        err().print(f"  {number} {what}: {reason} ({some})")


def _listed(skipped: Iterable[Skipped]) -> list[dict[str, str]]:
    return [{"path": sendable(one.path), "reason": one.reason} for one in skipped]
