"""Recordings: greedy answers saved once, so that drafters can be scored on them without a model.

One JSON line per prompt and turn, flushed when the answer is complete; a run that is started again skips the answers
that the file has. Outputs that drafters read besides tokens go into a file per answer, see `pass_archive.py`.
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
from decoder.recording.jsonl import drop_partial_line
from decoder.recording.pass_archive import archive_contents, archive_path
from decoder.recording.prompts import BenchError, Item
from decoder.recording.recording_drafter import RecordingDrafter
from decoder.recording.specs import make_from_spec
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment


@dataclass(frozen=True, slots=True)
class Recording:
    """One recorded answer. The fields are those of the JSON line, but for `archive`.

    Attributes:
        turn: 1 for the first message.
        output_ids: the answer, with its end token if it has one.
        finish_reason: "stop" or "length".
        max_tokens: the limit it was recorded with.
        drafter: the drafter that sped the recording up; "plain" for none.
        batch: most answers decoded together.
        steps: target passes of the recording, after prefill.
        seconds: wall time of the recording.
        segments: (kind, tokens) of the prompt's segments in order, as `Chat.segments`; empty if unknown.
        archive: the file with its logits and hidden states, if there is one.
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
    archive: Path | None = None


_REQUIRED = [name.name for name in fields(Recording)][:10]


def read_recordings(path: Path) -> list[Recording]:
    """Recordings of a file, without a last line that a crash cut off.

    Raises BenchError if the file is missing or a line lacks a field.
    """
    if not path.is_file():
        raise BenchError(f"there is no file {path}; write one with `rag bench record`")
    recordings = []
    *lines, _ = path.read_text(encoding="utf-8").split("\n")  # after the last line end: a line that a crash cut off
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
        archive = archive_path(path, values["id"], values["turn"])
        segments = tuple((str(kind), int(length)) for kind, length in values.get("segments", ()))
        if segments and sum(length for _, length in segments) != len(values["prompt_ids"]):
            raise BenchError(f"{where} has segments of another length than its prompt; record it again")
        values |= {"segments": segments, "archive": archive if archive.is_file() else None}
        recordings.append(Recording(**values))
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
    """Record the answers that `out` lacks; returns their number.

    An answer is plain greedy decoding's, whatever drafter or batch speeds it up. A later turn follows the recorded
    replies of the earlier ones.

    Args:
        batch: answers decoded together in one target pass; it saves more time than any drafter if memory bounds the
            speed.
        keep_logits: save the best 64 logits of every row that chose a token.
        keep_hidden: decoder layers (0 is the first) whose hidden states are saved.

    Raises:
        BenchError: `out` has answers of another model, dtype or max_tokens, or answers without the outputs to save.
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
    _check_archives(done.values(), out, keep_logits, layers)

    def make() -> Drafter:
        plain = make_from_spec(drafter)
        return RecordingDrafter(plain, logits=keep_logits, layers=layers) if keep_logits or layers else plain

    added = 0
    waiting = deque(_Dialogue(item) for item in items)
    running: list[tuple[_Dialogue, Generation]] = []
    params = SamplingParams(max_tokens=max_tokens)
    out.parent.mkdir(parents=True, exist_ok=True)
    with out.open("a", encoding="utf-8") as file:
        while waiting or running:
            while waiting and len(running) < batch:
                dialogue = waiting.popleft()
                while (recording := done.get((dialogue.item.id, dialogue.turn))) is not None:
                    dialogue.replies.append(chat.text(recording.output_ids))
                if dialogue.turn > len(dialogue.item.turns):
                    continue
                try:
                    running.append((dialogue, dialogue.start(engine, chat, params, make())))
                except PromptTooLong as error:
                    say(f"{dialogue.item.id} turn {dialogue.turn} left out: {error}")
            engine.step([sequence for _, sequence in running if not sequence.finished])
            finished = [pair for pair in running if pair[1].finished]
            running = [pair for pair in running if not pair[1].finished]
            for dialogue, sequence in finished:
                recording = dialogue.recording(sequence, model=model, dtype=dtype, drafter=drafter, batch=batch)
                if isinstance(sequence.drafter, RecordingDrafter):  # first, so that every line has its archive
                    sequence.drafter.archive().save(archive_path(out, recording.id, recording.turn))
                file.write(_line(recording))
                file.flush()
                done[recording.id, recording.turn] = recording
                added += 1
                waiting.appendleft(dialogue)  # its next turn, if it has one
                say(
                    f"{recording.id} turn {recording.turn}: {len(recording.prompt_ids)} prompt tokens, "
                    f"{len(recording.output_ids)} tokens in {recording.steps} passes, {recording.seconds:.1f} s"
                )
    return added


@dataclass(slots=True)
class _Dialogue:
    item: Item
    replies: list[str] = field(default_factory=list)
    segments: tuple[PromptSegment, ...] = ()
    started: float = 0.0

    @property
    def turn(self) -> int:
        """The next turn, from 1."""
        return len(self.replies) + 1

    def start(self, engine: Engine, chat: Chat, params: SamplingParams, drafter: Drafter) -> Generation:
        """Start and prefill the answer to the next turn."""
        prompt_ids = chat.prompt_ids(self.item, self.replies)
        self.segments = chat.segments(self.item, self.replies)
        self.started = time.perf_counter()
        sequence = engine.start(prompt_ids, params, drafter=drafter, segments=self.segments)
        engine.prefill(sequence)
        return sequence

    def recording(self, sequence: Generation, *, model: str, dtype: str, drafter: str, batch: int) -> Recording:
        """The finished answer to the next turn."""
        return Recording(
            id=self.item.id,
            benchmark=self.item.benchmark,
            category=self.item.category,
            turn=self.turn,
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


def _line(recording: Recording) -> str:
    values = asdict(recording)
    del values["archive"]
    return json.dumps(values, ensure_ascii=False) + "\n"


def _check_archives(recordings: Iterable[Recording], out: Path, logits: bool, layers: frozenset[int]) -> None:
    if not logits and not layers:
        return
    for recording in recordings:
        has_logits, has_layers = archive_contents(recording.archive) if recording.archive else (False, frozenset())
        if (logits and not has_logits) or layers - has_layers:
            raise BenchError(
                f"{out} holds an answer ({recording.id}, turn {recording.turn}) without the logits or hidden states "
                "to be saved; name another --out"
            )


def _existing(out: Path, model: str, dtype: str, max_tokens: int) -> dict[tuple[str, int], Recording]:
    """The recordings of `out`; removes a line that a crash cut off."""
    recordings = read_recordings(out) if drop_partial_line(out) else []
    for recording in recordings:
        if (recording.model, recording.dtype, recording.max_tokens) != (model, dtype, max_tokens):
            raise BenchError(
                f"{out} holds outputs of {recording.model}, {recording.dtype}, at most {recording.max_tokens} tokens; "
                "name another --out, or record with the same settings"
            )
    return {(recording.id, recording.turn): recording for recording in recordings}
