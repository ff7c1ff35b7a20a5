"""A collection over the HTTP API, as `rag_service.sync` uses it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from rag_service.cli.api import Api, Rejected
from rag_service.cli.commands.documents.jobs import print_notes, wait_for
from rag_service.cli.console import CliError, say_dim
from rag_service.client import calls
from rag_service.sync.documents import Upload

PAGE = 1000
"""Documents that one request fetches."""


class SyncedDocuments:
    """The documents of a collection, as `Documents` describes them. Every method raises CliError.

    Args:
        create: whether the collection is created if it does not exist; else it counts as empty.
    """

    def __init__(self, api: Api, collection: str, *, create: bool) -> None:
        self._api = api
        self._collection = collection
        self._create = create

    def all(self) -> Iterator[Mapping[str, Any]]:
        if not self._exists():
            return
        self._settle()
        after: str | None = ""
        while after is not None:
            page = self._api.json(calls.documents(self._collection, PAGE, after))
            yield from page["documents"]
            after = page["next"]

    def put(self, uploads: Sequence[Upload], progress: Callable[[int], None]) -> dict[str, str]:
        details = [{"id": one.document_id, "metadata": dict(one.metadata)} for one in uploads]
        files = [(one.name, one.file) for one in uploads]
        try:
            accepted = self._api.json(calls.add_files_described(self._collection, files, details))
        except Rejected as rejected:
            if rejected.http_status != 413:
                raise
            return self._one_by_one(uploads, str(rejected), progress)
        job = wait_for(self._api, str(accepted["job_id"]), progress)
        print_notes(job)
        failures = {failure["name"]: failure["reason"] for failure in job["failures"]}
        if job["status"] == "cancelled":
            raise CliError("The ingest was cancelled. Documents ingested before stay; the next sync goes on.")
        if unknown := failures.keys() - {one.name for one in uploads}:
            raise CliError(f"The ingest failed: {failures[min(unknown)]}")
        return failures

    def delete(self, document_id: str) -> None:
        try:
            self._api.send(calls.delete_document(self._collection, document_id))
        except Rejected as rejected:
            if rejected.code != "unknown_document":
                raise

    def _one_by_one(self, uploads: Sequence[Upload], reason: str, progress: Callable[[int], None]) -> dict[str, str]:
        """What was too much together; one that is too large alone fails."""
        if len(uploads) == 1:
            return {uploads[0].name: reason}
        failures: dict[str, str] = {}
        for number, upload in enumerate(uploads, start=1):
            failures |= self.put([upload], lambda done: None)
            progress(number)
        return failures

    def _exists(self) -> bool:
        try:
            self._api.json(calls.collection(self._collection))
        except Rejected as rejected:
            if rejected.code != "unknown_collection":
                raise
            if self._create:
                self._api.send(calls.create_collection(self._collection))
            else:
                say_dim(f"There is no collection {self._collection} yet; a sync would create it.")
            return self._create
        return True

    def _settle(self) -> None:
        """Wait for ingests of the collection: a sync that was killed may have left one."""
        for job in self._api.json(calls.jobs(1000))["jobs"]:
            if job["collection"] == self._collection and job["status"] in ("queued", "running"):
                wait_for(self._api, job["job_id"])
