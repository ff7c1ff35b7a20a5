"""The fp32 rule on SmolLM2-135M: identical to plain, or the first difference lies where plain's margin is <= 1e-3.

Each such case is listed; at most one per 10,000 tokens is allowed. transformers' own `generate` is the judge of plain.
"""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest
import torch

from decoder import Engine, SamplingParams, Sequence, load_engine
from decoder.drafters.base import Drafter
from decoder.drafters.pld import PldDrafter
from tests.support.tiny_models import AdversarialDrafter, RandomDrafter

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

MODEL = "smollm2-135m"
MAX_TOKENS = 80
MARGIN = 1e-3

PASSAGES = (
    "The Harbour Library opens at nine on weekdays and at eleven on Sundays. Members may borrow twelve books for four "
    "weeks. A late book costs ten cents a day, never more than five euros. The reading room on the second floor keeps "
    "newspapers from 1890 onwards; ask the librarian for the key to cabinet C.",
    "def total(prices, rate):\n    result = 0\n    for price in prices:\n        result += price * (1 + rate)\n"
    "    return result\n\n\ndef average(prices):\n    return sum(prices) / len(prices)\n",
    "De gemeente haalt het oud papier op elke tweede dinsdag van de maand op. Zet de blauwe bak voor half acht aan de "
    "straat. Grof vuil wordt alleen op afspraak opgehaald; bel daarvoor het nummer op uw afvalkalender.",
    "Photosynthesis takes place in the chloroplasts. In the light reactions water is split, oxygen is released and "
    "ATP and NADPH are formed. In the Calvin cycle carbon dioxide is fixed by the enzyme rubisco, and the energy of "
    "ATP and NADPH turns it into sugars. Most of the oxygen in the air comes from this process.",
    "Release 2.4 of the gateway changes three defaults. Requests time out after 30 seconds instead of 60. Retries use "
    "exponential backoff, starting at 200 milliseconds. The header X-Request-Id is now always returned. To keep the "
    "old time-out, set gateway.timeout to 60 in config.yaml and restart every node.",
)
REQUESTS = (
    "Repeat the text word for word.",
    "Summarize the text in two sentences.",
    "What does the text say? Quote the most important sentence.",
    "Rewrite the text with one small change of your choice.",
)


@functools.cache
def engine() -> Engine:
    return load_engine(MODEL, drafter="plain", dtype="float32", device="cpu")


@functools.cache
def prompts() -> tuple[tuple[int, ...], ...]:
    from transformers import AutoTokenizer

    from decoder.models import default_models_dir, resolve

    tokenizer = AutoTokenizer.from_pretrained(resolve(MODEL, default_models_dir()))
    made = []
    for passage, request in itertools.product(PASSAGES, REQUESTS):
        message = [{"role": "user", "content": f"{passage}\n\n{request}"}]
        text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        made.append(tuple(tokenizer(text, add_special_tokens=False)["input_ids"]))
    return tuple(made)


def run(prompt: tuple[int, ...], params: SamplingParams, drafter: str | Drafter) -> Sequence:
    sequence = engine().start(prompt, params, drafter=drafter)
    engine().prefill(sequence)
    while not sequence.finished:
        engine().step([sequence])
    return sequence


GREEDY = SamplingParams(max_tokens=MAX_TOKENS)


@functools.cache
def plain(prompt: tuple[int, ...]) -> list[int]:
    return run(prompt, GREEDY, "plain").tokens


def margin_at(prompt: tuple[int, ...], tokens: list[int], place: int) -> float:
    """How far apart plain's two best logits are where it chose tokens[place]."""
    ids = [*prompt, *tokens[:place]]
    logits = engine().target.prefill(ids, engine().target.new_cache(len(ids))).logits[-1]
    best, second = logits.topk(2).values.tolist()
    return float(best - second)


def near_ties(pairs: list[tuple[tuple[int, ...], list[int], list[int]]]) -> list[str]:
    """The answers that differ, each checked to differ at a near-tie; fails where one does not."""
    listed = []
    for prompt, expected, got in pairs:
        if got == expected:
            continue
        place = next(i for i, (a, b) in enumerate(itertools.zip_longest(expected, got)) if a != b)
        margin = margin_at(prompt, expected, place)
        assert margin <= MARGIN, f"token {place} differs although plain's margin is {margin}"
        listed.append(f"token {place} of {len(expected)}, margin {margin:.2e}")
    tokens = sum(len(expected) for _, expected, _ in pairs)
    print(f"{len(pairs)} answers, {tokens} tokens, near-ties: {listed or 'none'}")
    assert len(listed) <= max(1, tokens // 10_000)
    return listed


@pytest.mark.parametrize("drafter", ["pld", "copyspec", "casd", "random", "adversarial"])
def test_greedy_answers_are_those_of_plain(drafter: str) -> None:
    pairs = []
    for number, prompt in enumerate(prompts()):
        expected = plain(prompt)
        chosen: str | Drafter = drafter
        if drafter == "random":
            chosen = RandomDrafter(number, engine().target.vocab_size)
        elif drafter == "adversarial":
            chosen = AdversarialDrafter(expected, engine().target.vocab_size, number)
        pairs.append((prompt, expected, run(prompt, GREEDY, chosen).tokens))
    assert len(pairs) >= 20
    near_ties(pairs)


def test_sampled_answers_are_those_of_plain() -> None:
    for number, prompt in enumerate(prompts()[:10]):
        params = SamplingParams(max_tokens=40, temperature=0.8, top_p=0.95, seed=number)
        assert run(prompt, params, "casd").tokens == run(prompt, params, "plain").tokens


@functools.cache
def stock() -> Any:
    from transformers import AutoModelForCausalLM

    from decoder.models import default_models_dir, resolve

    return AutoModelForCausalLM.from_pretrained(resolve(MODEL, default_models_dir()), dtype=torch.float32).eval()


def generate(prompt: tuple[int, ...], **options: Any) -> tuple[list[int], int]:
    """transformers' greedy tokens, and its target passes after prefill."""
    model = stock()
    passes = 0
    forward = model.forward

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal passes
        passes += 1
        return forward(*arguments, **named)

    model.forward = counted
    try:
        ids = torch.tensor([prompt])
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=False,
            max_new_tokens=MAX_TOKENS,
            pad_token_id=0,
            **options,
        )
    finally:
        del model.forward
    return output[0, len(prompt) :].tolist(), passes - 1


def test_plain_equals_transformers_generate() -> None:
    near_ties([(prompt, plain(prompt), generate(prompt)[0]) for prompt in prompts()])


def test_pld_makes_no_more_passes_than_transformers_prompt_lookup() -> None:
    compared = 0
    for prompt in prompts():
        tokens, passes = generate(prompt, prompt_lookup_num_tokens=10, max_matching_ngram_size=2)
        ours = run(prompt, GREEDY, PldDrafter(max_ngram=2, length=10))
        if ours.tokens == tokens:
            assert ours.stats.steps <= passes + 1
            compared += 1
    assert compared >= len(prompts()) - 1
