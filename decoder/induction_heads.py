"""Induction heads: which attention heads look at the place a copied token comes from. PLD+, section 4.2.1.

Knows a model, prompts as ids and the file that keeps what was found; knows no text.

The procedure: answer prompts greedily. For each generated token that occurs in its prompt, the place it was copied from
is the occurrence r* that has the longest run of generated tokens before it, the latest of equally long ones. A head is
counted when, of everything the choosing row attends to, it attends to r* the most. Heads are ranked by how often they
are counted; the best 5 % are kept, as the paper keeps 50 of 1,024. The token that ends an answer is not counted: it is
no copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Ids
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch

from decoder.drafts.tree import DraftTree, TokenSource
from decoder.engine import Engine
from decoder.errors import DecoderError
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.target import TargetModel, TreePass
from decoder.sampling.params import SamplingParams

FILE = "induction_heads.json"
"""Name of the file in a model's folder."""
SHARE = 0.05


class InductionHeadsError(DecoderError, ValueError):
    """Induction heads cannot be found or loaded; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Head:
    """`score`: of the copied tokens examined, the fraction whose source this head attended to the most."""

    layer: int
    head: int
    score: float


@dataclass(frozen=True, slots=True)
class InductionHeads:
    """What was found for one model, best first.

    Attributes:
        model: the model's name, its folder's.
        layers, heads: of the model: layers, and query heads a layer.
        prompts, tokens: prompts answered and copied tokens examined.
    """

    model: str
    layers: int
    heads: int
    prompts: int
    tokens: int
    found: tuple[Head, ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(layer, head) of each, as `DrafterContext.induction_heads` wants them."""
        return tuple((head.layer, head.head) for head in self.found)


def find_heads(
    engine: Engine,
    prompts: Iterable[Ids[int]],
    model: str,
    *,
    max_tokens: int = 128,
    share: float = SHARE,
    say: Callable[[int, int], None] = lambda prompts, tokens: None,
) -> InductionHeads:
    """Find a model's induction heads.

    Args:
        prompts: token ids; prompts whose answers copy from them.
        model: the name to keep them under.
        max_tokens: of each answer.
        share: of all heads, the fraction that is kept at most; at least one is.
        say: told after each prompt (prompts answered, copied tokens examined).

    Raises:
        InductionHeadsError: no answer copied anything, or no head ever looked there.
        EmptyPrompt, InvalidToken, PromptTooLong: as `Engine.start`.
    """
    target = engine.target
    counts = torch.zeros(target.layers, target.heads, dtype=torch.int64)
    answered = tokens = 0
    for prompt in prompts:
        answer = _answer(engine, prompt, max_tokens)
        sources = copied_from(prompt, answer)
        counts += _count(target, prompt, answer, sources)
        answered += 1
        tokens += sum(source is not None for source in sources)
        say(answered, tokens)
    most = max(1, round(share * counts.numel()))
    ranked = sorted((-int(n), layer, head) for layer, row in enumerate(counts.tolist()) for head, n in enumerate(row))
    found = tuple(Head(layer, head, round(-n / tokens, 4)) for n, layer, head in ranked[:most] if n)
    if not found:
        raise InductionHeadsError(
            f"{answered} answers copied {tokens} tokens and no head attended to where they came from; "
            "give prompts whose answers repeat them, or a model that copies"
        )
    return InductionHeads(model, target.layers, target.heads, answered, tokens, found)


def copied_from(prompt: Ids[int], answer: Ids[int]) -> list[int | None]:
    """Where in the prompt each answer token was copied from, None for tokens that do not occur there.

    Of a token's occurrences it is the one with the longest run before it that also ends the answer so far; of equally
    long ones the latest.
    """
    text = np.asarray(prompt, np.int64)
    runs = np.zeros(len(text), np.int64)  # runs[j]: tokens that end both prompt[: j + 1] and the answer so far
    sources: list[int | None] = []
    for token in answer:
        before = np.concatenate([[0], runs[:-1]])
        runs = np.where(text == token, before + 1, 0)
        sources.append(len(text) - 1 - int(runs[::-1].argmax()) if runs.any() else None)
    return sources


def _answer(engine: Engine, prompt: Ids[int], max_tokens: int) -> list[int]:
    """The greedy answer without the token that ends it."""
    sequence = engine.start(prompt, SamplingParams(max_tokens=max_tokens), drafter="casd")
    engine.prefill(sequence)
    while not sequence.finished:
        engine.step([sequence])
    return sequence.tokens[:-1] if sequence.finish_reason == "stop" else sequence.tokens


def _count(target: TargetModel, prompt: Ids[int], answer: Ids[int], sources: Ids[int | None]) -> torch.Tensor:
    """How often each head attends the most to a token's source, int64 [layers, heads]; one pass over the answer."""
    counts = torch.zeros(target.layers, target.heads, dtype=torch.int64)
    rows = [row for row, source in enumerate(sources) if source is not None]
    if not rows:
        return counts
    cache = target.new_cache(len(prompt) + len(answer))
    if len(prompt) > 1:
        target.prefill(prompt[:-1], cache)
    chain = DraftTree.chain(answer[:-1], [TokenSource("answer")] * (len(answer) - 1))
    [made] = target.forward_tree(
        [TreePass(cache, prompt[-1], chain, RequiredOutputs(queries=frozenset(range(target.layers))))]
    )
    cache.keep(range(len(chain)))
    at = torch.tensor(rows, device=target.device)  # row i of the pass chose answer token i
    expected = torch.tensor([sources[row] for row in rows], device=target.device)
    unseen = torch.arange(cache.length, device=target.device) >= (at + len(prompt))[:, None]  # [rows, keys]
    wide = torch.promote_types(target.dtype, torch.float32)
    for layer in range(target.layers):
        queries = made.queries[layer].index_select(0, at).to(wide) * target.scaling(layer)  # [rows, heads, head_dim]
        keys = cache.keys(layer).to(wide)
        for head in range(target.heads):
            products = queries[:, head] @ keys[head * target.kv_heads // target.heads].T
            top = products.masked_fill(unseen, float("-inf")).argmax(1)
            counts[layer, head] = int((top == expected).sum())
    return counts


def save(found: InductionHeads, path: Path) -> None:
    """Write the file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_text(json.dumps(asdict(found), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)


def load(path: Path, target: TargetModel, model: str | None = None) -> InductionHeads:
    """Read a file that `save` wrote for this model.

    Args:
        model: the model's name, compared with the file's where given.

    Raises:
        InductionHeadsError: the file is missing or damaged, or belongs to another model.
    """
    again = f"find them with `rag models heads {model or 'MODEL'}`"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = InductionHeads(**{**values, "found": tuple(Head(**head) for head in values["found"])})
        sizes = (int(found.layers), int(found.heads))
        beyond = [h for h in found.found if not (0 <= h.layer < sizes[0] and 0 <= h.head < sizes[1])]
    except FileNotFoundError:
        raise InductionHeadsError(f"there is no file {path} of induction heads; {again}") from None
    except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError) as error:
        raise InductionHeadsError(f"{path} holds no induction heads ({error}); remove it and {again}") from error
    if beyond:
        raise InductionHeadsError(f"{path} names a head that its model does not have; remove it and {again}")
    if sizes != (target.layers, target.heads):
        raise InductionHeadsError(
            f"{path} is for a model of {sizes[0]} layers with {sizes[1]} heads and this one has {target.layers} with "
            f"{target.heads}; remove it and {again}"
        )
    if model is not None and found.model != model:
        raise InductionHeadsError(f"{path} is for the model {found.model}, not {model}; remove it and {again}")
    return found
