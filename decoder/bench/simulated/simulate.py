"""`bench simulate`: how far each copy drafter would have got on recorded answers. Pure counting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass

from decoder.bench.simulated.replay import make_drafter, replay
from decoder.drafters.context import DrafterContext
from decoder.planning.cost_curve import AssumedCurve
from decoder.recording.prompts import BenchError
from decoder.recording.record import Recording
from decoder.request import MAX_NODES


@dataclass(frozen=True, slots=True)
class SimulatedRow:
    """One drafter on one (benchmark, category, turn).

    Attributes:
        category: "all" for the benchmark's total.
        mat: (tokens - 1) / passes, summed over the answers.
        mat_median, mat_min, mat_max: over the single answers.
        acceptance_rate: accepted / drafted tokens.
        copied_fraction: tokens accepted from copies / tokens.
        drafted_per_step: draft tokens a pass.
    """

    model: str
    dtype: str
    benchmark: str
    category: str
    turn: int
    drafter: str
    prompts: int
    prompt_tokens: int
    tokens: int
    steps: int
    mat: float
    mat_median: float
    mat_min: float
    mat_max: float
    acceptance_rate: float
    copied_fraction: float
    drafted_per_step: float


@dataclass(frozen=True, slots=True)
class Score:
    """Counts of one drafter on one answer."""

    recording: Recording
    drafter: str
    steps: int
    drafted: int
    accepted: int
    copied: int

    @property
    def mat(self) -> float:
        return (len(self.recording.output_ids) - 1) / self.steps if self.steps else 1.0


def simulate(
    recordings: Sequence[Recording],
    drafters: Sequence[str],
    say: Callable[[str], None] = lambda line: None,
    *,
    max_nodes: int = MAX_NODES,
    cost_of_64: float = 1.5,
) -> list[SimulatedRow]:
    """Score every drafter on every answer.

    Args:
        max_nodes: most draft nodes a step.
        cost_of_64: what a pass over 64 rows is taken to cost, in passes over one row; for drafters that weigh it.

    What a drafter learns it keeps from answer to answer of a benchmark, and begins each benchmark anew.

    Returns:
        rows by (benchmark, category, turn, drafter), and for benchmarks of several categories a row `all` per turn.

    Raises:
        BenchError: no recordings, no drafters, an id and turn recorded twice, or recordings of several models.
    """
    _check(recordings, drafters)
    scores = []
    shared = {drafter: DrafterContext(cost=AssumedCurve(1.0, cost_of_64)) for drafter in drafters}
    for recording in recordings:
        for drafter in drafters:
            stats, copied = replay(recording, make_drafter(drafter, recording), max_nodes, shared[drafter])
            scores.append(Score(recording, drafter, stats.steps, stats.drafted, stats.accepted, copied))
        say(f"{recording.id} turn {recording.turn}: {', '.join(f'{s.mat:.2f}' for s in scores[-len(drafters) :])}")
    return _rows(scores, drafters)


def row_dicts(rows: Iterable[SimulatedRow]) -> list[dict[str, object]]:
    return [asdict(row) for row in rows]


def _rows(scores: Sequence[Score], drafters: Sequence[str]) -> list[SimulatedRow]:
    categories: dict[str, set[str]] = {}
    for score in scores:
        categories.setdefault(score.recording.benchmark, set()).add(score.recording.category)
    groups: dict[tuple[str, str, int, str], list[Score]] = {}
    for score in scores:
        recording = score.recording
        names = [recording.category, *(["all"] if len(categories[recording.benchmark]) > 1 else [])]
        for name in names:
            groups.setdefault((recording.benchmark, name, recording.turn, score.drafter), []).append(score)
    order = sorted(groups, key=lambda key: (key[0], key[1] == "all", key[1], key[2], drafters.index(key[3])))
    return [_row(key, groups[key]) for key in order]


def _row(key: tuple[str, str, int, str], scores: Sequence[Score]) -> SimulatedRow:
    benchmark, category, turn, drafter = key
    tokens = sum(len(score.recording.output_ids) for score in scores)
    steps = sum(score.steps for score in scores)
    drafted = sum(score.drafted for score in scores)
    mats = sorted(score.mat for score in scores)
    middle = len(mats) // 2
    return SimulatedRow(
        model=scores[0].recording.model,
        dtype=scores[0].recording.dtype,
        benchmark=benchmark,
        category=category,
        turn=turn,
        drafter=drafter,
        prompts=len(scores),
        prompt_tokens=sum(len(score.recording.prompt_ids) for score in scores),
        tokens=tokens,
        steps=steps,
        mat=round((tokens - len(scores)) / steps, 3) if steps else 1.0,
        mat_median=round((mats[middle] + mats[-1 - middle]) / 2, 3),
        mat_min=round(mats[0], 3),
        mat_max=round(mats[-1], 3),
        acceptance_rate=round(sum(score.accepted for score in scores) / drafted, 4) if drafted else 0.0,
        copied_fraction=round(sum(score.copied for score in scores) / tokens, 4) if tokens else 0.0,
        drafted_per_step=round(drafted / steps, 3) if steps else 0.0,
    )


def _check(recordings: Sequence[Recording], drafters: Sequence[str]) -> None:
    if not recordings:
        raise BenchError("nothing is recorded in these files; write answers with `rag bench record`")
    if not drafters:
        raise BenchError("name at least one drafter with --drafters, such as pld,casd,oracle")
    models = {(recording.model, recording.dtype) for recording in recordings}
    if len(models) > 1:
        listed = ", ".join(f"{model} {dtype}" for model, dtype in sorted(models))
        raise BenchError(f"the files hold answers of several models ({listed}); simulate one model at a time")
    seen: set[tuple[str, int]] = set()
    for recording in recordings:
        if (recording.id, recording.turn) in seen:
            raise BenchError(f"{recording.id}, turn {recording.turn}, is recorded twice; give each file once")
        seen.add((recording.id, recording.turn))
    for drafter in drafters:
        make_drafter(drafter, recordings[0])
