"""`bench decode`: drafters and peers against plain decoding on a model, prompt by prompt in one process.

Every prompt is answered by every mode before the next prompt comes, so that whatever else the machine does falls on
all modes alike and times can be compared as pairs. The order turns from prompt to prompt of a category, and every
second prompt goes through it backwards. The engine's modes share one prefill; peers make their own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from decoder.bench.decode.divergence import control_flips, plain_margins
from decoder.bench.decode.measurement import Measured
from decoder.bench.decode.outcomes import Difference, Outcome, PromptsFile
from decoder.bench.decode.peers import Measures, PeerMode, is_peer
from decoder.bench.decode.rows import PLAIN
from decoder.bench.decode.shared_prefill import SharedPrefill
from decoder.bench.decode.timing import first_difference, measure
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
    """Plain first, then the drafters and peers asked for; each spec is tried."""
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
    peers: Measures | None = None,
) -> list[Outcome]:
    """Answer every turn of every item in every mode; with `control`, ask what numerics alone would change.

    Later turns follow plain decoding's replies in all modes. What `file` holds is not run again; what is new is added
    to it. Items that do not fit the model's window are said and left out.
    """
    done, begun = file.read()
    run = _Run(engine, params, modes, file, control, peers)
    outcomes: list[Outcome] = []
    seen: Counter[tuple[str, str, int]] = Counter()
    for item in items:
        replies: list[str] = []
        for turn in range(1, len(item.turns) + 1):
            group = (item.benchmark, item.category, turn)
            outcome = done.get((item.id, turn))
            if outcome is None:
                prompt_ids = chat.prompt_ids(item, replies)
                try:
                    engine.start(prompt_ids, params, drafter=PLAIN)
                except PromptTooLong as error:
                    say(f"{item.id} turn {turn} left out: {error}")
                    break
                order = _order(modes, list({**seen, group: 0}).index(group), seen[group])
                outcome = run.answer(
                    item, turn, prompt_ids, chat.segments(item, replies), order, begun.get((item.id, turn), {})
                )
                file.close(outcome)
                say(_line(outcome, modes))
            seen[group] += 1
            outcomes.append(outcome)
            replies.append(chat.text(outcome.answers[PLAIN].tokens))
    return outcomes


class _Run:
    """What answering one prompt needs besides the prompt."""

    def __init__(
        self,
        engine: Engine,
        params: SamplingParams,
        modes: Sequence[str],
        file: PromptsFile,
        control: bool,
        peers: Measures | None,
    ) -> None:
        self._engine = engine
        self._params = params
        self._modes = modes
        self._file = file
        self._control = control
        self._peers = peers
        self._needs = _needs(engine, modes)
        self._warm = False

    def answer(
        self,
        item: Item,
        turn: int,
        prompt_ids: list[int],
        segments: Sequence[PromptSegment],
        order: Sequence[str],
        begun: Mapping[str, Measured],
    ) -> Outcome:
        """One prompt in every mode that `begun` does not hold, in this order, and what comparing the answers finds."""
        engine, params = self._engine, self._params
        answers = dict(begun)
        if not self._warm:
            # First passes allocate and compile; nobody's time should hold that.
            few = SamplingParams(max_tokens=WARM_UP_TOKENS, ignore_eos=True)
            for mode in self._modes:
                self._measure(mode, prompt_ids[:WARM_UP_PROMPT], few, None)
            self._warm = True
        shared = None
        for mode in order:
            if mode in answers:
                continue
            if shared is None and not is_peer(mode):
                shared = SharedPrefill(engine.target, prompt_ids, self._needs)
            answers[mode] = self._measure(mode, prompt_ids, params, shared, segments)
            self._file.add_answer(item.id, turn, mode, answers[mode])
        plain = answers[PLAIN].tokens
        left = {mode: first_difference(answer.tokens, plain) for mode, answer in answers.items()}
        flips = control_flips(engine, prompt_ids, plain, params, shared) if self._control else []
        places = {*(index for index in left.values() if index is not None), *flips}
        margins = plain_margins(engine, prompt_ids, plain, places, params, shared)
        at = {index: Difference(index, len(prompt_ids) + index, margin) for index, margin in margins.items()}
        found = {mode: at[index] for mode, index in left.items() if index is not None}
        flipped = [at[index] for index in flips] if self._control else None
        return Outcome(item.id, item.benchmark, item.category, turn, len(prompt_ids), answers, found, flipped)

    def _measure(
        self,
        mode: str,
        prompt_ids: list[int],
        params: SamplingParams,
        shared: SharedPrefill | None,
        segments: Sequence[PromptSegment] = (),
    ) -> Measured:
        if not is_peer(mode):
            return measure(self._engine, prompt_ids, params, mode, shared=shared, segments=segments)
        if self._peers is None:
            raise BenchError(f"{mode!r} is a peer; call compare with peers=")
        return self._peers.measure(mode, prompt_ids, params)


def _needs(engine: Engine, modes: Sequence[str]) -> RequiredOutputs:
    """What the drafters of all modes need together."""
    required_outputs = RequiredOutputs()
    for mode in modes:
        if not is_peer(mode):
            drafter = make_from_spec(split_exact(mode)[0])
            drafter.setup(engine.context)
            required_outputs |= drafter.required_outputs
    return required_outputs


def _order(modes: Sequence[str], group: int, number: int) -> list[str]:
    """Modes for the `number`-th prompt of the `group`-th category: A B C, C B A, B C A, A C B, and so on."""
    by = (group + number // 2) % len(modes)
    order = [*modes[by:], *modes[:by]]
    return order[::-1] if number % 2 else order


def _line(outcome: Outcome, modes: Sequence[str]) -> str:
    parts = []
    for mode in modes:
        answer = outcome.answers[mode]
        mat = (len(answer.tokens) - 1) / answer.steps if answer.steps else 1.0
        mark = " differs" if mode in outcome.differences else ""
        parts.append(f"{mode} {answer.decode_s:.1f} s, MAT {mat:.2f}{mark}")
    return f"{outcome.id} turn {outcome.turn}: {'; '.join(parts)}"
