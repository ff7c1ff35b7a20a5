"""Fidelity: each drafter drafts and gets accepted exactly what a slow, plain reading of its paper does.

The readings work on Python lists and search the whole text at every step. A reading returns the tree as its prefixes:
every node is the tuple of tokens on the way to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from decoder import Engine, SamplingParams
from decoder import Generation as Answer
from decoder.drafters import make_drafter
from decoder.drafters.base import Drafter
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree
from decoder.model.forward_outputs import ForwardOutputs
from tests.support.tiny_models import tiny_target

Path = tuple[int, ...]
VOCAB = 200
BUDGET = 64


# -- the papers, read plainly ---------------------------------------------------------------------------------------


def pld(text: list[int], logits: list[float]) -> list[Path]:
    """Prompt lookup, as transformers ships it: 3-gram, 2-gram, 1-gram; the earliest occurrence; 10 tokens."""
    for n in (3, 2, 1):
        for start in range(len(text) - n):  # the text's own last n-gram is the one it must not find
            if text[start : start + n] == text[-n:]:
                return prefixes(text[start + n : start + n + 10])
    return []


def copyspec(text: list[int], logits: list[float]) -> list[Path]:
    """Appendix B.3, step 1, with its positions (from 1): the first p with p + gamma - 1 < t - gamma + 1."""
    t, gamma, m = len(text), 3, 10
    for p in range(1, t + 1):
        if p + gamma - 1 < t - gamma + 1 and text[p - 1 : p - 1 + gamma] == text[t - gamma :]:
            return prefixes(text[p + gamma - 1 : p + gamma - 1 + m])
    return []


def casd(text: list[int], logits: list[float]) -> list[Path]:
    """Section 3: match the last tokens with any part of the text, keep the top 2 by length, add their continuations."""
    found = []
    for end in range(1, len(text)):
        length = 0
        while length < min(10, end) and text[end - 1 - length] == text[len(text) - 1 - length]:
            length += 1
        if length:
            found.append((length, end))
    found.sort(reverse=True)  # longest first, equal lengths latest first
    tree: list[Path] = []
    for _, end in found[:2]:
        tree += [path for path in prefixes(text[end : end + 10]) if path not in tree]
    return tree


def logitspec(text: list[int], logits: list[float]) -> list[Path]:
    """Section 4.2: the text ends with the next token, `logits` chose it.

    From the authors' code, where the paper is silent: 20 tokens are retrieved, at the latest place that has them all;
    a guess counts among the tokens it keeps; the next token, the root, counts in the capacity of 64.
    """

    def retrieve(query: list[int]) -> list[int]:
        for n in (3, 2, 1):
            if len(query) >= n:
                ends = [end for end in range(n, len(text)) if text[end - n : end] == query[-n:]]
                whole = [end for end in ends if end + 20 <= len(text)]
                if ends:
                    end = max(whole) if whole else min(ends)
                    return text[end : end + 20]
        return []

    tree: list[Path] = []

    def add(sequence: list[int]) -> None:
        for path in prefixes(sequence):
            if path not in tree and len(tree) < 63:
                tree.append(path)

    add(retrieve(text))
    best = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:64]
    guesses = [token for token in best if token != text[-1]]
    for rank, guess in enumerate(guesses):
        if len(tree) >= 63:
            break
        keep = 4 if rank < 8 else 3 if rank < 32 else 1
        add([guess, *retrieve([*text, guess])][:keep])
    return tree


def prefixes(tokens: list[int]) -> list[Path]:
    return [tuple(tokens[:size]) for size in range(1, len(tokens) + 1)]


READINGS: dict[str, Callable[[list[int], list[float]], list[Path]]] = {
    "pld": pld,
    "copyspec": copyspec,
    "casd": casd,
    "logitspec": logitspec,
}


# -- recorded tokens ------------------------------------------------------------------------------------------------


def recorded() -> dict[str, tuple[list[int], list[int]]]:
    """name -> (prompt, answer)."""
    source = random.Random(7)

    def noise(size: int, vocabulary: int) -> list[int]:
        return [source.randrange(vocabulary) for _ in range(size)]

    def edited(text: list[int], vocabulary: int) -> list[int]:
        """The text with tokens replaced, dropped and inserted here and there, as an edited document is."""
        out: list[int] = []
        for token in text:
            what = source.random()
            out += noise(1, vocabulary) if what < 0.05 else [] if what < 0.1 else [token]
            out += noise(1, vocabulary) if what > 0.95 else []
        return out

    document = noise(150, 60)
    made = {
        f"random {vocabulary}, prompt of {size}": (noise(size, vocabulary), noise(80, vocabulary))
        for vocabulary in (2, 4, 12, VOCAB)
        for size in (1, 3, 90)
    }
    made["one token over and over"] = ([5], [5] * 70)
    made["a period of two"] = ([8, 9], [8, 9] * 40)
    made["a period of seven, broken off"] = (noise(7, 9), [*range(7)] * 6 + noise(9, 9) + [*range(7)] * 6)
    made["a document and its copy"] = (document, document[10:120])
    made["a document and its edit"] = (document, edited(document, 60))
    made["an edit that is edited again"] = (document[:60], edited(document[:60], 60) + edited(document[:60], 60))
    return made


class Spy(Drafter):
    """Passes everything on and keeps each step's text, logits, tree and accepted count."""

    name = "spy"

    def __init__(self, drafter: Drafter) -> None:
        self.drafter = drafter
        self.steps: list[tuple[list[int], list[float], set[Path]]] = []
        self.accepted: list[int] = []
        self._logits: list[float] = []

    def setup(self, context: Any) -> None:
        self.drafter.setup(context)
        self.required_outputs = self.drafter.required_outputs

    def draft(self, sequence: Answer, budget: int) -> DraftTree:
        tree = self.drafter.draft(sequence, budget)
        self.steps.append((sequence.prompt + sequence.tokens, self._logits, set(paths(tree))))
        return tree

    def observe(self, sequence: Answer, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        if sequence.stats.steps > len(self.accepted):
            self.accepted.append(len(accepted.path))
        self._logits = outputs.logits[-1].tolist()
        self.drafter.observe(sequence, tree, accepted, outputs)


def paths(tree: DraftTree) -> list[Path]:
    made: list[Path] = []
    for token, parent in zip(tree.tokens, tree.parents, strict=True):
        made.append((*(made[parent] if parent != ROOT else ()), token))
    return made


def accepts(tree: Sequence[Path] | set[Path], ahead: list[int]) -> int:
    """How many tokens to come lie in the tree, one below the other; the last one to come is the target's own."""
    count = 0
    while count < len(ahead) - 1 and tuple(ahead[: count + 1]) in tree:
        count += 1
    return count


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("text", recorded())
def test_trees_and_accepted_counts_on_recorded_tokens(name: str, text: str) -> None:
    prompt, output = recorded()[text]
    generator = torch.Generator().manual_seed(len(prompt))
    # Far from its limit, so that no draft is cut because the answer ends: the papers do not cut there.
    answer = Answer(prompt, SamplingParams(max_tokens=len(output) + BUDGET), (), make_drafter(name), None, frozenset())
    tokens, done = output[:1], 0
    accepted: list[int] = []
    expected: list[int] = []
    while True:
        logits = torch.randn(1, VOCAB, generator=generator, dtype=torch.float64)
        answer.extend(tokens)
        done += len(tokens)
        answer.drafter.observe(answer, DraftTree(), Accepted(tokens, [], []), ForwardOutputs(logits))
        if done >= len(output):
            break
        ahead = output[done:]
        got = paths(answer.drafter.draft(answer, BUDGET))
        want = READINGS[name](prompt + output[:done], logits[0].tolist())
        assert len(set(got)) == len(got)
        assert set(got) == set(want), f"after {done} tokens"
        accepted.append(accepts(got, ahead))
        expected.append(accepts(want, ahead))
        tokens = ahead[: accepted[-1] + 1]
    assert accepted == expected
    if text == "a document and its copy":
        assert len(output) / len(accepted) > 6, "a reading that finds no copies would agree with anything"


@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("memory", [0.01, 0.3])
@pytest.mark.parametrize("name", READINGS)
def test_trees_and_accepted_counts_while_decoding(name: str, memory: float, temperature: float) -> None:
    engine = Engine(tiny_target("llama", VOCAB, memory=memory), "plain")
    source = random.Random(3)
    prompt = [source.randrange(VOCAB) for _ in range(30)] * 2
    params = SamplingParams(max_tokens=60, temperature=temperature, seed=5)
    plain = engine.start(prompt, params)
    spy = Spy(make_drafter(name))
    answer = engine.start(prompt, params, drafter=spy)
    for sequence in (plain, answer):
        engine.prefill(sequence)
        while not sequence.finished:
            engine.step([sequence])
    assert answer.tokens == plain.tokens
    assert spy.steps
    deep = 0
    for step, (text, logits, got) in enumerate(spy.steps):
        ahead = plain.tokens[len(text) - len(prompt) :]
        if len(ahead) > BUDGET // 2:  # nearer to the end drafts are cut to what can still be used
            assert got == set(READINGS[name](text, logits)), f"step {step}"
            deep += 1
        assert spy.accepted[step] == accepts(READINGS[name](text, logits), ahead)
    assert deep >= 1
