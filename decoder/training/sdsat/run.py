"""Training of SDSAT adapters: batches in a fixed order, steps, checkpoints that resume exactly, a learning curve.

Everything that a step does follows from its number and the seed, so a run that was stopped and resumed ends with the
same weights as one that was not; with --minutes the learning rate follows the clock, which is not the same twice.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decoder.model.adapters import COUPLER, LINEARS, MASKS, Adapters
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.training.answers import Answer, counts, split
from decoder.training.eagle.features import FeatureStore, shards_of
from decoder.training.muon import Muon
from decoder.training.sdsat import start as sdsat_start
from decoder.training.sdsat.mask_pass import Outcome, Points, Vocabulary, outcome

CHECKPOINT, CURVE = "checkpoint.pt", "learning_curve.jsonl"
START_RATE = 1e-4
"""Learning rate of a coupler that learns alone first."""
WARM_UP = 20
"""Steps in which the learning rate rises."""
FALLING, LOWEST = 0.4, 0.05
"""Last part of the training in which it falls, and to what part of its height."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does; all of it but the length is the same when it is resumed.

    Attributes:
        masks, rank, linears, coupler, tokens: the adapters' sizes, see `Adapters.fresh`; tokens 0 for all.
        batch: answers a step.
        points: accept points of each, at most.
        lr: learning rate at its height.
        optimizer: "adamw" or "muon" (for matrices; masks stay with AdamW).
        start: points that the coupler alone learns from first (`sdsat_start.py`); 0 for none.
        shards: of the answers, for that.
        steps, minutes: how long, all runs together; whichever is given. The start comes on top.
        aside: held-aside answers that are evaluated, at most.
        save_minutes: between checkpoints.
    """

    masks: int = 4
    rank: int = 16
    linears: tuple[str, ...] = LINEARS
    coupler: int = 256
    tokens: int = 16384
    batch: int = 4
    points: int = 96
    lr: float = 2e-3
    optimizer: str = "adamw"
    seed: int = 0
    start: int = 0
    shards: int = 8
    steps: int | None = None
    minutes: float | None = None
    aside: int = 40
    save_minutes: float = 5.0

    @property
    def fixed(self) -> dict[str, Any]:
        """What a resumed run must share."""
        lengths = {"steps", "minutes", "aside", "save_minutes"}
        return {name: value for name, value in asdict(self).items() if name not in lengths}

    def done(self, step: int, seconds: float) -> float:
        """Share of the training that is through."""
        if self.steps is not None:
            return step / self.steps
        return seconds / (60.0 * (self.minutes or 1.0))

    def rate(self, step: int, done: float) -> float:
        """Learning rate of a step."""
        falling = min(1.0, max((1.0 - done) / FALLING, LOWEST))
        return self.lr * min(1.0, (step + 1) / WARM_UP) * falling


@dataclass(frozen=True, slots=True)
class Evaluation:
    """How masks do on held-aside answers, drafting chains of best tokens behind every point that was looked at.

    Attributes:
        points: how many.
        top1: by mask, share of right tokens where the tokens before it are the answer's.
        accepted: by mask, share of chains that are right up to and including it.
        loss: as in training.
    """

    points: int
    top1: list[float]
    accepted: list[float]
    loss: float

    @property
    def accept_rate(self) -> list[float]:
        """The paper's: accepted tokens over adaptive tokens, for k = 1, 2, ..."""
        return [sum(self.accepted[: k + 1]) / (k + 1) for k in range(len(self.accepted))]

    @property
    def mat(self) -> dict[str, float]:
        """Tokens a target pass with chains: one pass that has masks behind every accept point, and two steps."""
        longest = sum(self.accepted)
        return {"one_pass": 1.0 + longest, "two_step": (2.0 + longest) / 2.0}


class Trainer:
    """Adapters being trained on one target.

    Args:
        answers: split here into those to learn from and those held aside.
        folder: for checkpoints and the learning curve.
    """

    def __init__(self, target: TargetModel, answers: Sequence[Answer], plan: Plan, folder: Path) -> None:
        self.target = target
        self.plan = plan
        self.folder = folder
        self.learned, aside = split(answers)
        self.answers, aside = ([answer for answer in part if _tells(answer)] for part in (self.learned, aside))
        if not self.answers or not aside:
            raise BenchError("the data holds too few answers to train on; record more with `rag train distil`")
        self.aside = [Points.of(answer, plan.points) for answer in aside[: plan.aside]]
        tokens = None
        if plan.tokens:
            often = np.argsort(-counts(self.answers, target.vocab_size), kind="stable")[: plan.tokens]
            tokens = torch.from_numpy(np.sort(often))
        self.adapters = Adapters.fresh(
            target.model, plan.masks, plan.rank, plan.linears, plan.coupler, plan.seed, tokens
        )
        self.vocabulary = None if self.adapters.tokens is None else Vocabulary(target, self.adapters.tokens)
        for weight in self.adapters.weights().values():
            weight.requires_grad_(True)
        self.optimizers = _optimizers(self.adapters, plan)
        self.step = 0
        self.seconds = 0.0
        self.rows = 0

    def start(self, store: FeatureStore, say: Callable[[str], None]) -> None:
        """Let the coupler learn alone, where the plan says so."""
        if not self.plan.start or self.adapters.coupler is None:
            return
        vocabulary = self.vocabulary or Vocabulary(self.target, torch.arange(self.target.vocab_size))
        shards = shards_of(self.learned, self.plan.seed)[: self.plan.shards]
        plan = self.plan
        sdsat_start.train(self.target, self.adapters, vocabulary, store, shards, plan.start, START_RATE, plan.seed, say)

    def train(self, say: Callable[[str], None], stop_after: int | None = None) -> Evaluation:
        """Train to the plan's end, or for `stop_after` steps; returns the last evaluation.

        A signal to stop is obeyed behind the step: a checkpoint is written and KeyboardInterrupt raised.
        """
        first = self.step
        with _stoppable() as stopped:
            latest = self._report(say)
            saved = said = time.perf_counter()
            lately: list[Outcome] = []
            while (done := self.plan.done(self.step, self.seconds)) < 1.0:
                if self.step - first == stop_after or stopped:
                    break
                started = time.perf_counter()
                lately.append(self._step(self.plan.rate(self.step, done)))
                now = time.perf_counter()
                self.seconds += now - started
                if now - said > 10.0:
                    say(self._progress(lately, now - said))
                    said, lately = now, []
                if now - saved > 60.0 * self.plan.save_minutes:
                    latest = self._report(say)
                    self.save()
                    saved = said = time.perf_counter()
            self.save()
            if stopped:
                raise KeyboardInterrupt
            return self._report(say) if self.step != first else latest

    def save(self) -> None:
        """Write the checkpoint, all or nothing."""
        self.folder.mkdir(parents=True, exist_ok=True)
        temporary = self.folder / f".{CHECKPOINT}"
        state = {
            "plan": {name: list(v) if isinstance(v, tuple) else v for name, v in self.plan.fixed.items()},
            "weights": {name: weight.detach() for name, weight in self.adapters.weights().items()},
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "seconds": self.seconds,
            "rows": self.rows,
        }
        torch.save(state, temporary)
        temporary.replace(self.folder / CHECKPOINT)

    def resume(self) -> None:
        """Go on from the checkpoint in the folder. Raises BenchError where there is none, or one of another plan."""
        path = self.folder / CHECKPOINT
        if not path.is_file():
            raise BenchError(f"there is no {path} to go on from; leave --resume out")
        state = torch.load(path, map_location="cpu", weights_only=True)
        mine = {name: list(v) if isinstance(v, tuple) else v for name, v in self.plan.fixed.items()}
        if other := sorted(name for name in mine if mine[name] != state["plan"].get(name)):
            known = ", ".join(f"{name} {state['plan'].get(name)}" for name in other)
            raise BenchError(f"{path} was trained with {known}; resume with the same options")
        with torch.no_grad():
            for name, weight in self.adapters.weights().items():
                weight.copy_(state["weights"][name])
        for optimizer, saved in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)
        self.step, self.seconds, self.rows = state["step"], state["seconds"], state["rows"]

    def evaluate(self) -> Evaluation:
        """Over the held-aside answers."""
        loss, right, known = 0.0, [], []
        with torch.no_grad():
            for start in range(0, len(self.aside), self.plan.batch):
                part = self.aside[start : start + self.plan.batch]
                made = outcome(self.target, self.adapters, part, self.vocabulary)
                loss += float(made.loss) * len(part)
                right.append(made.right)
                known.append(made.known)
        hits, there = np.concatenate(right), np.concatenate(known)
        so_far = np.logical_and.accumulate(hits, axis=1)
        total = np.maximum(there.sum(0), 1)
        return Evaluation(
            len(there), (hits.sum(0) / total).tolist(), (so_far.sum(0) / total).tolist(), loss / len(self.aside)
        )

    def _step(self, rate: float) -> Outcome:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("scale", 1.0)
        made = outcome(self.target, self.adapters, self._batch(), self.vocabulary)
        made.loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(self.adapters.weights().values()), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.rows += made.right.size
        return Outcome(made.loss.detach(), made.right, made.known)

    def _batch(self) -> list[Points]:
        """The answers of this step, in an order drawn anew for every round through them, and points of each."""
        size = len(self.answers)
        chosen = []
        for place in range(self.step * self.plan.batch, (self.step + 1) * self.plan.batch):
            order = np.random.default_rng((self.plan.seed, place // size)).permutation(size)
            chosen.append(self.answers[order[place % size]])
        source = np.random.default_rng((self.plan.seed, 1, self.step))
        return [Points.of(answer, self.plan.points, source) for answer in chosen]

    def _progress(self, lately: Sequence[Outcome], seconds: float) -> str:
        loss = sum(float(made.loss) for made in lately) / len(lately)
        right, known = sum(made.right.sum(0) for made in lately), sum(made.known.sum(0) for made in lately)
        top1 = " ".join(f"{share:.3f}" for share in right / np.maximum(known, 1))
        rows = sum(made.right.size for made in lately)
        done = self.plan.done(self.step, self.seconds)
        left = self.seconds * (1.0 - done) / max(done, 1e-9)
        return (
            f"step {self.step} ({done:.0%}, {left / 60:.0f} min left): loss {loss:.3f}, right by mask {top1}, "
            f"{rows / seconds:.0f} mask positions/s"
        )

    def _report(self, say: Callable[[str], None]) -> Evaluation:
        """Evaluate, and add a line to the learning curve."""
        made = self.evaluate()
        line = {
            "step": self.step,
            "seconds": round(self.seconds, 1),
            "mask_positions": self.rows,
            **asdict(made),
            "accept_rate": made.accept_rate,
            "mat": made.mat,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / CURVE).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        shares = " ".join(f"{share:.3f}" for share in made.accepted)
        say(
            f"step {self.step}, held aside: loss {made.loss:.3f}, accepted by mask {shares}, "
            f"tokens a pass {made.mat['one_pass']:.2f} in one pass, {made.mat['two_step']:.2f} in two steps"
        )
        return made


def _tells(answer: Answer) -> bool:
    """Whether it has a point."""
    return len(answer) - answer.prompt > 2


def _optimizers(adapters: Adapters, plan: Plan) -> list[torch.optim.Optimizer]:
    """What learned alone before goes on as slowly as it did there."""
    weights = adapters.weights()
    coupler = [weights.pop(name) for name in list(weights) if name.startswith(COUPLER)]
    slow = {"params": coupler, "scale": START_RATE / plan.lr if plan.start else 1.0}
    masks = [] if plan.optimizer == "adamw" else [weights.pop(MASKS)]
    groups = [group for group in ({"params": list(weights.values())}, slow) if group["params"]]
    if plan.optimizer == "muon":
        return [Muon(groups, lr=plan.lr), torch.optim.AdamW(masks, lr=plan.lr, betas=(0.9, 0.95))]
    return [torch.optim.AdamW(groups, lr=plan.lr, betas=(0.9, 0.95), weight_decay=0.01)]


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Collect signals to stop, so that a step is never cut in two; a second one is obeyed at once."""
    received: list[int] = []

    def note(number: int, _frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    try:
        before = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        before = {}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
