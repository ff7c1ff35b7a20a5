"""The difference between a source and what a collection holds of it. Pure, but for the digests that it asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from rag_service.sync.held import Held, Holding
from rag_service.sync.source import Entry, Listing, ReadFailed, Skipped

MANY = 5
"""More removals than that, and than half of the documents, want a consent of their own; so do those of all."""
EMPTY = (
    "The source has no files now. Nothing is removed: perhaps its disk is not mounted, or its address is wrong. "
    "`rag docs delete` and `rag collections delete` remove documents."
)
EMPTY_FOLDER = "its folder is there but empty: perhaps a disk is not mounted; --delete-many removes it"


@dataclass
class Plan:
    """What a sync does. Each entry and each held document is in one of the lists, or counted as unchanged."""

    added: list[Entry] = field(default_factory=list)
    changed: list[tuple[Held, Entry]] = field(default_factory=list)
    renamed: list[tuple[Held, Entry]] = field(default_factory=list)
    removed: list[Held] = field(default_factory=list)
    kept: list[Skipped] = field(default_factory=list)
    """Documents whose files may be gone or not."""
    skipped: list[Skipped] = field(default_factory=list)
    unreadable: list[Skipped] = field(default_factory=list)
    """Files and folders that the listing could not read."""
    failures: list[Skipped] = field(default_factory=list)
    """Entries that cannot be read."""
    unchanged: int = 0
    refusal: str = ""
    """Why `removed` must stay; "" if it need not."""

    @property
    def uploads(self) -> list[tuple[Held | None, Entry]]:
        """Renamed, changed and added entries, with the document that each replaces."""
        return [*self.renamed, *self.changed, *((None, entry) for entry in self.added)]


def make_plan(listing: Listing, held: Holding, digest: Callable[[Entry], str], *, delete_many: bool = False) -> Plan:
    """Compare a listing with a holding.

    A path decides first: what is held of it is unchanged or changed. A new path whose content is that of a document
    whose path is gone is that document, renamed, and keeps its id.

    Args:
        digest: SHA-256 of an entry, asked for where size and stamp do not decide. Raises ReadFailed.
    """
    plan = Plan(skipped=list(listing.skipped), unreadable=list(listing.unreadable))
    known = {**held.adoptable, **held.by_path}
    new: list[Entry] = []
    for entry in listing.entries:
        document = known.get(entry.path)
        if document is None:
            new.append(entry)
            continue
        try:
            if _same(entry, document, digest):
                plan.unchanged += 1
            else:
                plan.changed.append((document, entry))
        except ReadFailed as failure:
            plan.failures.append(Skipped(entry.path, str(failure)))
    present = {entry.path for entry in listing.entries}
    gone = _gone(listing, (document for path, document in held.by_path.items() if path not in present), plan)
    _match_renamed(new, gone, digest, plan)
    plan.removed = [*gone, *held.doubles]
    _judge(listing, held, plan, delete_many)
    return plan


def _same(entry: Entry, document: Held, digest: Callable[[Entry], str]) -> bool:
    if entry.size != document.size:
        return False
    return (entry.stamp == document.stamp) or digest(entry) == document.sha256


def _gone(listing: Listing, documents: Iterable[Held], plan: Plan) -> list[Held]:
    """The documents whose paths are certainly gone; the others are kept."""
    unreadable = {one.path: one.reason for one in listing.unreadable}
    gone = []
    for document in documents:
        above = next((path for path in _at_and_above(document.path) if path in unreadable), None)
        if above is None:
            gone.append(document)
        else:
            plan.kept.append(Skipped(document.path, unreadable[above]))
    return gone


def _match_renamed(new: list[Entry], gone: list[Held], digest: Callable[[Entry], str], plan: Plan) -> None:
    """Take renamed documents out of `gone`; prefers equal file names."""
    sizes = {document.size for document in gone}
    for entry in new:
        found = None
        if entry.size in sizes:
            try:
                content = digest(entry)
            except ReadFailed as failure:
                plan.failures.append(Skipped(entry.path, str(failure)))
                continue
            equal = [document for document in gone if document.sha256 == content]
            name = PurePosixPath(entry.path).name
            found = min(equal, key=lambda one: (PurePosixPath(one.path).name != name, one.path), default=None)
        if found is None:
            plan.added.append(entry)
        else:
            gone.remove(found)
            plan.renamed.append((found, entry))


def _judge(listing: Listing, held: Holding, plan: Plan, delete_many: bool) -> None:
    """Decide which removals are too doubtful."""
    if not plan.removed:
        return
    if not listing.entries:
        plan.refusal = EMPTY
        return
    if delete_many:
        return
    empty = set(listing.empty)
    doubtful = [one for one in plan.removed if one not in held.doubles and not empty.isdisjoint(_above(one.path))]
    plan.kept += [Skipped(one.path, EMPTY_FOLDER) for one in doubtful]
    plan.removed = [one for one in plan.removed if one not in doubtful]
    total, gone = len(held.by_path), len(plan.removed)
    if gone >= total or (gone > MANY and 2 * gone > total):
        plan.refusal = (
            f"{gone} of {total} documents would be removed. If that is right, say --delete-many. If this "
            "is another folder than the one synced before, give it a name of its own with --name."
        )


def _above(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts))]


def _at_and_above(path: str) -> list[str]:
    return [path, *reversed(_above(path))]
