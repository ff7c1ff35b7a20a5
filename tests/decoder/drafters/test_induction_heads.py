"""Induction heads against a slow, literal reading of the paper's procedure (section 4.2.1); their file."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pytest
import torch

from decoder import Engine, SamplingParams
from decoder.induction_heads import Head, InductionHeads, InductionHeadsError, copied_from, find_heads, load, save
from tests.support.tiny_models import ARCHITECTURES, tiny_model, tiny_target

VOCAB = 31
FOUND = InductionHeads("tiny", 2, 4, 3, 50, (Head(1, 3, 0.5), Head(0, 0, 0.25)))


def prompts() -> list[list[int]]:
    source = random.Random(4)
    made = [[7]]
    for _ in range(5):
        run = [source.randrange(3, VOCAB) for _ in range(5)]
        made.append([*run, *(source.randrange(3, VOCAB) for _ in range(source.randint(5, 40))), *run])
    return made


def naive_source(x: list[int], o: list[int], t: int) -> int | None:
    """r*: of the positions of o_t in x the one with the longest suffix in common with o_1 .. o_t."""
    best: tuple[int, int] | None = None
    for r, token in enumerate(x):
        if token == o[t]:
            overlap = 0
            while overlap <= min(r, t) and x[r - overlap] == o[t - overlap]:
                overlap += 1
            best = max(best or (0, 0), (overlap, r))
    return None if best is None else best[1]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("memory", [1.0, 0.05])
def test_heads_are_counted_as_the_paper_says(architecture: str, memory: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("decoder.model.target.PREFILL_CHUNK", 7)
    engine = Engine(tiny_target(architecture, VOCAB, memory=memory), "plain", [2])
    stock = tiny_model(architecture, VOCAB, memory=memory)
    stock.set_attn_implementation("eager")
    counts: Counter[tuple[int, int]] = Counter()
    tokens = 0
    for x in prompts():
        steps = list(engine.generate(x, SamplingParams(max_tokens=40), drafter="plain"))
        o = [token for step in steps for token in step.tokens]
        if steps[-1].finish_reason == "stop":
            o = o[:-1]
        with torch.no_grad():
            attentions = stock(torch.tensor([x + o]), output_attentions=True).attentions
        for t in range(len(o)):
            r = naive_source(x, o, t)
            if r is None:
                continue
            tokens += 1
            for layer, maps in enumerate(attentions):
                for head in range(4):
                    counts[layer, head] += int(maps[0, head, len(x) + t - 1].argmax()) == r
    assert tokens > 30
    found = find_heads(engine, prompts(), "tiny", max_tokens=40, share=1.0)
    assert (found.prompts, found.tokens, found.layers, found.heads) == (len(prompts()), tokens, 2, 4)
    scored = {(head.layer, head.head): head.score for head in found.ranked}
    assert scored == {pair: round(count / tokens, 4) for pair, count in counts.items() if count}
    assert len(scored) > 3
    scores = [head.score for head in found.ranked]
    assert scores == sorted(scores, reverse=True)
    half = find_heads(engine, prompts(), "tiny", max_tokens=40, share=0.25)
    assert half.ranked == found.ranked[:2]
    assert find_heads(engine, prompts(), "tiny", max_tokens=40).ranked == found.ranked[:1]  # 5 % of 8, at least one


def test_the_longest_run_says_where_a_token_comes_from() -> None:
    prompt = [5, 1, 2, 3, 9, 1, 2, 4, 1]
    assert copied_from(prompt, [9, 1, 2, 4, 8, 1, 2, 3]) == [4, 5, 6, 7, None, 8, 6, 3]
    assert copied_from(prompt, [6]) == [None]
    for seed in range(20):
        source = random.Random(seed)
        x, o = ([source.randrange(4) for _ in range(30)] for _ in range(2))
        assert copied_from(x, o) == [naive_source(x, o, t) for t in range(30)]


def test_a_model_that_copies_nothing_is_told_so() -> None:
    engine = Engine(tiny_target(vocab_size=VOCAB), "plain")
    bias = [[token] for token in range(3, 6)]
    with pytest.raises(InductionHeadsError, match="no head attended"):
        find_heads(engine, [], "tiny")
    with pytest.raises(InductionHeadsError, match="give prompts whose answers repeat them"):
        find_heads(engine, bias, "tiny", max_tokens=1)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "new" / "heads.json"
    save(FOUND, path)
    target = tiny_target()
    assert load(path, target) == load(path, target, "tiny") == FOUND
    assert FOUND.pairs == ((1, 3), (0, 0))
    assert [entry.name for entry in path.parent.iterdir()] == ["heads.json"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layers": 3}, "a model of 3 layers with 4 heads and this one has 2 with 4"),
        ({"heads": 8}, "a model of 2 layers with 8 heads"),
        ({"model": "other"}, "is for the model other, not tiny"),
        (
            {"found": [{"layer": 2, "head": 0, "score": 1.0}]},
            "names a head that its model does not have; .*rag models heads tiny",
        ),
        ({"found": [{"layer": 1}]}, "has no induction heads"),
        ({"found": None}, "has no induction heads"),
        ({"extra": 1}, "has no induction heads"),
    ],
)
def test_a_file_that_does_not_fit_says_what_to_do(tmp_path: Path, change: dict[str, object], says: str) -> None:
    path = tmp_path / "heads.json"
    save(FOUND, path)
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InductionHeadsError, match=says):
        load(path, tiny_target(), "tiny")


@pytest.mark.parametrize("text", ["", "[]", "{", "null", "\ud800"])
def test_a_damaged_file_says_so(tmp_path: Path, text: str) -> None:
    path = tmp_path / "heads.json"
    path.write_bytes(text.encode("utf-8", "surrogatepass"))
    with pytest.raises(InductionHeadsError, match="has no induction heads"):
        load(path, tiny_target())
    with pytest.raises(InductionHeadsError, match="there is no file"):
        load(tmp_path / "nothing.json", tiny_target())
