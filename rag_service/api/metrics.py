"""What `/metrics` tells: names, kinds and meanings, the text that Prometheus reads, and the page that lists them.

`prometheus-client` writes the text format; where the values come from is the route's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import prometheus_client
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class Metric:
    """One metric. `label` names what its values are told apart by; None where there is one value."""

    name: str
    kind: Literal["gauge", "counter"]
    meaning: str
    label: str | None = None


METRICS = (
    Metric("rag_redis_up", "gauge", "Whether Redis answers."),
    Metric("rag_workers", "gauge", "Workers heard of lately."),
    Metric("rag_queue_depth", "gauge", "Jobs that no worker has taken yet.", "queue"),
    Metric("rag_ingest_jobs", "gauge", "Ingest jobs that have not ended.", "status"),
    Metric("rag_ingest_jobs_oldest_seconds", "gauge", "How long ago the oldest of them was accepted.", "status"),
    Metric("rag_ingest_jobs_ended_total", "counter", "Ingest jobs that ended, by how.", "status"),
    Metric("rag_kv_cache_bytes", "gauge", "Keys and values of earlier turns that a worker keeps.", "worker"),
    Metric("rag_kv_cache_entries", "gauge", "Sessions, and system prompts, that they are of.", "worker"),
    Metric("rag_kv_cache_evicted_total", "counter", "Those that left for want of room.", "worker"),
    Metric("rag_prompt_tokens_total", "counter", "Prompt tokens of a worker's answers.", "worker"),
    Metric("rag_prompt_tokens_reused_total", "counter", "Those of them that it had kept.", "worker"),
    Metric("rag_answers_total", "counter", "Answers asked for in this process."),
)
Values = Mapping[str, int | float | Mapping[str, int | float]]
"""A metric's name to its value, or to its values by label."""


def exposition(values: Values, metrics: Sequence[Metric] = METRICS) -> str:
    """The text format; metrics without a value are left out.

    Raises:
        KeyError: a value has no metric.
    """
    by_name = {metric.name: metric for metric in metrics}
    for unknown in values.keys() - by_name.keys():
        raise KeyError(unknown)
    registry = CollectorRegistry()
    registry.register(_Families([_family(metric, values[name]) for name, metric in by_name.items() if name in values]))
    return generate_latest(registry).decode()


class _Families(Collector):
    def __init__(self, families: Sequence[prometheus_client.Metric]) -> None:
        self._families = families

    def collect(self) -> Sequence[prometheus_client.Metric]:
        return self._families


def _family(metric: Metric, value: int | float | Mapping[str, int | float]) -> prometheus_client.Metric:
    kind = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    family = kind(metric.name, metric.meaning, labels=[metric.label] if metric.label else [])
    by_label = value if isinstance(value, Mapping) else {"": value}
    for label, one in by_label.items():
        family.add_metric([label] if metric.label else [], one)
    return family


def metrics_page() -> str:
    """`docs/metrics.md`."""
    rows = [f"| `{m.name}` | {m.kind} | {f'`{m.label}`' if m.label else ''} | {m.meaning} |" for m in METRICS]
    return "\n".join(
        [
            "# Metrics",
            "",
            "`GET /metrics` answers in Prometheus's text format, without an API key. Where Redis is away, only",
            "`rag_redis_up` and `rag_answers_total` are told.",
            "This page is generated: `python -m rag_service.reference docs`.",
            "",
            "| metric | kind | label | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
