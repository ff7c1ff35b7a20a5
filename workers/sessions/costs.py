"""What answers cost in tokens, in Redis: by tenant and day, and of all tenants together since the service began.

The script that ends an answer (`lua.FINISH`) counts it too. So an answer counts once, whichever workers wrote it, and
one that never ended counts nothing. Knows counts and keys; knows no prices and no limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, Self

from workers.broker import keys
from workers.broker.app import RedisClient
from workers.errors import unavailable

DAYS = 400
"""Days for which a day's counts are kept."""
Engine = Literal["decoder", "upstream"]


@dataclass(frozen=True, slots=True)
class TokenCounts:
    """Tokens of one or more requests to a model.

    Attributes:
        prompt: all prompt tokens.
        cached: those of them that were not processed again.
        completion: generated tokens.
        estimated: those of prompt and completion that a model server did not count, so that we did.
    """

    prompt: int = 0
    cached: int = 0
    completion: int = 0
    estimated: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(*(getattr(self, name) + getattr(other, name) for name in KINDS))


KINDS = tuple(field.name for field in fields(TokenCounts))


@dataclass(frozen=True, slots=True)
class Cost:
    """Tokens, and which model they were of.

    Attributes:
        upstream: name of the model server; "" for our own engine.
        model: as the operator names it.
    """

    engine: Engine
    upstream: str
    model: str
    counts: TokenCounts

    def increments(self) -> list[tuple[str, int]]:
        """For `lua.FINISH`: fields of the hashes, and what is added to each."""
        numbers = ((kind, getattr(self.counts, kind)) for kind in KINDS)
        return [(json.dumps([self.engine, self.upstream, self.model, kind]), number) for kind, number in numbers]

    @classmethod
    def of_hash(cls, stored: Mapping[str, Any]) -> list[Self]:
        """What a hash holds, a cost for each model, in the order of their names."""
        models: dict[tuple[Engine, str, str], dict[str, int]] = {}
        for name, number in sorted(stored.items()):
            engine, upstream, model, kind = json.loads(name)
            if kind in KINDS:
                models.setdefault((engine, upstream, model), {})[kind] = int(number)
        return [cls(*model, TokenCounts(**numbers)) for model, numbers in models.items()]


def today() -> date:
    """The day in UTC."""
    return datetime.now(UTC).date()


class Costs:
    """The counts of all tenants. Every method raises QueueUnavailable while Redis is away.

    Args:
        client: from `make_redis`.
    """

    def __init__(self, client: RedisClient) -> None:
        self._redis: Any = client

    def tenants(self) -> list[str]:
        """Those that ever had an answer, in the order of their names."""
        with unavailable():
            return sorted(str(name) for name in self._redis.smembers(keys.USAGE_TENANTS))

    def by_day(self, tenant: str, days: int, last: date | None = None) -> list[tuple[date, Cost]]:
        """A tenant's costs in so many days up to `last` (today, in UTC), the latest day first."""
        end = last or today()
        wanted = [end - timedelta(days=back) for back in range(days)]
        with unavailable(), self._redis.pipeline(transaction=False) as pipe:
            for day in wanted:
                pipe.hgetall(keys.usage(tenant, day.isoformat()))
            replies = pipe.execute()
        return [(day, cost) for day, reply in zip(wanted, replies, strict=True) for cost in Cost.of_hash(reply)]

    def totals(self) -> list[Cost]:
        """The costs of all tenants since the service began."""
        with unavailable():
            return Cost.of_hash(self._redis.hgetall(keys.USAGE_TOTALS))


def added(counts: Iterable[TokenCounts]) -> TokenCounts:
    """Their sum."""
    return sum(counts, TokenCounts())
