"""Training of SDSAT adapters: batches in a fixed order, steps, checkpoints that resume exactly, a learning curve.

A step depends only on its number and the seed, so a stopped and resumed run ends with the same weights as an
uninterrupted one. With --minutes the learning rate follows the clock, and no two runs are equal.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from decoder.model.adapters import CONDITIONER, LINEARS, MASKS, Adapters
from decoder.model.target import TargetModel
from decoder.recording.prompts import BenchError
from decoder.training.answers import Answer, frequent_tokens, split
from decoder.training.checkpoint import CHECKPOINT, append_to_curve, load_checkpoint, save_checkpoint
from decoder.training.eagle.features import FeatureStore, shards_of
from decoder.training.muon import Muon
from decoder.training.sdsat.mask_pass import Points, Predictions, Vocabulary, predict
from decoder.training.sdsat.pretraining import pretrain

START_RATE = 1e-4
"""Learning rate of the conditioner's pretraining; a pretrained conditioner keeps it."""
WARM_UP = 20
"""Steps in which the learning rate rises."""
FALLING, LOWEST = 0.4, 0.05
"""Last share of the training, in which the learning rate falls, and its lowest share of the peak."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The settings of a run. A resumed run must share all of them but its length.

    Attributes:
        masks, rank, linears, coupler, tokens: the adapters' sizes, see `Adapters.fresh`; tokens 0 for all.
        batch: answers per step.
        points: most accept points per answer.
        lr: peak learning rate.
        optimizer: "adamw" or "muon" (for matrices; AdamW trains the masks).
        start: points of the conditioner's pretraining (`pretraining.py`); 0 for none.
        shards: shards of answers for the pretraining.
        steps, minutes: length, resumed parts included; one of them is given. The pretraining comes on top.
        held_out: most held-out answers to evaluate.
        save_minutes: time between checkpoints.
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
    held_out: int = 40
    save_minutes: float = 5.0

    @property
    def fixed(self) -> dict[str, Any]:
        """The settings that a resumed run must share, as a checkpoint stores them."""
        lengths = {"steps", "minutes", "held_out", "save_minutes"}
        return {name: list(v) if isinstance(v, tuple) else v for name, v in asdict(self).items() if name not in lengths}

    def done(self, step: int, seconds: float) -> float:
        """Completed share of the training."""
        if self.steps is not None:
            return step / self.steps
        return seconds / (60.0 * (self.minutes or 1.0))

    def rate(self, step: int, done: float) -> float:
        """Learning rate of a step."""
        falling = min(1.0, max((1.0 - done) / FALLING, LOWEST))
        return self.lr * min(1.0, (step + 1) / WARM_UP) * falling


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Scores of the masks on held-out answers, with a chain of best tokens after every point.

    Attributes:
        points: number of points.
        top1: by mask, the share of right tokens given the answer's tokens before them.
        accepted: by mask, the share of chains that are right up to and including it.
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
        """Tokens per target pass with chains: with masks after every accept point, and in two steps."""
        longest = sum(self.accepted)
        return {"one_pass": 1.0 + longest, "two_step": (2.0 + longest) / 2.0}


class Trainer:
    """Trains adapters on one target.

    Args:
        answers: split here into those to learn from and held-out ones.
        folder: for checkpoints and the learning curve.
    """

    def __init__(self, target: TargetModel, answers: Sequence[Answer], plan: Plan, folder: Path) -> None:
        self.target = target
        self.plan = plan
        self.folder = folder
        self.train_set, held_out = split(answers)
        # Answers without a point are left out.
        self.answers, held_out = (
            [answer for answer in part if len(answer) - answer.prompt > 2] for part in (self.train_set, held_out)
        )
        if not self.answers or not held_out:
            raise BenchError("the data holds too few answers to train on; record more with `rag train distil`")
        self.held_out = [Points.of(answer, plan.points) for answer in held_out[: plan.held_out]]
        tokens = frequent_tokens(self.answers, target.vocab_size, plan.tokens)
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

    def pretrain(self, store: FeatureStore, say: Callable[[str], None]) -> None:
        """Pretrain the conditioner, if the plan says so."""
        plan = self.plan
        if not plan.start or self.adapters.conditioner is None:
            return
        vocabulary = self.vocabulary or Vocabulary(self.target, torch.arange(self.target.vocab_size))
        shards = shards_of(self.train_set, plan.seed)[: plan.shards]
        pretrain(self.target, self.adapters, vocabulary, store, shards, plan.start, START_RATE, plan.seed, say)

    def train(self, say: Callable[[str], None], stop_after: int | None = None) -> Evaluation:
        """Train to the plan's end, or for `stop_after` steps; returns the last evaluation.

        A signal to stop takes effect after the step: a checkpoint is written and KeyboardInterrupt raised.
        """
        first = self.step
        with _stoppable() as signals:
            latest = self._report(say)
            saved = reported = time.perf_counter()
            recent: list[Predictions] = []
            while (done := self.plan.done(self.step, self.seconds)) < 1.0:
                if self.step - first == stop_after or signals:
                    break
                started = time.perf_counter()
                recent.append(self._step(self.plan.rate(self.step, done)))
                now = time.perf_counter()
                self.seconds += now - started
                if now - reported > 10.0:
                    say(self._progress(recent, now - reported))
                    reported, recent = now, []
                if now - saved > 60.0 * self.plan.save_minutes:
                    latest = self._report(say)
                    self.save()
                    saved = reported = time.perf_counter()
            self.save()
            if signals:
                raise KeyboardInterrupt
            return self._report(say) if self.step != first else latest

    def save(self) -> None:
        """Write the checkpoint."""
        state = {
            "plan": self.plan.fixed,
            "weights": {name: weight.detach() for name, weight in self.adapters.weights().items()},
            "optimizers": [optimizer.state_dict() for optimizer in self.optimizers],
            "step": self.step,
            "seconds": self.seconds,
            "rows": self.rows,
        }
        save_checkpoint(self.folder, state)

    def resume(self) -> None:
        """Continue from the folder's checkpoint. Raises BenchError if there is none, or one of another plan."""
        path = self.folder / CHECKPOINT
        state = load_checkpoint(self.folder)
        if state is None:
            raise BenchError(f"there is no {path} to go on from; leave --resume out")
        plan = self.plan.fixed
        if differing := sorted(name for name in plan if plan[name] != state["plan"].get(name)):
            values = ", ".join(f"{name} {state['plan'].get(name)}" for name in differing)
            raise BenchError(f"{path} was trained with {values}; resume with the same options")
        with torch.no_grad():
            for name, weight in self.adapters.weights().items():
                weight.copy_(state["weights"][name])
        for optimizer, optimizer_state in zip(self.optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(optimizer_state)
        self.step, self.seconds, self.rows = state["step"], state["seconds"], state["rows"]

    def evaluate(self) -> Evaluation:
        """Score the held-out answers."""
        loss, right, known = 0.0, [], []
        with torch.no_grad():
            for start in range(0, len(self.held_out), self.plan.batch):
                part = self.held_out[start : start + self.plan.batch]
                predictions = predict(self.target, self.adapters, part, self.vocabulary)
                loss += float(predictions.loss) * len(part)
                right.append(predictions.right)
                known.append(predictions.known)
        hits, labelled = np.concatenate(right), np.concatenate(known)
        prefix_hits = np.logical_and.accumulate(hits, axis=1)
        total = np.maximum(labelled.sum(0), 1)
        top1, accepted = ((part.sum(0) / total).tolist() for part in (hits, prefix_hits))
        return Evaluation(len(labelled), top1, accepted, loss / len(self.held_out))

    def _step(self, rate: float) -> Predictions:
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
            for group in optimizer.param_groups:
                group["lr"] = rate * group.get("scale", 1.0)
        predictions = predict(self.target, self.adapters, self._batch(), self.vocabulary)
        predictions.loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(list(self.adapters.weights().values()), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.step += 1
        self.rows += predictions.right.size
        return Predictions(predictions.loss.detach(), predictions.right, predictions.known)

    def _batch(self) -> list[Points]:
        """This step's answers, in an order drawn anew for every epoch, and points of each."""
        size = len(self.answers)
        chosen = []
        for number in range(self.step * self.plan.batch, (self.step + 1) * self.plan.batch):
            order = np.random.default_rng((self.plan.seed, number // size)).permutation(size)
            chosen.append(self.answers[order[number % size]])
        source = np.random.default_rng((self.plan.seed, 1, self.step))
        return [Points.of(answer, self.plan.points, source) for answer in chosen]

    def _progress(self, recent: Sequence[Predictions], seconds: float) -> str:
        loss = sum(float(step.loss) for step in recent) / len(recent)
        right, known = sum(step.right.sum(0) for step in recent), sum(step.known.sum(0) for step in recent)
        top1 = " ".join(f"{share:.3f}" for share in right / np.maximum(known, 1))
        rows = sum(step.right.size for step in recent)
        done = self.plan.done(self.step, self.seconds)
        remaining = self.seconds * (1.0 - done) / max(done, 1e-9)
        return (
            f"step {self.step} ({done:.0%}, {remaining / 60:.0f} min left): loss {loss:.3f}, right by mask {top1}, "
            f"{rows / seconds:.0f} mask positions/s"
        )

    def _report(self, say: Callable[[str], None]) -> Evaluation:
        """Evaluate, and add a line to the learning curve."""
        evaluation = self.evaluate()
        line = {
            "step": self.step,
            "seconds": round(self.seconds, 1),
            "mask_positions": self.rows,
            **asdict(evaluation),
            "accept_rate": evaluation.accept_rate,
            "mat": evaluation.mat,
        }
        append_to_curve(self.folder, line)
        shares = " ".join(f"{share:.3f}" for share in evaluation.accepted)
        mat = evaluation.mat
        say(
            f"step {self.step}, held out: loss {evaluation.loss:.3f}, accepted by mask {shares}, "
            f"tokens a pass {mat['one_pass']:.2f} in one pass, {mat['two_step']:.2f} in two steps"
        )
        return evaluation


def _optimizers(adapters: Adapters, plan: Plan) -> list[torch.optim.Optimizer]:
    """A pretrained conditioner keeps the learning rate of its pretraining."""
    weights = adapters.weights()
    conditioner = [weights.pop(name) for name in list(weights) if name.startswith(CONDITIONER)]
    slow = {"params": conditioner, "scale": START_RATE / plan.lr if plan.start else 1.0}
    masks = [] if plan.optimizer == "adamw" else [weights.pop(MASKS)]
    groups = [group for group in ({"params": list(weights.values())}, slow) if group["params"]]
    if plan.optimizer == "muon":
        return [Muon(groups, lr=plan.lr), torch.optim.AdamW(masks, lr=plan.lr, betas=(0.9, 0.95))]
    return [torch.optim.AdamW(groups, lr=plan.lr, betas=(0.9, 0.95), weight_decay=0.01)]


@contextmanager
def _stoppable() -> Iterator[list[int]]:
    """Collect signals to stop, so that no step is interrupted; a second signal raises KeyboardInterrupt at once."""
    received: list[int] = []

    def note(number: int, _frame: Any) -> None:
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt

    try:
        earlier = {number: signal.signal(number, note) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:  # not in the main thread
        earlier = {}
    try:
        yield received
    finally:
        for number, handler in earlier.items():
            signal.signal(number, handler)
