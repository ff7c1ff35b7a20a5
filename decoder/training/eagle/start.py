"""What an EAGLE head starts from: `fc` as the best linear guess of the next feature, solved for, and a tenth of what
the target's last layer adds.

For SmolLM2-135M such a head has a quarter of first tokens right and a third of later ones before its first step: more
than half an hour of training on a processor made of `fc` passing the feature through.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from decoder.errors import EagleHeadError
from decoder.heads.head import EagleHead
from decoder.model.forward_outputs import RequiredOutputs
from decoder.model.target import TargetModel
from decoder.training.answers import Answer, counts
from decoder.training.eagle.features import Example

FAMILIES = ("llama", "qwen2", "mistral")
LAYER = 0.1
"""Share of what the target's last layer adds."""
_RIDGE = 0.01
"""Penalty of the weights' size, in mean squares of the inputs."""


def fresh_head(
    target: TargetModel, tokens: torch.Tensor | None, probe: Sequence[int], seed: int
) -> tuple[EagleHead, float]:
    """A head that passes features through, its layer the target's last at `LAYER` of its strength, in float32 on the
    target's device (float64 for such a target).

    The layer stood in the middle of a stream that is wider than the features and had a norm in front of its attention.
    So what it adds is scaled to the features, and the two norms' weights go into its queries, keys and values.

    Args:
        tokens: int64 [draft vocabulary], what it can draft; None for all.
        probe: ids of a text, to measure the stream on.

    Returns:
        the head, and how much smaller embeddings are than features: it expects them enlarged by that, so that `fc`'s
        two halves learn alike (see `Trainer.finished`).

    Raises:
        EagleHeadError: there are no EAGLE heads for this kind of model.
    """
    source = target.model.config
    if source.model_type not in FAMILIES:
        raise EagleHeadError(
            f"EAGLE heads are trained for models of the kinds {', '.join(FAMILIES)}, not for {source.model_type}"
        )
    if getattr(target.model.get_output_embeddings(), "bias", None) is not None:
        raise EagleHeadError("EAGLE heads are trained for models without a bias in their output layer")
    config: Any = copy.deepcopy(source)
    config.num_hidden_layers = 1
    if getattr(config, "layer_types", None):
        config.layer_types = ["full_attention"]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        head = EagleHead(config, tokens=tokens)
        torch.nn.init.zeros_(head.fc.weight)
    layers = target.model.get_decoder().layers
    last = {name: weight.detach().float().cpu().clone() for name, weight in layers[-1].state_dict().items()}
    norm = target.model.get_decoder().norm.weight.detach().float().cpu()
    made = target.prefill(
        probe, target.new_cache(len(probe)), RequiredOutputs(frozenset({len(layers) - 1}), features=True)
    )
    assert made.features is not None, "they were asked for"
    narrower = float(made.features.float().norm() / made.hidden[len(layers) - 1].float().norm())
    for name in ("q_proj", "k_proj", "v_proj"):
        last[f"self_attn.{name}.weight"] *= last["input_layernorm.weight"] / norm
    for name in ("self_attn.o_proj.weight", "mlp.down_proj.weight"):
        last[name] *= LAYER * narrower
    with torch.no_grad():
        head.fc.weight[:, head.size :] = torch.eye(head.size)
        head.layer.load_state_dict({name: last[name] for name in head.layer.state_dict()})
    dtype = torch.float64 if target.dtype == torch.float64 else torch.float32
    embedded = target.model.get_input_embeddings()(torch.tensor(list(probe), device=target.device))
    gain = float(made.features.float().norm() / embedded.detach().float().norm().clamp(min=1e-9))
    return head.to(target.device, dtype), gain


@torch.no_grad()
def fit(head: EagleHead, examples: Iterable[Example], embeddings: torch.Tensor) -> None:
    """Let `fc` guess the next feature from a token's embedding and the feature before it, by least squares over the
    answers' positions.

    Args:
        embeddings: [V, D], as the head will be given them.
    """
    weight = head.fc.weight
    squares = weight.new_zeros(weight.shape[1], weight.shape[1], dtype=torch.float64)
    products = weight.new_zeros(weight.shape[1], weight.shape[0], dtype=torch.float64)
    for example in examples:
        first, last = example.prompt - 1, len(example.tokens) - 2
        tokens = example.tokens[first + 1 : last + 1].to(embeddings.device)
        features = example.features.to(weight.device, weight.dtype)
        given = torch.cat([embeddings[tokens].to(weight.dtype), features[first:last]], dim=-1)
        squares += given.T @ given
        products += given.T @ features[first + 1 : last + 1]
    squares.diagonal().add_(_RIDGE * squares.diagonal().mean() + 1e-12)
    weight.copy_(torch.linalg.solve(squares, products).T)


def draft_tokens(answers: Sequence[Answer], vocab_size: int, size: int) -> torch.Tensor | None:
    """The `size` tokens that answers use most, int64 ascending; None where that would be all."""
    if not 0 < size < vocab_size:
        return None
    used = torch.from_numpy(counts(answers, vocab_size))
    return used.sort(descending=True, stable=True).indices[:size].sort().values
