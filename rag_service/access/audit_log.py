"""The audit log: a stream in Redis for each tenant, with who ingested, deleted, created and revoked what, and
who signed in at the OpenID provider.

An entry is written before the change and withdrawn if the change fails, so no change goes without one. Entries have
names and ids, never texts and keys. Knows Redis; knows no HTTP.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from rag_service.access.principal import Principal
from rag_service.contract.audit import Action, AuditEntry, AuditPage
from workers.broker import keys
from workers.broker.app import RedisClient
from workers.errors import QueueUnavailable, unavailable

MOST_ENTRIES = 100_000
"""Most entries of a tenant; the oldest ones go, a few later than they might."""
_BATCH = 1000
_DAY_S = 86_400


class AuditLog:
    """The logs of all tenants. Every method raises QueueUnavailable if Redis does not answer.

    Args:
        client: from `make_redis`.
        days: how long entries are kept.
    """

    def __init__(self, client: RedisClient, days: int) -> None:
        self._redis = client
        self._days = days

    @contextmanager
    def recording(
        self,
        actor: Principal,
        action: Action,
        *,
        collection: str | None = None,
        document_id: str | None = None,
        job_id: str | None = None,
        key_id: str | None = None,
        name: str | None = None,
    ) -> Iterator[Callable[[], None]]:
        """Record a change of the actor's tenant around the change itself; an exception withdraws the entry.

        Yields a function that withdraws it, for a change that turns out to be none.
        """
        named = {"collection": collection, "document_id": document_id, "job_id": job_id, "key_id": key_id, "name": name}
        fields = {"action": action, "person": actor.person, "key": actor.key}
        entry_id = self._add(
            actor.tenant, fields | {field: value for field, value in named.items() if value is not None}
        )

        def withdraw() -> None:
            with unavailable():
                self._redis.xdel(keys.audit(actor.tenant), entry_id)

        try:
            yield withdraw
        except BaseException:
            with suppress(QueueUnavailable):
                withdraw()
            raise

    def tenants(self) -> list[str]:
        """Those with a log at some time, in the order of their names."""
        with unavailable():
            return sorted(str(name) for name in self._redis.smembers(keys.AUDIT_TENANTS))

    def entries(self, tenant: str, days: int, before: str | None = None) -> Iterator[AuditEntry]:
        """A tenant's entries of so many days, the newest first, read as they are asked for.

        Args:
            before: only those older than the entry with this id.
        """
        oldest = self._oldest(min(days, self._days))
        if before is not None and not before.strip("0-"):
            return  # Redis knows nothing older than 0-0, and takes the question for an error
        while True:
            with unavailable():
                batch = self._redis.xrevrange(
                    keys.audit(tenant), max="+" if before is None else f"({before}", min=oldest, count=_BATCH
                )
            for entry_id, fields in batch:
                yield AuditEntry.model_validate(
                    {"id": entry_id, "time": int(entry_id.partition("-")[0]) / 1000, **fields}
                )
            if len(batch) < _BATCH:
                return
            before = batch[-1][0]

    def page(self, reader: Principal, limit: int, before: str | None = None) -> AuditPage:
        """At most `limit` entries of the reader's tenant, the newest first.

        A reader who is limited to collections gets what is about these, and what was done with the own key.
        """
        found: list[AuditEntry] = []
        for entry in self.entries(reader.tenant, self._days, before):
            named = [entry.collection, entry.name] if entry.action == "collection.rename" else [entry.collection]
            about = all(name is not None and reader.sees(name) for name in named)
            if reader.collections is not None and not about and entry.key != reader.key:
                continue
            if len(found) == limit:
                return AuditPage(entries=found, next=found[-1].id)
            found.append(entry)
        return AuditPage(entries=found)

    def _add(self, tenant: str, fields: dict[str, str]) -> str:
        name = keys.audit(tenant)
        with unavailable(), self._redis.pipeline() as pipe:
            pipe.xadd(name, fields, maxlen=MOST_ENTRIES, approximate=True)
            pipe.xtrim(name, minid=self._oldest(self._days), approximate=False)
            pipe.expire(name, self._days * _DAY_S)
            pipe.sadd(keys.AUDIT_TENANTS, tenant)
            return str(pipe.execute()[0])

    def _oldest(self, days: int) -> int:
        """The time of the oldest entry of so many days, in milliseconds."""
        return int(1000 * (time.time() - days * _DAY_S))
