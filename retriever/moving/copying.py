"""`copy_collection`: a collection in another store, or under another name, with the same facts, vectors and ids.

A new copy is built under a hidden name and gets its own when it is complete. A copy that is complete already is brought
up to date document by document.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass

from retriever.errors import CollectionExists, CollectionMismatch, UnknownCollection
from retriever.library import check_name
from retriever.moving.mirror import Mirror, own
from retriever.stores.hidden import copied, shown
from retriever.stores.protocol import Store, Stores
from retriever.stores.store import CollectionFacts
from retriever.types import Progress


@dataclass(frozen=True, slots=True)
class CopyReport:
    """What a copy came to."""

    collection: str
    """The copy's name."""
    documents: int
    """That it has now."""
    stored: int
    """That this run stored; the others were there."""
    removed: int
    """That this run removed, because the source has them no longer."""


def copy_collection(
    source: Stores, name: str, target: Stores, new_name: str | None = None, progress: Progress | None = None
) -> CopyReport:
    """Copy a collection's documents, chunks, vectors and originals. A run after a kill goes on where that one stopped.

    Nothing is embedded. Raises InvalidName, UnknownCollection, CollectionMismatch if the target has a collection of
    that name that is no copy of this one, and RetrieverError if the source is replaced meanwhile.
    """
    new_name = name if new_name is None else new_name
    check_name(name)
    check_name(new_name)
    if not source.exists(name):
        raise UnknownCollection(name, [one for one in source.names() if not one.startswith(".")])
    complete = target.exists(new_name)
    with closing(source.open(name)) as origin:
        with origin.read() as snapshot:
            facts = snapshot.facts()
        job = f"copy {facts.uid}"
        if not complete:
            _begin(target, copied(new_name), facts, job)
        with closing(target.open(new_name if complete else copied(new_name))) as copy:
            _check(copy, facts)
            mirror = Mirror(origin, facts, copy, job, progress=progress)
            mirror.run()
            copy.save_index()
            if not complete:
                with copy.write() as transaction:
                    transaction.follow(facts)
    if not complete and not target.rename(copied(new_name), new_name):
        raise CollectionExists(new_name)
    return CopyReport(new_name, mirror.total, len(mirror.stored), len(mirror.removed))


def _begin(target: Stores, hidden: str, facts: CollectionFacts, job: str) -> None:
    """Create the hidden copy, unless an earlier run began it."""
    if target.exists(hidden):
        with closing(target.open(hidden)) as copy, copy.read() as snapshot:
            if snapshot.facts().kind == facts.kind and own(snapshot, job):
                return
        target.delete(hidden)  # of another collection: nobody can see it, so nobody misses it
    target.create(hidden, facts.embedder, facts.dimension, facts.embedder_dtype, facts.vector_dtype, facts.chunk_size)


def _check(copy: Store, facts: CollectionFacts) -> None:
    """Raises CollectionMismatch."""
    name = shown(copy.name)
    with copy.read() as snapshot:
        there = snapshot.facts()
        if there.uid == facts.uid:
            raise CollectionMismatch(name, "is the collection that is to be copied")
        if there.kind != facts.kind:
            differences = ", ".join(
                f"{label} {other} and not {one}"
                for label, one, other in (
                    ("embedding model", facts.embedder, there.embedder),
                    ("dimension", facts.dimension, there.dimension),
                    ("vectors in", facts.vector_dtype, there.vector_dtype),
                    ("embedded in", facts.embedder_dtype, there.embedder_dtype),
                    ("chunk size", facts.chunk_size or "default", there.chunk_size or "default"),
                )
                if one != other
            )
            raise CollectionMismatch(name, f"has another index ({differences})")
