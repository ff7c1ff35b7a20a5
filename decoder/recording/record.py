"""`bench record`: greedy outputs written down once, so that drafters can be scored on them without a model.

One JSON line per prompt and turn, flushed when it is there; a run that is started again skips what the file has. What
drafters read besides tokens goes into a file per answer, see `kept_rows.py`.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from decoder.drafters import Drafter
from decoder.engine import Engine
from decoder.errors import PromptTooLong
from decoder.generation import Generation
from decoder.recording.chat import Chat
from decoder.recording.keeping_drafter import KeepingDrafter
from decoder.recording.kept_rows import contents, kept_path
from decoder.recording.prompts import BenchError, Item
from decoder.recording.specs import make_from_spec
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer.

    Attributes:
        turn: 1 for the first message.
        output_ids: the answer, its end token included where it ended by itself.
        finish_reason: "stop" or "length".
        max_tokens: the limit it was recorded with.
        drafter: the drafter that sped the recording up; "plain" for none.
        batch: most answers that were decoded together.
        steps: target passes after prefill that the recording took.
        seconds: wall time of the recording.
        segments: (kind, tokens) of the prompt's parts in order, as `Chat.segments`; empty where unknown.
        kept: the archive with its logits and hidden states, where there is one; not part of the JSON line.
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
    batch: int = 1
    steps: int = 0
    seconds: float = 0.0
    segments: tuple[tuple[str, int], ...] = ()
    kept: Path | None = None


_REQUIRED = [name.name for name in fields(Recording)][:10]


def read_recordings(path: Path) -> list[Recording]:
    """Recordings of a file; a last line that was cut off by a crash is left out.

    Raises BenchError where the file is missing or a line lacks a field.
    """
    if not path.is_file():
        raise BenchError(f"there is no file {path}; write one with `rag bench record`")
    recordings = []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")  # behind the last line end stands what a crash cut off
    for number, line in enumerate(lines, 1):
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
        values = {f.name: values[f.name] for f in fields(Recording) if f.name in values}
        kept = kept_path(path, values["id"], values["turn"])
        parts = tuple((str(kind), int(length)) for kind, length in values.get("segments", ()))
        if parts and sum(length for _, length in parts) != len(values["prompt_ids"]):
            raise BenchError(f"{where} has segments of another length than its prompt; record it again")
        recordings.append(Recording(**{**values, "segments": parts, "kept": kept if kept.is_file() else None}))
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
    batch: int = 1,
    keep_logits: bool = False,
    keep_hidden: Collection[int] = (),
    say: Callable[[str], None] = lambda line: None,
) -> int:
    """Record the answers that `out` does not hold yet; returns how many were added.

    An answer is what plain greedy decoding gives, whatever drafter or batch speeds it up. A later turn follows the
    recorded replies of the earlier ones.

    Args:
        batch: answers that are decoded together, one target pass for all; it counts more than any drafter where
            memory bounds the speed.
        keep_logits: keep the best 64 logits of every row that chose a token.
        keep_hidden: decoder layers (0 is the first) whose hidden states are kept.

    Raises:
        BenchError: `out` holds answers of another model, dtype or max_tokens, or some without what is to be kept.
    """
    if batch < 1:
        raise BenchError(f"--batch must be at least 1, got {batch}")
    layers = frozenset(keep_hidden)
    for layer in sorted(layers):
        if not 0 <= layer < engine.target.layers:
            raise BenchError(
                f"--keep-hidden names layer {layer}; this model has layers 0 to {engine.target.layers - 1}"
            )
    done = _existing(out, model, dtype, max_tokens)
    if keep_logits or layers:
        _check_kept(done.values(), out, keep_logits, layers)

    def make() -> Drafter:
        made = make_from_spec(drafter)
        return KeepingDrafter(made, logits=keep_logits, layers=layers) if keep_logits or layers else made

    added = 0
    waiting = deque(_Dialogue(item) for item in items)
    running: list[_Running] = []
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        while waiting or running:
            while waiting and len(running) < batch:
                dialogue = waiting.popleft()
                while (known := done.get((dialogue.item.id, dialogue.turn))) is not None:
                    dialogue.replies.append(chat.text(known.output_ids))
                if dialogue.turn > len(dialogue.item.turns):
                    continue
                prompt_ids = chat.prompt_ids(dialogue.item, dialogue.replies)
                try:
                    segments = chat.segments(dialogue.item, dialogue.replies)
                    running.append(_start(engine, dialogue, prompt_ids, segments, max_tokens, make()))
                except PromptTooLong as error:
                    say(f"{dialogue.item.id} turn {dialogue.turn} left out: {error}")
            engine.step([one.sequence for one in running if not one.sequence.finished])
            for one in [one for one in running if one.sequence.finished]:
                running.remove(one)
                recording = one.recording(model=model, dtype=dtype, drafter=drafter, batch=batch)
                if isinstance(one.sequence.drafter, KeepingDrafter):  # before the line: a line has its archive
                    one.sequence.drafter.kept().save(kept_path(out, recording.id, recording.turn))
                file.write(_line(recording))
                file.flush()
                done[recording.id, recording.turn] = recording
                added += 1
                waiting.appendleft(one.dialogue)  # its next turn, if it has one
                say(
                    f"{recording.id} turn {recording.turn}: {len(recording.prompt_ids)} prompt tokens, "
                    f"{len(recording.output_ids)} tokens in {recording.steps} passes, {recording.seconds:.1f} s"
                )
    return added


@dataclass(slots=True)
class _Dialogue:
    item: Item
    replies: list[str] = field(default_factory=list)

    @property
    def turn(self) -> int:
        """The turn that comes next, from 1."""
        return len(self.replies) + 1


@dataclass(slots=True, eq=False)
class _Running:
    dialogue: _Dialogue
    sequence: Generation
    segments: tuple[PromptSegment, ...]
    started: float

    def recording(self, *, model: str, dtype: str, drafter: str, batch: int) -> Recording:
        item, sequence = self.dialogue.item, self.sequence
        return Recording(
            id=item.id,
            benchmark=item.benchmark,
            category=item.category,
            turn=self.dialogue.turn,
            prompt_ids=sequence.prompt,
            output_ids=sequence.tokens,
            model=model,
            dtype=dtype,
            finish_reason=str(sequence.finish_reason),
            max_tokens=sequence.params.max_tokens,
            drafter=drafter,
            batch=batch,
            steps=sequence.stats.steps,
            seconds=round(time.perf_counter() - self.started, 2),
            segments=tuple((segment.kind, segment.length) for segment in self.segments),
        )


def _start(
    engine: Engine,
    dialogue: _Dialogue,
    prompt_ids: list[int],
    segments: tuple[PromptSegment, ...],
    max_tokens: int,
    drafter: Drafter,
) -> _Running:
    started = time.perf_counter()
    sequence = engine.start(prompt_ids, SamplingParams(max_tokens=max_tokens), drafter=drafter, segments=segments)
    engine.prefill(sequence)
    return _Running(dialogue, sequence, segments, started)


def _line(recording: Recording) -> str:
    values = asdict(recording)
    del values["kept"]
    return json.dumps(values, ensure_ascii=False) + "\n"


def _check_kept(recordings: Iterable[Recording], out: Path, logits: bool, layers: frozenset[int]) -> None:
    for recording in recordings:
        has_logits, has_layers = contents(recording.kept) if recording.kept else (False, frozenset())
        if (logits and not has_logits) or layers - has_layers:
            raise BenchError(
                f"{out} holds an answer ({recording.id}, turn {recording.turn}) without the logits or hidden states "
                "that are to be kept; name another --out"
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
