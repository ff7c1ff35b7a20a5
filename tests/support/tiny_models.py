"""Deterministic fakes and tiny real-architecture models for tests of this package and of those built on it."""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Ids
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from decoder import Engine, Generation, SamplingParams
from decoder.drafters.base import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.mask_chains import NO_MASKS, MaskChains
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.heads.head import EagleHead, FittedHead
from decoder.model.adapters import CONDITIONER, UP, Adapters
from decoder.model.forward_outputs import NOTHING, ForwardOutputs
from decoder.model.pass_parts import PromptChunk, TreePass
from decoder.model.target import TargetModel
from decoder.sequence import Sequence

ARCHITECTURES = ("llama", "qwen2")
DEVICE = os.environ.get("TEST_DEVICE", "cpu")
"""Where tiny models run; `cuda` runs the tests of the decoder on a GPU."""


def tiny_model(
    architecture: str = "llama",
    vocab_size: int = 61,
    seed: int = 0,
    window: int = 512,
    memory: float = 1.0,
    layers: int = 2,
    hidden: int = 32,
) -> Any:
    """A randomly initialised stock model in float64 on DEVICE: four heads over two key heads.

    Its weights are large enough that the next token depends on what came before it. `memory` scales what attention
    adds: near 0 the next token depends on the last one alone, so answers repeat themselves and copies get accepted.
    """
    from transformers import AutoModelForCausalLM, LlamaConfig, Qwen2Config

    config_class = {"llama": LlamaConfig, "qwen2": Qwen2Config}[architecture]
    config = config_class(
        vocab_size=vocab_size,
        hidden_size=hidden,
        intermediate_size=48,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=window,
        initializer_range=0.4,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=0,
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float64)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.o_proj.weight.mul_(memory)
    return model.to(DEVICE)


def tiny_target(
    architecture: str = "llama", vocab_size: int = 61, seed: int = 0, window: int = 512, memory: float = 1.0
) -> TargetModel:
    """`tiny_model` as a TargetModel."""
    return TargetModel(tiny_model(architecture, vocab_size, seed, window, memory))


def tiny_eagle(target: TargetModel, seed: int = 0, scale: float = 1.0, draft_vocab: int | None = None) -> FittedHead:
    """A randomly initialised EAGLE head on a tiny target.

    Args:
        scale: of its weights; with 0 it says nothing.
        draft_vocab: tokens it can draft, spread over the vocabulary; all where None.
    """
    config = copy.deepcopy(target.model.config)
    config.num_hidden_layers = 1
    tokens = None
    if draft_vocab is not None:
        tokens = torch.arange(draft_vocab) * target.vocab_size // draft_vocab
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        head = EagleHead(config, tokens=tokens)
    with torch.no_grad():
        for weight in head.parameters():
            weight.mul_(scale)
    return FittedHead(head, target)


def tiny_adapters(
    target: TargetModel, seed: int = 0, scale: float = 1.0, length: int = 3, conditioner: int = 8
) -> Adapters:
    """Random adapters for a tiny target, in its dtype: `scale` is that of what they add; with 0 they add nothing."""
    fresh = Adapters.fresh(target.model, length, rank=2, conditioner=conditioner, seed=seed)
    source = torch.Generator().manual_seed(seed)
    added = (UP, *(CONDITIONER + name for name in ("point", "token", "out")))
    made = {
        name: scale * torch.randn(tensor.shape, generator=source) if name.endswith(added) else tensor
        for name, tensor in fresh.tensors().items()
    }
    return Adapters.of(made).to(target.device, target.dtype)


@torch.inference_mode()
def knowing_adapters(target: TargetModel, length: int = 3) -> Adapters:
    """Adapters that add random amounts. Their conditioner knows what a target of little memory says after each token:
    its masks are right as often as the last token alone tells the next one."""
    adapters = tiny_adapters(target, length=length, scale=0.02)
    embeddings, head = target.model.get_input_embeddings().weight, target.model.get_output_embeddings().weight
    following = [
        int(target.prefill([token], target.new_cache(1)).logits.argmax()) for token in range(target.vocab_size)
    ]
    assert adapters.conditioner is not None
    rows = head[following]
    adapters.conditioner = replace(
        adapters.conditioner,
        state=torch.zeros_like(embeddings),
        before=torch.nn.functional.rms_norm(embeddings, embeddings.shape[-1:]),  # [V, D]: unit v answers to token v
        out=(rows / rows.square().sum(-1, keepdim=True)).T.contiguous(),
    )
    return adapters.to(target.device, target.dtype)


class UnsteadyTarget(TargetModel):
    """A target whose passes over several rows of a sequence give other logits than its one-row passes, as real kernels
    do in the last bits; a pass over one row is exact.

    Args:
        model: as TargetModel's.
        noise: most that a logit is off by.
        seed: of the noise, which differs from pass to pass.
    """

    def __init__(self, model: Any, noise: float, seed: int = 0) -> None:
        self._noise = 0.0  # while it is tried
        self._random = torch.Generator()
        super().__init__(model)
        self._noise = noise
        self._random.manual_seed(seed)

    def forward_tree(self, batch: Ids[TreePass | PromptChunk]) -> list[ForwardOutputs]:
        made = super().forward_tree(batch)
        return [
            replace(one, logits=one.logits + self._off(one.logits))
            if isinstance(part, TreePass) and part.rows > 1
            else one
            for part, one in zip(batch, made, strict=True)
        ]

    def _off(self, logits: torch.Tensor) -> torch.Tensor:
        return self._noise * (2 * torch.rand(logits.shape, generator=self._random, dtype=logits.dtype) - 1)


class RandomDrafter(Drafter):
    """Drafts random trees of random shape; nearly always wrong."""

    name: ClassVar[str] = "random"

    def __init__(self, seed: int = 0, vocab_size: int = 61, most_nodes: int = 12) -> None:
        self._random = random.Random(seed)
        self._vocab_size = vocab_size
        self._most_nodes = most_nodes

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = DraftTree()
        for _ in range(self._random.randint(0, self._most_nodes)):
            parent = self._random.randint(ROOT, len(tree) - 1)
            tree.add(self._random.randrange(self._vocab_size), parent, TokenSource(self.name))
        return tree


class UnionDrafter(Drafter):
    """The trees of several drafters, merged into one."""

    name: ClassVar[str] = "union"

    def __init__(self, drafters: Ids[Drafter]) -> None:
        self._drafters = drafters

    def setup(self, context: DrafterContext) -> None:
        self.required_outputs = NOTHING
        for drafter in self._drafters:
            drafter.setup(context)
            self.required_outputs |= drafter.required_outputs

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        tree = DraftTree()
        for drafter in self._drafters:
            tree.merge(drafter.draft(sequence, budget))
        return tree

    def masks(self, sequence: Sequence, tree: DraftTree) -> MaskChains:
        wanted = NO_MASKS
        for drafter in self._drafters:
            wanted |= drafter.masks(sequence, tree)
        return wanted

    def observe(self, sequence: Sequence, tree: DraftTree, accepted: Accepted, outputs: ForwardOutputs) -> None:
        for drafter in self._drafters:
            drafter.observe(sequence, tree, accepted, outputs)


class AdversarialDrafter(Drafter):
    """Knows the answer and drafts what is most likely to break a verifier.

    Shapes, one after the other: right tokens with a wrong last one; a wrong token with right ones below it; right and
    wrong siblings interleaved, wrong ones first; everything right, on past the end of the answer.

    Args:
        answer: the tokens plain decoding gives, its end token included.
        vocab_size: wrong tokens are taken modulo this.
    """

    name: ClassVar[str] = "adversarial"

    def __init__(self, answer: Ids[int], vocab_size: int = 61, seed: int = 0) -> None:
        self._answer = list(answer)
        self._vocab_size = vocab_size
        self._random = random.Random(seed)

    def draft(self, sequence: Sequence, budget: int) -> DraftTree:
        ahead = self._answer[len(sequence.tokens) :]
        size = self._random.randint(1, 8)
        right = ahead[:size]
        shapes: list[Callable[[list[int]], DraftTree]] = [
            self._wrong_last,
            self._wrong_first,
            self._siblings,
            self._past_end,
        ]
        return self._random.choice(shapes)(right)

    def _wrong(self, token: int) -> int:
        return (token + 1 + self._random.randrange(self._vocab_size - 1)) % self._vocab_size

    def _chain(self, tokens: Ids[int]) -> DraftTree:
        return DraftTree.chain(tokens, [TokenSource(self.name)] * len(tokens))

    def _wrong_last(self, right: list[int]) -> DraftTree:
        return self._chain([*right[:-1], self._wrong(right[-1])] if right else [])

    def _wrong_first(self, right: list[int]) -> DraftTree:
        return self._chain([self._wrong(right[0]), *right] if right else [])

    def _siblings(self, right: list[int]) -> DraftTree:
        tree = DraftTree()
        node = ROOT
        for token in right:
            wrong = tree.add(self._wrong(token), node, TokenSource(self.name))
            tree.add(token, wrong, TokenSource(self.name))
            node = tree.add(token, node, TokenSource(self.name))
        return tree

    def _past_end(self, right: list[int]) -> DraftTree:
        return self._chain([*right, *(self._random.randrange(self._vocab_size) for _ in range(4))])


class WalkGrammar:
    """A grammar in which the whole path decides what may come next: about half of all tokens.

    Args:
        vocab_size: V.
        length: tokens after which it may be complete; it is at the first of some states reached from then on.
    """

    def __init__(self, vocab_size: int, length: int = 12) -> None:
        self.vocab_size, self.length = vocab_size, length

    def begin(self) -> WalkState:
        return WalkState(self)

    def follows(self, tokens: Ids[int], complete: bool = False) -> bool:
        """Whether an answer follows the grammar; with `complete` also whether it is one, with nothing behind it."""
        state = self.begin()
        for token in tokens:
            if state.complete or not state.allowed()[token]:
                return False
            state.push(token)
        return state.complete or not complete


class WalkState:
    """Where an answer stands in a WalkGrammar."""

    def __init__(self, grammar: WalkGrammar, place: int = 1, pushed: int = 0) -> None:
        self._grammar, self._place, self._pushed = grammar, place, pushed

    def allowed(self) -> NDArray[np.bool_]:
        source = np.random.default_rng(self._place)
        return np.asarray((source.random(self._grammar.vocab_size) < 0.5) & bool(self._place))

    def push(self, token: int) -> None:
        allowed = bool(self.allowed()[token])
        self._place = (self._place * 31 + token) % 9973 + 1 if allowed else 0
        self._pushed += 1

    @property
    def complete(self) -> bool:
        return bool(self._place) and self._pushed >= self._grammar.length and self._place % 3 == 0

    def copy(self) -> WalkState:
        return WalkState(self._grammar, self._place, self._pushed)


def decoded(engine: Engine, prompt: Ids[int], params: SamplingParams, drafter: str | Drafter) -> Generation:
    """A finished answer."""
    generation = engine.start(prompt, params, drafter=drafter)
    engine.prefill(generation)
    while not generation.finished:
        engine.step([generation])
    return generation


def decoded_together(
    engine: Engine, starts: Iterable[tuple[Ids[int], str | Drafter]], params: SamplingParams
) -> list[Generation]:
    """Finished answers to prompts, with a drafter each, that share their passes."""
    generations = [engine.start(prompt, params, drafter=drafter) for prompt, drafter in starts]
    running = generations
    while running := [one for one in running if not one.finished]:
        engine.step(running)
    return generations
