"""What the progress of an ended job says of documents that were deleted since: nothing that names them. Pure."""

from __future__ import annotations

from collections.abc import Collection

from workers.broker.progress import IngestFailure, JobProgress

GONE = IngestFailure(name="a deleted document", reason="the document was deleted since")
"""In place of a failure."""


def named(progress: JobProgress) -> bool:
    """Whether it names documents at all."""
    return bool(progress.failures or progress.notes)


def without(progress: JobProgress, names: Collection[str] | None) -> JobProgress:
    """The progress without a document's names (id, name, title), or without any for None: its collection is gone."""

    def about(text: str) -> bool:
        return names is None or any(repr(name) in text for name in names)

    failures = [
        GONE if names is None or failure.name in names or about(failure.reason) else failure
        for failure in progress.failures
    ]
    notes = [note for note in progress.notes if not about(note)]
    return progress.model_copy(update={"failures": failures, "notes": notes})
