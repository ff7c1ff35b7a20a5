"""EAGLE heads: small models that continue the target's own features (EAGLE arXiv 2401.15077, section 3.1; EAGLE-3
arXiv 2503.01840, section 3).

A row is a pair: the target's feature at a position and the embedding of the token *after* it. The head predicts the
feature of the next position, which the target's output matrix turns into logits. In EAGLE and EAGLE-2 the feature is
the final norm's output. Feature and embedding go through `fc` into one decoder layer without a norm before its
attention. In EAGLE-3 three layers' hidden states go through `fc`; the layer attends over [embedding; feature], each
normed separately, and the head has its own output matrix.

`EagleHead` holds the trained weights; `FittedHead` adapts them to a target. Neither knows sequences or trees.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from decoder.errors import EagleHeadError
from decoder.model import attention
from decoder.model.forward_outputs import ForwardOutputs, RequiredOutputs
from decoder.model.kv_cache import KVCache
from decoder.model.linear.packed_linear import kept_bytes, pack, packed_passes
from decoder.model.linear.quantise import rows_of
from decoder.model.target import TargetModel

CHUNK = 512
"""Most rows of a pass of the head while it catches up."""


class MidLayer(nn.Module):
    """EAGLE-3's layer: attention over [embedding; feature], whose input is twice as wide as its output."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        from transformers.models.llama.modeling_llama import LlamaAttention, LlamaMLP, LlamaRMSNorm

        self.self_attn = LlamaAttention(config, layer_idx=0)
        for name in ("q_proj", "k_proj", "v_proj"):
            narrow = getattr(self.self_attn, name)
            setattr(
                self.self_attn, name, nn.Linear(2 * narrow.in_features, narrow.out_features, narrow.bias is not None)
            )
        self.mlp = LlamaMLP(config)
        self.hidden_norm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.input_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = LlamaRMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, embedded: torch.Tensor, features: torch.Tensor, **attending: Any) -> torch.Tensor:
        """[1, T, D] twice -> [1, T, D]."""
        wide = torch.cat([self.input_layernorm(embedded), self.hidden_norm(features)], dim=-1)
        states = features + self.self_attn(hidden_states=wide, attention_mask=None, **attending)[0]
        out: torch.Tensor = states + self.mlp(self.post_attention_layernorm(states))
        return out


class EagleHead(nn.Module):
    """The trained weights of a head.

    Args:
        config: a LlamaConfig of one layer, or a Qwen2Config if queries, keys and values have biases.
        eagle3: the head reads three layers' states instead of the final features.
        fc_bias: whether `fc` has a bias.
        target_size: width of the target's states, if it is not the config's hidden size (EAGLE-3 only).
        tokens: int64 [draft vocabulary], the target's ids that can be drafted, ascending; None for all.
        name: for error messages, such as the head's folder.
    """

    def __init__(
        self,
        config: Any,
        *,
        eagle3: bool = False,
        fc_bias: bool = False,
        target_size: int | None = None,
        tokens: torch.Tensor | None = None,
        name: str = "",
    ) -> None:
        super().__init__()
        from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRMSNorm, LlamaRotaryEmbedding
        from transformers.models.qwen2.modeling_qwen2 import Qwen2DecoderLayer

        config._attn_implementation = attention.NAME
        self.config = config
        self.eagle3 = eagle3
        self.name = name
        self.size: int = config.hidden_size
        self.target_size = target_size or self.size
        self.tokens = tokens
        self.embeddings: torch.Tensor | None = None
        """[V, D], if the head has its own embeddings."""
        self.fc = nn.Linear(3 * self.target_size if eagle3 else 2 * self.size, self.size, bias=fc_bias)
        self.rotary = LlamaRotaryEmbedding(config)
        if eagle3:
            self.midlayer = MidLayer(config)
            self.norm = LlamaRMSNorm(self.size, eps=config.rms_norm_eps)
            self.lm_head = nn.Linear(self.size, len(tokens) if tokens is not None else config.vocab_size, bias=False)
        else:
            family = Qwen2DecoderLayer if config.model_type == "qwen2" else LlamaDecoderLayer
            layer = family(config, layer_idx=0)
            layer.input_layernorm = nn.Identity()
            self.layers = nn.ModuleList([layer])

    @property
    def layer(self) -> Any:
        """The head's one decoder layer."""
        return self.midlayer if self.eagle3 else self.layers[0]

    def forward(
        self, embedded: torch.Tensor, features: torch.Tensor, positions: torch.Tensor, cache: attention.PassCache
    ) -> torch.Tensor:
        """One pass over rows of one sequence.

        Args:
            embedded: [1, T, D], embeddings of the tokens after the rows' positions.
            features: [1, T, D], the target's or the head's own features at the rows' positions; for EAGLE-3 also the
                target's three layers' states [1, T, 3 * target_size].
            positions: int64 [1, T].
            cache: with the head's one-layer cache, whose rows are reserved.

        Returns:
            [1, T, D]: the features of the next positions.
        """
        attending = {
            "position_embeddings": self.rotary(embedded, positions),
            "past_key_values": cache,
            "pass_cache": cache,
        }
        if self.eagle3:
            if features.shape[-1] != self.size:
                features = self.fc(features)
            out: torch.Tensor = self.midlayer(embedded, features, **attending)
        else:
            out = self.layers[0](self.fc(torch.cat([embedded, features], dim=-1)), **attending)
        return out


class FittedHead(nn.Module):
    """A head fitted to its target: in its dtype and on its device, with its embeddings and output matrix.

    Args:
        head: the weights; they are used, not copied.
        target: the model it was trained for.

    Raises:
        EagleHeadError: the head was trained for a model of another size or vocabulary.
    """

    def __init__(self, head: EagleHead, target: TargetModel) -> None:
        super().__init__()
        _check(head, target)
        self.device, self.dtype = target.device, target.dtype
        self.vocab_size = target.vocab_size
        self.eagle3 = head.eagle3
        shared = target.model.get_input_embeddings().weight.detach()  # not a parameter of this module
        own = head.embeddings
        own = None if own is None else own.to(device=self.device, dtype=self.dtype)
        # Published checkpoints often have a copy of the target's embeddings; one copy is enough.
        self._embeddings: torch.Tensor = shared if own is None or torch.equal(own, shared[: len(own)]) else own
        self.tokens = None if head.tokens is None else head.tokens.to(self.device)
        """int64 [draft vocabulary] or None: the target's id of each draft id."""
        head.embeddings = None
        self.head = head.to(device=self.device, dtype=self.dtype).eval().requires_grad_(False)
        self.head.rotary = type(head.rotary)(head.config).to(self.device)  # keeps its frequencies in float32
        self.rows: nn.Linear | None = None
        output = target.model.get_output_embeddings()
        if not self.eagle3 and self.tokens is not None:
            self.rows = nn.Linear(target.model.config.hidden_size, len(self.tokens), output.bias is not None)
            self.rows = self.rows.to(device=self.device, dtype=self.dtype).requires_grad_(False)
            self.rows.weight.copy_(rows_of(output, self.tokens))
            if output.bias is not None:
                self.rows.bias.copy_(output.bias[self.tokens])
        self._output = [output]  # in a list, so that it does not become a submodule
        self.packed = pack(self)
        middle, last = target.layers // 2, target.layers - 3
        self._layers = tuple(layer - 1 for layer in (2, middle, last))
        """Decoder layers whose output an EAGLE-3 head reads: those before layers 2, n // 2 and n - 3."""
        self.required_outputs = (
            RequiredOutputs(hidden=frozenset(self._layers)) if self.eagle3 else RequiredOutputs(features=True)
        )

    @property
    def nbytes(self) -> int:
        """Its own memory in bytes: weights, output rows and packed copies, without what it shares with the target."""
        own = sum(weight.nbytes for weight in self.parameters())
        return own + kept_bytes(self)

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache for the head's layer."""
        config = self.head.config
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return KVCache(1, config.num_key_value_heads, size, capacity, self.dtype, self.device)

    def features(self, outputs: ForwardOutputs) -> torch.Tensor | None:
        """The features of a pass that the head reads, [rows, F]; None if the pass did not keep them."""
        if not self.eagle3:
            return outputs.features
        if any(layer not in outputs.hidden for layer in self._layers):
            return None
        return torch.cat([outputs.hidden[layer] for layer in self._layers], dim=-1)

    def run(
        self, tokens: torch.Tensor, features: torch.Tensor, positions: torch.Tensor, cache: KVCache, mask: torch.Tensor
    ) -> torch.Tensor:
        """Run one pass and keep its rows in the cache.

        Args:
            tokens: int64 [T], the target's ids.
            features: [T, F].
            positions: int64 [T].
            mask: bool [T, cache.length + T], whether a row sees a key.

        Returns:
            [T, D].
        """
        cache.reserve(len(tokens))
        spans = [attention.Span(cache, 0, len(tokens), mask)]
        embedded = nn.functional.embedding(tokens, self._embeddings)
        with packed_passes():
            states: torch.Tensor = self.head(
                embedded[None], features[None].to(self.dtype), positions[None], attention.PassCache(spans)
            )[0]
        cache.keep_all()
        return states

    def catch_up(self, tokens: torch.Tensor, features: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """Run committed rows after those of the cache. Returns the last row's state, [1, D]. Arguments as for `run`."""
        states = features
        for start in range(0, len(tokens), CHUNK):
            part = slice(start, start + CHUNK)
            rows, length = len(tokens[part]), cache.length
            positions = torch.arange(length, length + rows, device=self.device)
            mask = torch.ones(rows, length + rows, dtype=torch.bool, device=self.device).tril_(length)
            states = self.run(tokens[part], features[part], positions, cache, mask)
        return states[-1:]

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """[T, D] -> [T, draft vocabulary]."""
        with packed_passes():
            if self.eagle3:
                out: torch.Tensor = self.head.lm_head(self.head.norm(states))
            else:
                out = (self.rows or self._output[0])(states)
        return out


def _check(head: EagleHead, target: TargetModel) -> None:
    size, vocab = target.model.config.hidden_size, target.vocab_size
    name = f"the EAGLE head {head.name}".rstrip()
    if head.target_size != size or (not head.eagle3 and head.size != size):
        raise EagleHeadError(
            f"{name} was trained for a model of hidden size {head.target_size}, this one has {size}; "
            "choose the head that was trained for this model"
        )
    if head.eagle3 and head.embeddings is None and head.size != size:
        raise EagleHeadError(f"{name} of hidden size {head.size} lacks embed_tokens.weight, which it needs")
    if head.eagle3 and target.layers < 6:
        raise EagleHeadError(
            f"{name} reads three different layers and needs at least six; this model has only {target.layers}"
        )
    largest = head.config.vocab_size - 1 if head.tokens is None else int(head.tokens.max())
    if head.config.vocab_size != vocab or largest >= vocab:
        raise EagleHeadError(
            f"{name} has a vocabulary of {max(head.config.vocab_size, largest + 1)} tokens, this model has {vocab}; "
            "choose the head that was trained for this model"
        )
