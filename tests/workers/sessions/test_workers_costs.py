"""What answers cost: counted with their end, by tenant, day and model, once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.workers.sessions.test_workers_streams import make_done, make_job
from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.messages import ErrorEvent
from workers.errors import AnswerTaken, QueueUnavailable
from workers.sessions.costs import Cost, Costs, TokenCounts, today
from workers.sessions.queue import Queue
from workers.sessions.streams import AnswerStream

BIG = Cost("upstream", "large", 'a "big" | model', TokenCounts(100, 40, 10))
OWN = Cost("decoder", "", "small", TokenCounts(7, 0, 2, 9))


def ended(queue: Queue, client: Any, answer_id: str, cost: Cost | None, **changes: Any) -> AnswerStream:
    job = make_job(answer_id, "", **changes)
    queue.enqueue_generate(job)
    stream = AnswerStream(client, job.owner, answer_id)
    stream.start()
    stream.finish(make_done(), cost=cost)
    return stream


def test_tokens_are_counted_by_tenant_day_and_model(queue: Queue, client: Any) -> None:
    ended(queue, client, "a1", BIG)
    ended(queue, client, "a2", BIG, person="ann")
    ended(queue, client, "a3", OWN)
    ended(queue, client, "a4", OWN, tenant="acme", person="ann")
    ended(queue, client, "a5", None, tenant="stated")
    costs = Costs(client)
    twice = Cost(BIG.engine, BIG.upstream, BIG.model, TokenCounts(200, 80, 20))
    assert costs.by_day("default", 3) == [(today(), OWN), (today(), twice)]
    assert costs.by_day("acme", 1) == [(today(), OWN)]
    assert costs.tenants() == ["acme", "default"]
    assert costs.by_day("default", 1, last=today() - timedelta(days=1)) == []
    assert costs.totals() == [Cost("decoder", "", "small", TokenCounts(14, 0, 4, 18)), twice]


def test_an_answer_that_ends_twice_or_for_a_superseded_worker_counts_once(queue: Queue, client: Any) -> None:
    job = make_job("a1", "")
    queue.enqueue_generate(job)
    dead, stream = (AnswerStream(client, "default", "a1") for _ in range(2))
    dead.start()
    stream.start()
    with pytest.raises(AnswerTaken):
        dead.finish(make_done(), cost=BIG)
    assert Costs(client).totals() == []
    for _ in range(2):
        stream.finish(make_done(), cost=BIG)
    assert Costs(client).totals() == [BIG]


def test_an_answer_that_failed_counts_nothing(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job("a1", ""))
    AnswerStream(client, "default", "a1").finish(ErrorEvent(code="upstream_cut", detail="It broke off."))
    assert Costs(client).totals() == []


def test_a_days_counts_expire_and_the_totals_do_not(queue: Queue, client: Any) -> None:
    job = make_job("a1", "")
    queue.enqueue_generate(job)
    AnswerStream(client, "default", "a1", usage_days=3).finish(make_done(), cost=BIG)
    assert 0 < client.ttl(keys.usage("default", today().isoformat())) <= 3 * 24 * 3600
    assert client.ttl(keys.USAGE_TOTALS) == -1


def test_no_day_is_kept_if_none_is_to_be(queue: Queue, client: Any) -> None:
    queue.enqueue_generate(make_job("a1", ""))
    AnswerStream(client, "default", "a1", usage_days=0).finish(make_done(), cost=BIG)
    assert Costs(client).by_day("default", 1) == []
    assert Costs(client).tenants() == []
    assert Costs(client).totals() == [BIG]


def test_an_absent_redis_is_said(dead_url: str) -> None:
    costs = Costs(make_redis(dead_url))
    for ask in (costs.tenants, costs.totals, lambda: costs.by_day("default", 1)):
        with pytest.raises(QueueUnavailable):
            ask()
