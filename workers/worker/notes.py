"""Notes on the parts of a document that is too long for one prompt: the model reads part after part, then the notes.

Knows jobs and the engine; knows no template. A worker that takes an answer over reads the parts again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing

from decoder import SamplingParams
from workers.broker.messages import GenerateJob, PartsEvent, Segment
from workers.sessions.streams import AnswerStream
from workers.tokens.text_stream import TextStream
from workers.tokens.tokenizer import Tokens
from workers.worker.runtime import Runtime


def noted(
    job: GenerateJob,
    assemble: Callable[[Sequence[Segment]], list[int]],
    stream: AnswerStream,
    runtime: Runtime,
    tokens: Tokens,
    cancelled: Callable[[], bool],
) -> GenerateJob:
    """The job with the model's notes in its segments of kind `notes`; an event tells each part that is read.

    Args:
        assemble: a prompt's ids.

    Raises:
        the engine's errors, RuntimeClosed, and those of `AnswerStream.write`.
    """
    notes: list[str] = []
    for part in job.parts:
        if cancelled():
            break
        notes.append(_notes(assemble(part), job, runtime, tokens, cancelled))
        stream.write(PartsEvent(done=len(notes), total=len(job.parts)))
    given = iter(notes)
    segments = [
        one.model_copy(update={"text": f"{next(given, '')}\n\n"}) if one.kind == "notes" and not one.text else one
        for one in job.segments
    ]
    return job.model_copy(update={"segments": segments})


def _notes(prompt: list[int], job: GenerateJob, runtime: Runtime, tokens: Tokens, cancelled: Callable[[], bool]) -> str:
    """The likeliest text, up to `job.notes_tokens` tokens."""
    params = SamplingParams(max_tokens=job.notes_tokens, stop_token_ids=tuple(sorted(tokens.eos_ids)))
    handle = runtime.submit(prompt, params, cancelled, drafter=job.speculation.drafter)
    text = TextStream(tokens)
    with closing(handle):
        written = [text.push(token)[0] for step in handle for token in step.tokens]
    return ("".join(written) + text.flush()).strip()
