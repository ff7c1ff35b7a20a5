"""The script behind the table that `auto` ships with: it learns from what it is given, whatever it is recorded of."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from types import ModuleType

from decoder.acceptance import evidence
from decoder.bench.record import Recording


def script() -> ModuleType:
    path = Path(__file__).parents[2] / "benchmarks" / "learn_acceptance.py"
    spec = importlib.util.spec_from_file_location("learn_acceptance", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def recording(name: str, prompt: list[int], answer: list[int]) -> Recording:
    return Recording(name, name, "", 1, prompt, answer, "m", "float32", "stop", 256)


def test_it_learns_from_recordings_of_any_benchmark() -> None:
    source = random.Random(0)
    copied, invented = [], []
    for number in range(6):
        prompt = [source.randrange(5000) for _ in range(150)]
        copied.append(recording(f"set{number % 2}", prompt, prompt[20:120]))
        invented.append(recording(f"set{number % 2}", prompt, [prompt[5], *(source.choice(prompt) for _ in range(80))]))
    cell = evidence(3, 0, 0, 0, 0, 1)
    learn = script().learn
    high, low = learn(copied, 0).probability(cell), learn(invented, 0).probability(cell)
    assert low < 0.35
    assert high > 0.6
    assert learn(invented, 30).probability(cell) > low  # edited copies are mostly copies
