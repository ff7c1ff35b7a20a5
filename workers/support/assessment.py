"""The support of an answer, from what was found out about it and a calibration. Pure.

Knows evidence in words and calibrations; knows no engine: its signals are given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from workers.broker.messages import Checking, GenerateJob, Place, SentenceSupport, Support
from workers.support.calibration import Calibration
from workers.support.evidence import Evidence, Found
from workers.support.passages.sentences import claims
from workers.support.statement import Statement
from workers.support.words.asking import repeats

DIGITS = 2
"""Decimals of the chances that the API shows."""
DENIED = 0.15
"""What is left of the chance of a sentence that the passages deny: below every usual threshold."""


def assess(
    job: GenerateJob,
    checking: Checking,
    text: str,
    own: Mapping[str, float],
    calibration: Calibration,
    calibrated: bool,
) -> Support:
    """The support of an answer's text.

    Args:
        checking: the job's.
        own: the engine's signals, such as `readout` or `check`; {} where it gave none.
        calibration, calibrated: from `workers.support.calibration.find`.
    """
    shown = [p for p in job.passages if p.get("in_prompt", True)]
    texts, titles = [str(passage["text"]) for passage in shown], [_above(passage) for passage in shown]
    evidence = Evidence(checking.question, texts, checking.language, titles)
    spans = claims(text)
    found = evidence.of_answer([text[start:end] for start, end in spans])
    common = {**checking.signals, **own}
    chances = [_chance(one, common, calibration) for one in found]
    weakest = min(found, key=lambda one: (not one.denied, one.evidence), default=Found())
    signals = {**common, "evidence": weakest.evidence, "covered": weakest.covered}
    answerable = calibration.answerable.chance(signals)
    nearest = evidence.nearest()
    return Support(
        support=round(_chance(weakest, common, calibration), DIGITS),
        answerable=round(answerable, DIGITS),
        calibrated=calibrated and bool(own),
        abstained=_abstained(checking, answerable < calibration.threshold or repeats(job.question, text)),
        sentences=[
            SentenceSupport(
                start=start,
                end=end,
                support=round(chance, DIGITS),
                passage=one.passage,
                source_start=one.start,
                source_end=one.end,
            )
            for (start, end), one, chance in zip(spans, found, chances, strict=True)
        ],
        signals={name: round(value, 4) for name, value in signals.items()},
        spoken=round(evidence.spoken(text), DIGITS),
        nearest=None if nearest is None else _place(nearest),
    )


def _place(statement: Statement) -> Place:
    columns = [] if statement.row is None or not statement.row.has_head else [*statement.row.names]
    return Place(passage=statement.passage, start=statement.start, end=statement.end, columns=columns)


def _above(passage: Mapping[str, Any]) -> str:
    """Title and headings of a passage, but for those that stand in its text and head a part of it alone."""
    headings = [one.split(" / ") for one in str(passage.get("heading") or "").split(" > ")]
    above = [" / ".join(name for name in names if name != "…" and name not in passage["text"]) for names in headings]
    return "\n".join([str(passage.get("title") or ""), *filter(None, above)])


def _chance(one: Found, common: Mapping[str, float], calibration: Calibration) -> float:
    """That the passages state a sentence. Little of it is left if they deny it: of the answers that calibrations are
    fitted to, few are denied, so the regressions do not know what it means."""
    chance = calibration.support.chance({**common, "evidence": one.evidence, "covered": one.covered})
    return DENIED * chance if one.denied else chance


def _abstained(checking: Checking, doubtful: bool) -> Literal["warned", "refused"] | None:
    if not doubtful or checking.abstain == "off":
        return None
    return "refused" if checking.abstain == "refuse" else "warned"
