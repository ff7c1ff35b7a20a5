"""What every ledger of ingest jobs holds, over random histories.

The model is a list of jobs in the order in which they were accepted. Nothing is ever lost: a job that was added waits,
is held by one worker, or has ended; workers die, Redis forgets, and what follows is still one of these.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tests.support.storage.ledgers import LEDGERS, Opened
from workers.broker.ingest_messages import IngestFile, IngestJob
from workers.broker.progress import IngestFailure, JobProgress
from workers.ingests.erasing import GONE
from workers.ingests.ledger import UPLOAD_MISSING, JobClaim, JobLedger

TENANTS = ("one", "two", "three")
COLLECTIONS = ("a", "b")
WORKERS = ("w1", "w2")
BEGAN = time.time()


@dataclass
class Known:
    job: IngestJob
    status: str = "queued"
    worker: str = ""
    asked: bool = False
    """To stop."""
    claims: list[tuple[str, JobClaim]] = field(default_factory=list)


class Histories(RuleBasedStateMachine):
    """Random histories of one ledger."""

    opened: Opened

    def __init__(self) -> None:
        super().__init__()
        self.world = self.make()
        self.known: dict[str, Known] = {}
        self.numbers = itertools.count()
        for worker in WORKERS:
            self.world.heard(worker)

    def make(self) -> Opened:
        raise NotImplementedError

    @property
    def ledger(self) -> JobLedger:
        return self.world.ledger

    def waiting(self, tenant: str) -> list[Known]:
        return [one for one in self.known.values() if one.job.tenant == tenant and one.status == "queued"]

    @rule(tenant=st.sampled_from(TENANTS), collection=st.sampled_from(COLLECTIONS))
    def add(self, tenant: str, collection: str) -> None:
        number = next(self.numbers)
        files = [IngestFile(name="n", text=f"text {number}")]
        job = IngestJob(job_id=f"j{number}", tenant=tenant, collection=collection, files=files, created=BEGAN + number)
        assert self.ledger.add(job)
        assert not self.ledger.add(job), "twice is once"
        self.known[job.job_id] = Known(job)

    @rule(worker=st.sampled_from(WORKERS))
    def take(self, worker: str) -> None:
        busy = {(one.job.tenant, one.job.collection) for one in self.known.values() if one.status == "running"}
        free = [one for one in self.known.values() if one.status == "queued"]
        free = [one for one in free if (one.job.tenant, one.job.collection) not in busy]
        assert self.ledger.available() == bool(free)
        claim = self.ledger.take(worker)
        if claim is None:
            assert not free
            return
        taken = self.known[claim.job.job_id]
        assert taken in free
        assert claim.job == taken.job
        rivals = [one for one in free if one.job.tenant == taken.job.tenant]
        first = min(
            (one for one in rivals if one.job.collection == taken.job.collection), key=lambda one: one.job.created
        )
        assert taken is first, "jobs of a collection are taken in order"
        taken.status, taken.worker = "running", worker
        taken.claims.append((worker, claim))

    @precondition(lambda self: any(one.claims for one in self.known.values()))
    @rule(data=st.data(), how=st.sampled_from(["end", "report", "put_back"]))
    def claim(self, data: Any, how: str) -> None:
        """Of whoever ever held a job: only who holds it now changes anything."""
        every = [(one, worker, claim) for one in self.known.values() for worker, claim in one.claims]
        one, worker, claim = data.draw(st.sampled_from(every))
        holds = one.status == "running" and one.worker == worker
        assert claim.state() == ("lost" if not holds else "cancelled" if one.asked else "claimed")
        progress = JobProgress(job_id=one.job.job_id, status="running", done=1, total=1)
        if how == "end":
            assert claim.end(progress.model_copy(update={"status": "succeeded"})) == holds
            if holds:
                one.status = "succeeded"
        elif how == "report":
            assert claim.report(progress) == holds
        else:
            claim.put_back()
            if holds:
                one.status = "queued"

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def cancel(self, data: Any) -> None:
        one = data.draw(st.sampled_from(list(self.known.values())))
        assert self.ledger.cancel(one.job.tenant, one.job.job_id) == (one.status in ("queued", "running"))
        if one.status == "queued":
            one.status = "cancelled"
        elif one.status == "running":
            one.asked = True

    @rule(worker=st.sampled_from(WORKERS))
    def die(self, worker: str) -> None:
        """A worker is silent, and another one looks after its jobs."""
        self.world.silent(worker)
        (other,) = set(WORKERS) - {worker}
        held = [one for one in self.known.values() if one.status == "running"]
        kept = [one.job.job_id for one in held if one.worker == other]
        assert self.ledger.reclaim(other, kept) == len(held) - len(kept)
        for one in held:
            if one.worker == worker:
                one.status = "queued"
        self.world.heard(worker)

    @rule()
    def forget(self) -> None:
        """The index is lost; what is on disk brings all of it back. A request to stop may be lost with it."""
        self.world.forget()
        if not self.world.loses:
            assert self.ledger.recover() == 0
            return
        running = [one for one in self.known.values() if one.status in ("queued", "running")]
        assert self.ledger.recover() == len(running)
        for one in running:
            one.status, one.worker, one.asked = "queued", "", False

    @rule()
    def recover(self) -> None:
        assert self.ledger.recover() == 0

    @invariant()
    def every_job_is_where_it_should_be(self) -> None:
        for one in self.known.values():
            progress = self.ledger.job(one.job.tenant, one.job.job_id)
            assert progress is not None
            assert progress.status == one.status
        for tenant in TENANTS:
            waiting = self.waiting(tenant)
            assert self.ledger.waiting(tenant) == len(waiting)
            listed = {one.job.job_id for one in self.known.values() if one.job.tenant == tenant}
            assert listed == {job.job_id for job in self.ledger.jobs(tenant, 1000)}
        counts = self.ledger.counts()
        for status in ("queued", "running"):
            assert counts.jobs[status] == sum(one.status == status for one in self.known.values())  # type: ignore[index]

    def teardown(self) -> None:
        """Whatever happened, workers that go on end every job."""
        for one in self.known.values():
            if one.status == "running":
                assert one.claims[-1][1].end(JobProgress(job_id=one.job.job_id, status="succeeded", done=1, total=1))
        while (claim := self.ledger.take("last")) is not None:
            assert claim.end(JobProgress(job_id=claim.job.job_id, status="succeeded", done=1, total=1))
        for one in self.known.values():
            progress = self.ledger.job(one.job.tenant, one.job.job_id)
            assert progress is not None
            assert progress.status in ("succeeded", "cancelled")
        self.world.close()


@pytest.mark.parametrize("kind", LEDGERS)
def test_no_history_loses_a_job(kind: str, request: pytest.FixtureRequest) -> None:
    server, opens = LEDGERS[kind]
    url = request.getfixturevalue(server)

    class Run(Histories):
        def make(self) -> Opened:
            return opens(url)

    checks = [HealthCheck.too_slow]
    run_state_machine_as_test(
        Run, settings=settings(max_examples=60, stateful_step_count=30, deadline=None, suppress_health_check=checks)
    )


@pytest.fixture(params=sorted(LEDGERS))
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    server, opens = LEDGERS[request.param]
    opened = opens(request.getfixturevalue(server))
    yield opened
    opened.close()


def replace(job: IngestJob, created: float) -> IngestJob:
    return job.model_copy(update={"created": created})


def job(job_id: str, tenant: str = "one", collection: str = "a") -> IngestJob:
    files = [IngestFile(name="n", text="t")]
    return IngestJob(job_id=job_id, tenant=tenant, collection=collection, files=files, created=BEGAN)


def test_tenants_take_turns(opened: Opened) -> None:
    """One with many jobs does not keep another waiting for more than one of them."""
    for number in range(6):
        opened.ledger.add(job(f"many-{number}", "one", f"c{number}"))
    opened.ledger.add(job("few-0", "two"))
    taken = []
    for _ in range(3):
        claim = opened.ledger.take("w")
        assert claim is not None
        taken.append(claim.job.tenant)
        claim.end(JobProgress(job_id=claim.job.job_id, status="succeeded"))
    opened.ledger.add(job("few-1", "two"))
    while (claim := opened.ledger.take("w")) is not None:
        taken.append(claim.job.tenant)
        claim.end(JobProgress(job_id=claim.job.job_id, status="succeeded"))
    assert taken in (["one", "two", "one", "two", *["one"] * 4], ["two", "one", "one", "two", *["one"] * 4])


def test_a_job_whose_files_are_gone_ends_and_says_so(opened: Opened) -> None:
    opened.ledger.add(job("j"))
    opened.lose_files("j")
    assert opened.ledger.take("w") is None
    progress = opened.ledger.job("one", "j")
    assert progress is not None
    assert (progress.status, progress.failures[0].reason) == ("failed", UPLOAD_MISSING)


def test_a_deleted_document_is_named_in_no_ended_job(opened: Opened) -> None:
    """What else the jobs say stays, and so do those of other collections and tenants."""
    ledger = opened.ledger
    failures = [
        IngestFailure(name="ann's.pdf", reason="it is encrypted"),
        IngestFailure(name="other", reason='another document has the id "ann\'s.pdf-1"'),
        IngestFailure(name="bob.pdf", reason="it is empty"),
    ]
    notes = ["The model knows little of the language of 'ann' and 2 more", "The model knows nothing of 'bob'"]
    for tenant, collection in (("one", "a"), ("one", "b"), ("two", "a")):
        ledger.add(job(f"{tenant}-{collection}", tenant, collection))
        claim = ledger.take("w")
        assert claim is not None
        progress = JobProgress(job_id=claim.job.job_id, status="failed", failures=failures, notes=notes)
        assert claim.end(progress)
    ledger.add(job("waits"))

    def said(tenant: str, job_id: str) -> JobProgress:
        progress = ledger.job(tenant, job_id)
        assert progress is not None
        return progress

    ledger.erase("one", "a", {"ann's.pdf", "ann's.pdf-1", "ann"})
    erased = said("one", "one-a")
    assert [failure.name for failure in erased.failures] == [GONE.name, GONE.name, "bob.pdf"]
    assert (erased.status, erased.notes) == ("failed", notes[1:])
    assert said("one", "one-b").failures == said("two", "two-a").failures == failures
    ledger.erase("one", "a", None)
    erased = said("one", "one-a")
    assert ([failure.name for failure in erased.failures], erased.notes) == ([GONE.name] * 3, [])
    assert said("one", "one-b").failures == said("two", "two-a").failures == failures
    assert said("one", "waits").status == "queued"


def test_ended_jobs_go_with_a_collection_that_is_renamed(opened: Opened) -> None:
    """So what a document deleted later leaves in them is found. Jobs that have not ended keep their collection."""
    ledger = opened.ledger
    for tenant, collection in (("one", "a"), ("one", "b"), ("two", "a")):
        ledger.add(job(f"{tenant}-{collection}", tenant, collection))
        claim = ledger.take("w")
        assert claim is not None
        failures = [IngestFailure(name="x", reason="it is empty")]
        assert claim.end(JobProgress(job_id=claim.job.job_id, status="failed", failures=failures))
    ledger.add(job("waits"))
    ledger.rename("one", "a", "c")
    assert {one.job_id: one.collection for one in ledger.jobs("one", 9)} == {"one-a": "c", "one-b": "b", "waits": "a"}
    assert [one.collection for one in ledger.jobs("two", 9)] == ["a"]
    ledger.erase("one", "c", {"x"})
    progress = ledger.job("one", "one-a")
    assert progress is not None
    assert progress.failures == [GONE]
    claim = ledger.take("w")
    assert claim is not None
    assert claim.job.collection == "a"


def test_workers_of_one_name_that_die_over_a_job_are_counted(opened: Opened) -> None:
    """As in a container that is started again: host and process number are the same."""
    opened.ledger.add(job("j"))
    for attempt in range(1, 5):
        opened.heard("w")
        assert opened.ledger.reclaim("w", []) == (attempt > 1)
        claim = opened.ledger.take("w")
        assert claim is not None
        assert claim.attempts == attempt
    assert opened.ledger.reclaim("w", [], ["j"]) == 1
    claim = opened.ledger.take("w")
    assert claim is not None
    assert claim.attempts == 4, "this one lives, and could not put it back"


def test_jobs_that_redis_forgot_come_before_later_ones(opened: Opened) -> None:
    opened.ledger.add(replace(job("second"), created=BEGAN + 1))
    opened.forget()
    opened.ledger.add(replace(job("third"), created=BEGAN + 2))
    opened.ledger.add(replace(job("first"), created=BEGAN))
    taken = []
    while (claim := opened.ledger.take("w")) is not None:
        taken.append(claim.job.job_id)
        claim.end(JobProgress(job_id=claim.job.job_id, status="succeeded"))
    assert taken == ["first", "second", "third"]
