"""Names that collections have now, by what they were called when an answer was made."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from workers.broker import keys
from workers.broker.app import RedisClient, make_async_redis, make_redis
from workers.sessions.renames import Names, Rename, Renames


@pytest.fixture
def client(redis_server: str) -> Iterator[RedisClient]:
    made = make_redis(redis_server)
    made.flushall()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("name", "then", "now"),
    [
        ("a", 0, "c"),
        ("a", 1, "a"),  # at the moment of the rename, it is another collection already
        ("b", 1.5, "c"),
        ("b", 2.1, "a"),
        ("b", 3, "b"),
        ("a", 3, "a"),
        ("x", 0, "x"),
    ],
)
def test_a_name_is_followed_from_its_time_on(name: str, then: float, now: str) -> None:
    """First `a` becomes `b`, then `b` becomes `c`, and another `b` becomes `a`."""
    names = Names([Rename("a", "b", 1), Rename("b", "c", 2), Rename("b", "a", 2.2)])
    assert names.now(name, then) == now


def test_a_name_that_the_reader_may_not_know_stays_the_old_one() -> None:
    renames = [Rename("a", "b", 1), Rename("b", "c", 2)]
    assert Names(renames, {"a", "b"}.__contains__).now("a", 0) == "a"
    assert Names(renames, {"a", "c"}.__contains__).now("a", 0) == "c"


def test_a_rename_is_kept_for_its_time_and_withdrawn_if_it_fails(client: RedisClient, redis_server: str) -> None:
    renames = Renames(client, make_async_redis(redis_server), ttl_s=100)
    now = float(client.time()[0])
    client.zadd(keys.renames("t"), {'["old", "older", "1"]': now - 101})
    with renames.recording("t", "a", "b"):
        during = renames.names("t", lambda name: True)
    with pytest.raises(KeyError), renames.recording("t", "b", "c"):
        raise KeyError
    after = renames.names("t", lambda name: True)
    assert [names.now("a", now - 1) for names in (during, after)] == ["b", "b"]
    assert after.now("old", 0) == "old"
    assert 0 < client.ttl(keys.renames("t")) <= 100
    assert renames.names("other", lambda name: True).now("a", 0) == "a"
