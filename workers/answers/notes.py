"""Notes on the parts of a document that is too long for one prompt: the model reads part after part, then the notes.

Knows jobs; knows no template and no engine. A worker that takes an answer over reads the parts again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workers.broker.messages import GenerateJob, PartsEvent, Segment
from workers.sessions.streams import AnswerStream


def noted(
    job: GenerateJob,
    read: Callable[[Sequence[Segment]], str],
    stream: AnswerStream,
    cancelled: Callable[[], bool],
) -> GenerateJob:
    """The job with the model's notes in its segments of kind `notes`; an event tells each part that is read.

    Args:
        read: the model's notes on the part that a prompt shows.

    Raises:
        the engine's errors, RuntimeClosed, and those of `AnswerStream.write`.
    """
    notes: list[str] = []
    for part in job.parts:
        if cancelled():
            break
        notes.append(read(part))
        stream.write(PartsEvent(done=len(notes), total=len(job.parts)))
    given = iter(notes)
    segments = [
        one.model_copy(update={"text": f"{next(given, '')}\n\n"}) if one.kind == "notes" and not one.text else one
        for one in job.segments
    ]
    return job.model_copy(update={"segments": segments})
