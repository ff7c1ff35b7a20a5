"""`bench record`: greedy outputs written down once, so that copy drafters can be scored on them without a model.

One JSON line per prompt and turn, flushed when it is there; a run that is started again skips what the file has.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from decoder.bench.chat import Chat
from decoder.bench.prompts import BenchError, Item
from decoder.bench.specs import make_from_spec
from decoder.engine import Engine
from decoder.errors import PromptTooLong
from decoder.params import SamplingParams


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer.

    Attributes:
        turn: 1 for the first message.
        output_ids: the answer, its end token included where it ended by itself.
        finish_reason: "stop" or "length".
        max_tokens: the limit it was recorded with.
        drafter: the drafter that sped the recording up; "plain" for none.
        steps: target passes after prefill that the recording took.
        seconds: wall time of the recording.
    """

    id: str
    benchmark: str
    category: str
    turn: int
    prompt_ids: list[int]
    output_ids: list[int]
    model: str
    dtype: str
    finish_reason: str
    max_tokens: int
    drafter: str = "plain"
    steps: int = 0
    seconds: float = 0.0


_REQUIRED = [field.name for field in fields(Recording)][:10]


def read_recordings(path: Path) -> list[Recording]:
    """Recordings of a file; a last line that was cut off by a crash is left out.

    Raises BenchError where the file is missing or a line lacks a field.
    """
    if not path.is_file():
        raise BenchError(f"there is no file {path}; write one with `rag bench record`")
    recordings = []
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    for number, line in enumerate(lines, 1):
        if number == len(lines) and not line.endswith("\n"):
            break
        if not line.strip():
            continue
        where = f"{path.name}, line {number}"
        try:
            values = json.loads(line)
        except json.JSONDecodeError as error:
            raise BenchError(f"{where} is not JSON ({error.msg}); remove the line and record it again") from None
        missing = [name for name in _REQUIRED if name not in values]
        if missing:
            raise BenchError(f"{where} lacks {', '.join(missing)}; record it again with this version")
        recordings.append(Recording(**{f.name: values[f.name] for f in fields(Recording) if f.name in values}))
    return recordings


def record(
    engine: Engine,
    chat: Chat,
    items: Iterable[Item],
    out: Path,
    *,
    model: str,
    dtype: str,
    max_tokens: int,
    drafter: str = "plain",
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Record the answers that `out` does not hold yet; returns how many were added.

    An answer is what plain greedy decoding gives, whatever drafter speeds it up. A later turn follows the recorded
    replies of the earlier ones.

    Raises BenchError where `out` holds answers of another model, dtype or max_tokens.
    """
    done = _existing(out, model, dtype, max_tokens)
    added = 0
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        for item in items:
            replies: list[str] = []
            for turn in range(1, len(item.turns) + 1):
                recording = done.get((item.id, turn))
                if recording is None:
                    prompt_ids = chat.prompt_ids(item, replies)
                    try:
                        recording = _record_one(engine, item, turn, prompt_ids, model, dtype, max_tokens, drafter)
                    except PromptTooLong as error:
                        say(f"{item.id} turn {turn} left out: {error}")
                        break
                    file.write(json.dumps(asdict(recording), ensure_ascii=False) + "\n")
                    file.flush()
                    added += 1
                    say(
                        f"{item.id} turn {turn}: {len(prompt_ids)} prompt tokens, {len(recording.output_ids)} tokens "
                        f"in {recording.steps} passes, {recording.seconds:.1f} s"
                    )
                replies.append(chat.text(recording.output_ids))
    return added


def _record_one(
    engine: Engine, item: Item, turn: int, prompt_ids: list[int], model: str, dtype: str, max_tokens: int, drafter: str
) -> Recording:
    started = time.perf_counter()
    sequence = engine.start(prompt_ids, SamplingParams(max_tokens=max_tokens), drafter=make_from_spec(drafter))
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return Recording(
        id=item.id,
        benchmark=item.benchmark,
        category=item.category,
        turn=turn,
        prompt_ids=prompt_ids,
        output_ids=sequence.tokens,
        model=model,
        dtype=dtype,
        finish_reason=str(sequence.finish_reason),
        max_tokens=max_tokens,
        drafter=drafter,
        steps=sequence.stats.steps,
        seconds=round(time.perf_counter() - started, 2),
    )


def _existing(out: Path, model: str, dtype: str, max_tokens: int) -> dict[tuple[str, int], Recording]:
    """What `out` holds; a line cut off by a crash is removed from it."""
    if not out.exists():
        return {}
    data = out.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        out.write_bytes(whole)
    recordings = read_recordings(out)
    for recording in recordings:
        if (recording.model, recording.dtype, recording.max_tokens) != (model, dtype, max_tokens):
            raise BenchError(
                f"{out} holds outputs of {recording.model}, {recording.dtype}, at most {recording.max_tokens} tokens; "
                "name another --out, or record with the same settings"
            )
    return {(recording.id, recording.turn): recording for recording in recordings}
