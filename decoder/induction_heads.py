"""Induction heads: the attention heads that look at the source of a copied token. PLD+, section 4.2.1.

Knows a model, prompts as ids and the file of heads; knows no text.

The procedure answers prompts greedily. The source of a generated token is the occurrence r* in the prompt that has the
longest run of generated tokens before it, the latest one among equals. A head scores a hit if, in the row that chose
the token, it attends to r* the most. Heads are ranked by hits, and the best 5 % are kept; the paper keeps 50 of 1,024.
The token that ends an answer does not count, since it is not copied.
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
from decoder.model.pass_parts import TreePass
from decoder.model.target import TargetModel
from decoder.sampling.params import SamplingParams

FILE = "induction_heads.json"
"""Name of the file in a model's folder."""
SHARE = 0.05
"""The default share of all heads to keep."""


class InductionHeadsError(DecoderError, ValueError):
    """Induction heads cannot be found or loaded; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Head:
    """One attention head. `score` is the fraction of copied tokens whose source it attended to the most."""

    layer: int
    head: int
    score: float


@dataclass(frozen=True, slots=True)
class InductionHeads:
    """The induction heads of one model.

    Attributes:
        model: name of the model's folder.
        layers, heads: the model's number of layers, and of query heads per layer.
        prompts, tokens: number of prompts answered, and of copied tokens examined.
        ranked: the heads, best first.
    """

    model: str
    layers: int
    heads: int
    prompts: int
    tokens: int
    ranked: tuple[Head, ...]

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(layer, head) of each, as in `DrafterContext.induction_heads`."""
        return tuple((head.layer, head.head) for head in self.ranked)


def find_heads(
    engine: Engine,
    prompts: Iterable[Ids[int]],
    model: str,
    *,
    max_tokens: int = 128,
    share: float = SHARE,
    progress: Callable[[int, int], None] = lambda prompts, tokens: None,
) -> InductionHeads:
    """Find a model's induction heads.

    Args:
        engine: runs the model.
        prompts: token ids of prompts whose answers copy from them.
        model: the model's name, to store with the heads.
        max_tokens: most tokens of each answer.
        share: largest share of all heads to keep; at least one is kept.
        progress: called after each prompt with the numbers of prompts answered and copied tokens examined.

    Raises:
        InductionHeadsError: no answer copied a token, or no head attended to a source.
        EmptyPrompt, InvalidToken, PromptTooLong: as in `Engine.start`.
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
        progress(answered, tokens)
    most = max(1, round(share * counts.numel()))
    order = sorted((-int(n), layer, head) for layer, row in enumerate(counts.tolist()) for head, n in enumerate(row))
    ranked = tuple(Head(layer, head, round(-n / tokens, 4)) for n, layer, head in order[:most] if n)
    if not ranked:
        raise InductionHeadsError(
            f"{answered} answers copied {tokens} tokens, but no head attended to their sources; "
            "give prompts whose answers repeat them, or a model that copies"
        )
    return InductionHeads(model, target.layers, target.heads, answered, tokens, ranked)


def copied_from(prompt: Ids[int], answer: Ids[int]) -> list[int | None]:
    """The position in the prompt that each answer token was copied from; None for tokens that do not occur there.

    It is the occurrence with the longest run of tokens before it that also ends the answer so far; the latest one
    among equals.
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
    steps = list(engine.generate(prompt, SamplingParams(max_tokens=max_tokens), drafter="casd"))
    tokens = [token for step in steps for token in step.tokens]
    return tokens[:-1] if steps[-1].finish_reason == "stop" else tokens


def _count(target: TargetModel, prompt: Ids[int], answer: Ids[int], sources: Ids[int | None]) -> torch.Tensor:
    """How often each head attends to a token's source the most: int64 [layers, heads], by one pass over the answer."""
    counts = torch.zeros(target.layers, target.heads, dtype=torch.int64)
    rows = [row for row, source in enumerate(sources) if source is not None]
    if not rows:
        return counts
    cache = target.new_cache(len(prompt) + len(answer))
    if len(prompt) > 1:
        target.prefill(prompt[:-1], cache)
    chain = DraftTree.chain(answer[:-1], [TokenSource("answer")] * (len(answer) - 1))
    [outputs] = target.forward_tree(
        [TreePass(cache, prompt[-1], chain, RequiredOutputs(queries=frozenset(range(target.layers))))]
    )
    cache.keep(range(len(chain)))
    row_ids = torch.tensor(rows, device=target.device)  # row i of the pass chose answer token i
    expected = torch.tensor([sources[row] for row in rows], device=target.device)
    unseen = torch.arange(cache.length, device=target.device) >= (row_ids + len(prompt))[:, None]  # [rows, keys]
    dtype = torch.promote_types(target.dtype, torch.float32)
    for layer in range(target.layers):
        queries = outputs.queries[layer].index_select(0, row_ids).to(dtype)  # [rows, heads, head_dim]
        queries *= target.scaling(layer)
        keys = cache.keys(layer).to(dtype)
        for head in range(target.heads):
            products = queries[:, head] @ keys[head * target.kv_heads // target.heads].T
            top = products.masked_fill(unseen, float("-inf")).argmax(1)
            counts[layer, head] = int((top == expected).sum())
    return counts


def save(heads: InductionHeads, path: Path) -> None:
    """Replace the file at `path`, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    values = asdict(heads)
    values["found"] = values.pop("ranked")
    new = path.with_name(path.name + ".new")
    new.write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
    new.replace(path)


def load(path: Path, target: TargetModel, model: str | None = None) -> InductionHeads:
    """Read a file that `save` wrote for this model.

    Args:
        path: the file.
        target: the model.
        model: the model's name, to compare with the file's; None skips the comparison.

    Raises:
        InductionHeadsError: the file is missing or damaged, or belongs to another model.
    """
    advice = f"find them with `rag models heads {model or 'MODEL'}`"
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        heads = InductionHeads(ranked=tuple(Head(**head) for head in values.pop("found")), **values)
        sizes = (int(heads.layers), int(heads.heads))
        in_range = all(0 <= head.layer < sizes[0] and 0 <= head.head < sizes[1] for head in heads.ranked)
    except FileNotFoundError:
        raise InductionHeadsError(f"there is no file {path} of induction heads; {advice}") from None
    except (OSError, UnicodeDecodeError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InductionHeadsError(f"{path} has no induction heads ({error}); remove it and {advice}") from error
    if not in_range:
        raise InductionHeadsError(f"{path} names a head that its model does not have; remove it and {advice}")
    if sizes != (target.layers, target.heads):
        raise InductionHeadsError(
            f"{path} is for a model of {sizes[0]} layers with {sizes[1]} heads and this one has {target.layers} with "
            f"{target.heads}; remove it and {advice}"
        )
    if model is not None and heads.model != model:
        raise InductionHeadsError(f"{path} is for the model {heads.model}, not {model}; remove it and {advice}")
    return heads
