"""`bench decode`: drafters and peers against plain decoding on a model, prompt by prompt in one process.

Every mode answers a prompt before the next prompt comes, so whatever else the machine does affects all modes alike and
times can be compared as pairs. The order rotates from prompt to prompt of a category, and every second prompt runs it
backwards. The engine's modes share one prefill; each peer runs its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from decoder.bench.decode.divergence import control_flips, plain_margins
from decoder.bench.decode.outcomes import Difference, Outcome, PromptsFile
from decoder.bench.decode.peers import PeerMode, PeerRunner, is_peer
from decoder.bench.decode.rows import PLAIN
from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.bench.decode.timing import TimedAnswer, first_difference, measure
from decoder.engine import Engine
from decoder.errors import PromptTooLong
from decoder.model.forward_outputs import RequiredOutputs
from decoder.recording.chat import Chat
from decoder.recording.prompts import BenchError, Item
from decoder.recording.specs import make_from_spec, split_exact, split_specs
from decoder.sampling.params import SamplingParams
from decoder.sequence import PromptSegment

WARM_UP_PROMPT, WARM_UP_TOKENS = 256, 4
Say = Callable[[str], None]


def modes_of(drafters: str) -> list[str]:
    """Plain first, then the drafters and peers of a comma-separated list. Raises if a spec is wrong."""
    modes = [PLAIN, *(spec for spec in split_specs(drafters) if spec not in {PLAIN, "off"})]
    for spec in modes:
        if is_peer(spec):
            PeerMode.parse(spec)
        else:
            make_from_spec(split_exact(spec)[0])
    return modes


def compare(
    engine: Engine,
    chat: Chat,
    items: Iterable[Item],
    params: SamplingParams,
    modes: Sequence[str],
    file: PromptsFile,
    say: Say = lambda line: None,
    control: bool = False,
    peers: PeerRunner | None = None,
) -> list[Outcome]:
    """Answer every turn of every item in every mode; with `control`, also count what numerics alone would change.

    Later turns follow plain decoding's replies in all modes. Answers that `file` holds are not generated again; new
    ones are added to it. Items that do not fit the model's window are reported and skipped.
    """
    done, open_answers = file.read()
    comparison = _Comparison(engine, params, modes, file, control, peers)
    outcomes: list[Outcome] = []
    seen: Counter[tuple[str, str, int]] = Counter()
    for item in items:
        replies: list[str] = []
        for turn in range(1, len(item.turns) + 1):
            category = (item.benchmark, item.category, turn)
            outcome = done.get((item.id, turn))
            if outcome is None:
                prompt_ids = chat.prompt_ids(item, replies)
                try:
                    engine.start(prompt_ids, params, drafter=PLAIN)
                except PromptTooLong as error:
                    say(f"{item.id} turn {turn} left out: {error}")
                    break
                order = _order(modes, list({**seen, category: 0}).index(category), seen[category])
                outcome = comparison.answer(
                    item, turn, prompt_ids, chat.segments(item, replies), order, open_answers.get((item.id, turn), {})
                )
                file.close(outcome)
                say(_line(outcome, modes))
            seen[category] += 1
            outcomes.append(outcome)
            replies.append(chat.text(outcome.answers[PLAIN].tokens))
    return outcomes


@dataclass
class _Comparison:
    """The settings that all prompts share."""

    engine: Engine
    params: SamplingParams
    modes: Sequence[str]
    file: PromptsFile
    control: bool
    peers: PeerRunner | None
    required_outputs: RequiredOutputs = field(init=False, default=RequiredOutputs())
    """What the drafters of all modes require together."""
    warm: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        for mode in self.modes:
            if not is_peer(mode):
                drafter = make_from_spec(split_exact(mode)[0])
                drafter.setup(self.engine.context)
                self.required_outputs |= drafter.required_outputs

    def answer(
        self,
        item: Item,
        turn: int,
        prompt_ids: list[int],
        segments: Sequence[PromptSegment],
        order: Sequence[str],
        open_answers: Mapping[str, TimedAnswer],
    ) -> Outcome:
        """One prompt in every mode that `open_answers` lacks, in this order, and the comparison of the answers."""
        engine, params = self.engine, self.params
        answers = dict(open_answers)
        if not self.warm:
            # First passes allocate and compile; no measured time should include that.
            few = SamplingParams(max_tokens=WARM_UP_TOKENS, ignore_eos=True)
            for mode in self.modes:
                self._measure(mode, prompt_ids[:WARM_UP_PROMPT], few, None)
            self.warm = True
        shared = None
        for mode in order:
            if mode in answers:
                continue
            if shared is None and not is_peer(mode):
                shared = SharedPrefill(engine.target, prompt_ids, self.required_outputs)
            answers[mode] = self._measure(mode, prompt_ids, params, shared, segments)
            self.file.add_answer(item.id, turn, mode, answers[mode])
        plain = answers[PLAIN].tokens
        first = {mode: first_difference(answer.tokens, plain) for mode, answer in answers.items()}
        flips = control_flips(engine, prompt_ids, plain, params, shared) if self.control else []
        indices = {*(index for index in first.values() if index is not None), *flips}
        margins = plain_margins(engine, prompt_ids, plain, indices, params, shared)
        by_index = {index: Difference(index, len(prompt_ids) + index, margin) for index, margin in margins.items()}
        differences = {mode: by_index[index] for mode, index in first.items() if index is not None}
        control = [by_index[index] for index in flips] if self.control else None
        return Outcome(item.id, item.benchmark, item.category, turn, len(prompt_ids), answers, differences, control)

    def _measure(
        self,
        mode: str,
        prompt_ids: list[int],
        params: SamplingParams,
        shared: SharedPrefill | None,
        segments: Sequence[PromptSegment] = (),
    ) -> TimedAnswer:
        if not is_peer(mode):
            return measure(self.engine, prompt_ids, params, mode, shared=shared, segments=segments)
        if self.peers is None:
            raise BenchError(f"{mode!r} is a peer; call compare with peers=")
        return self.peers.measure(mode, prompt_ids, params)


def _order(modes: Sequence[str], category: int, prompt: int) -> list[str]:
    """Modes for one prompt of one category, both numbered: A B C, C B A, B C A, A C B, and so on."""
    shift = (category + prompt // 2) % len(modes)
    order = [*modes[shift:], *modes[:shift]]
    return order[::-1] if prompt % 2 else order


def _line(outcome: Outcome, modes: Sequence[str]) -> str:
    parts = []
    for mode in modes:
        answer = outcome.answers[mode]
        mat = (len(answer.tokens) - 1) / answer.steps if answer.steps else 1.0
        mark = " differs" if mode in outcome.differences else ""
        parts.append(f"{mode} {answer.decode_s:.1f} s, MAT {mat:.2f}{mark}")
    return f"{outcome.id} turn {outcome.turn}: {'; '.join(parts)}"
