"""The metrics of `/metrics`: names, kinds and meanings, their text format, and the page that lists them.

`prometheus-client` writes the text format; the route collects the values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import prometheus_client
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector


@dataclass(frozen=True)
class Metric:
    """One metric. `label` names the label of its values, or several; None if it has one value."""

    name: str
    kind: Literal["gauge", "counter"]
    meaning: str
    label: str | tuple[str, ...] | None = None

    @property
    def labels(self) -> tuple[str, ...]:
        return self.label if isinstance(self.label, tuple) else (self.label,) if self.label else ()


METRICS = (
    Metric("rag_redis_up", "gauge", "Whether Redis answers."),
    Metric("rag_workers", "gauge", "Workers with a recent heartbeat."),
    Metric("rag_queue_depth", "gauge", "Jobs that wait for a worker.", "queue"),
    Metric("rag_ingest_jobs", "gauge", "Ingest jobs that have not ended.", "status"),
    Metric("rag_ingest_jobs_oldest_seconds", "gauge", "Age of the oldest of these jobs.", "status"),
    Metric("rag_ingest_jobs_ended_total", "counter", "Ingest jobs that have ended, by their outcome.", "status"),
    Metric("rag_kv_cache_bytes", "gauge", "Bytes of keys and values of earlier turns that a worker keeps.", "worker"),
    Metric("rag_kv_cache_entries", "gauge", "Sessions and system prompts with keys and values kept.", "worker"),
    Metric("rag_kv_cache_evicted_total", "counter", "Entries evicted because the cache was full.", "worker"),
    Metric("rag_prompt_tokens_total", "counter", "Prompt tokens of a worker's answers.", "worker"),
    Metric("rag_prompt_tokens_reused_total", "counter", "Prompt tokens with keys and values kept.", "worker"),
    Metric(
        "rag_tokens_total",
        "counter",
        "Tokens of ended answers, of all tenants; `upstream` is the model server, empty for our own engine. `kind`: "
        "`prompt`, `cached` (of prompt), `completion`, `estimated` (of both, where a model server did not count).",
        ("engine", "upstream", "model", "kind"),
    ),
    Metric("rag_answers_total", "counter", "Answers started in this process."),
)
Value = int | float | Mapping[str, int | float] | Mapping[tuple[str, ...], int | float]
"""A number, or numbers by the value of the metric's label, or by the values of its labels in order."""
Values = Mapping[str, Value]
"""Each metric's name with its value."""


def exposition(values: Values, metrics: Sequence[Metric] = METRICS) -> str:
    """The values in Prometheus's text format; metrics without a value are omitted.

    Raises:
        KeyError: no metric has the name of a value.
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


def _family(metric: Metric, value: Value) -> prometheus_client.Metric:
    kind = GaugeMetricFamily if metric.kind == "gauge" else CounterMetricFamily
    family = kind(metric.name, metric.meaning, labels=metric.labels)
    by_label: Mapping[Any, int | float] = value if isinstance(value, Mapping) else {(): value}
    for label, number in by_label.items():
        family.add_metric([label] if isinstance(label, str) else label, number)
    return family


def metrics_page() -> str:
    """The text of `docs/metrics.md`."""
    rows = [
        f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.meaning} |" for m in METRICS
    ]
    return "\n".join(
        [
            "# Metrics",
            "",
            "`GET /metrics` returns Prometheus's text format and needs no API key. While Redis does not answer, it has",
            "only `rag_redis_up` and `rag_answers_total`.",
            "This page is generated: `python -m rag_service.reference docs`.",
            "",
            "| metric | kind | label | meaning |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )
