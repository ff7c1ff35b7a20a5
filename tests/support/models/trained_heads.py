"""Answers and heads of tiny models, for tests."""

from __future__ import annotations

import argparse
import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from decoder.engine import Engine
from decoder.heads import checkpoint
from decoder.heads.head import FittedHead
from decoder.model.target import TargetModel
from decoder.sampling.params import SamplingParams
from decoder.training.answers import Answer
from decoder.training.eagle.run import run


def tiny_answers(target: TargetModel, count: int = 80, tokens: int = 24, seed: int = 0) -> list[Answer]:
    """A target's greedy answers to random prompts of 1 to 12 tokens."""
    source, engine = random.Random(seed), Engine(target, "plain")
    answers = []
    for _ in range(count):
        prompt = [source.randrange(3, target.vocab_size) for _ in range(source.randint(1, 12))]
        steps = list(engine.generate(prompt, SamplingParams(max_tokens=tokens)))
        answer = [token for step in steps for token in step.tokens]
        answers.append(Answer(np.array(prompt + answer, np.int32), len(prompt)))
    return [answer for answer in answers if len(answer) - answer.prompt > 1]


def tiny_options(out: Path, **changed: Any) -> argparse.Namespace:
    """Options of a short run."""
    options: dict[str, Any] = {
        **{"out": out, "batch": 256, "resume": False, "seed": 0, "vocab": 0, "levels": (1, 3), "lr": 5e-3},
        **{"longest": 100, "data": [], "model": "tiny", "cache_gb": 1.0, "save_minutes": 100.0, "minutes": None},
        **{"steps": 60, "about_data": "", "device": "cpu", "optimizer": "adamw", "sampled": None},
    }
    return argparse.Namespace(**{**options, **changed})


def trained_eagle(target: TargetModel, steps: int = 30) -> FittedHead:
    """A head that learned a little of a tiny target."""
    with tempfile.TemporaryDirectory() as folder:
        run(target, "tiny", tiny_answers(target), tiny_options(Path(folder), steps=steps), lambda line: None)
        return FittedHead(checkpoint.load(Path(folder)), target)
