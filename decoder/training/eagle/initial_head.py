"""The initial EAGLE head: `fc` as the best linear guess of the next feature, and a tenth of what the target's last
layer adds.

For SmolLM2-135M such a head predicts a quarter of first tokens and a third of later ones before its first step. A head
whose `fc` passes the feature through needs more than half an hour of training on a processor for that.
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
from decoder.training.eagle.features import Example
from decoder.training.ridge import RidgeRegression

FAMILIES = ("llama", "qwen2", "mistral")
LAYER = 0.1
"""Strength of the target's last layer."""


def fresh_head(
    target: TargetModel, tokens: torch.Tensor | None, probe: Sequence[int], seed: int
) -> tuple[EagleHead, float]:
    """A head that passes features through and whose layer is the target's last at `LAYER` of its strength, in float32
    on the target's device (float64 for a float64 target).

    In the target, that layer reads a residual stream with a larger norm than the features, through a norm before its
    attention. So its output is scaled to the features, and the two norms' weights go into its queries, keys and values.

    Args:
        tokens: int64 [draft vocabulary], the tokens to draft among; None for all.
        probe: ids of a text on which the norms are measured.

    Returns:
        the head, and the ratio of the features' norm to the embeddings'. The head expects embeddings enlarged by that
        ratio, so that both halves of `fc` learn at the same rate (see `Trainer.finished`).

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
    outputs = target.prefill(
        probe, target.new_cache(len(probe)), RequiredOutputs(frozenset({len(layers) - 1}), features=True)
    )
    assert outputs.features is not None, "the pass was to return features"
    feature_norm = float(outputs.features.float().norm())
    for name in ("q_proj", "k_proj", "v_proj"):
        last[f"self_attn.{name}.weight"] *= last["input_layernorm.weight"] / norm
    for name in ("self_attn.o_proj.weight", "mlp.down_proj.weight"):
        last[name] *= LAYER * (feature_norm / float(outputs.hidden[len(layers) - 1].float().norm()))
    with torch.no_grad():
        head.fc.weight[:, head.size :] = torch.eye(head.size)
        head.layer.load_state_dict({name: last[name] for name in head.layer.state_dict()})
    dtype = torch.float64 if target.dtype == torch.float64 else torch.float32
    embedded = target.model.get_input_embeddings()(torch.tensor(list(probe), device=target.device))
    gain = feature_norm / float(embedded.detach().float().norm().clamp(min=1e-9))
    return head.to(target.device, dtype), gain


@torch.no_grad()
def fit(head: EagleHead, examples: Iterable[Example], embeddings: torch.Tensor) -> None:
    """Set `fc` to the best linear map from a token's embedding and the feature before it to the token's feature, by
    ridge regression over the answers' positions.

    Args:
        embeddings: [V, D], as the head will read them.
    """
    weight = head.fc.weight
    regression = RidgeRegression(weight.shape[1], weight.shape[0], weight.device)
    for example in examples:
        first, last = example.prompt - 1, len(example.tokens) - 2
        tokens = example.tokens[first + 1 : last + 1].to(embeddings.device)
        features = example.features.to(weight.device, weight.dtype)
        inputs = torch.cat([embeddings[tokens].to(weight.dtype), features[first:last]], dim=-1)
        regression.add(inputs, features[first + 1 : last + 1])
    weight.copy_(regression.solve())
