"""What an answer cost, as its last event says it: token counts, and the engine's. Pure."""

from __future__ import annotations

from typing import Any

from decoder import DecodeStats
from decoder.drafts.stats import SourceCount
from workers.broker.messages import GenerateJob


def usage(
    job: GenerateJob, prompt_tokens: int, completion_tokens: int, stats: DecodeStats, cached_tokens: int | None = None
) -> dict[str, int | dict[str, int]]:
    """Token counts as OpenAI defines them; of a refused answer, those of what was generated.

    Cached tokens are prompt tokens whose keys and values the worker had stored, for a second answer those of the first.

    The answer under edit counts as a prediction like a client's. Accepted tokens were copied from it, rejected ones
    were drafted from it and not accepted; without speculation both are 0.
    """
    counts: dict[str, int | dict[str, int]] = {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": stats.cached_tokens if cached_tokens is None else cached_tokens},
    }
    if job.edit is not None or job.prediction is not None:
        segment = job.edit.segment if job.edit else job.predicted_segment
        count = stats.by_segment.get(segment, SourceCount())
        counts["completion_tokens_details"] = {
            "accepted_prediction_tokens": count.accepted,
            "rejected_prediction_tokens": count.drafted - count.accepted,
        }
    return counts


def speculation(drafter: str, stats: DecodeStats) -> dict[str, Any]:
    """The engine's counts, as `DoneEvent.speculation`."""
    return {
        "drafter": drafter,
        "mat": stats.mat,
        "steps": stats.steps,
        "drafted": stats.drafted,
        "accepted": stats.accepted,
        "acceptance_rate": stats.acceptance_rate,
        "by_source": {
            name: {"drafted": count.drafted, "accepted": count.accepted} for name, count in stats.by_source.items()
        },
        "plain_equivalent_steps": stats.plain_equivalent_steps,
        "near_ties": stats.near_ties,
        "near_ties_changed": stats.near_ties_changed,
        "extra_passes": stats.extra_passes,
        "resumed_tokens": stats.resumed_tokens,
        "ms": dict(stats.ms),
    }
