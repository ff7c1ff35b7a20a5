"""An EAGLE head's forward pass over whole answers, several levels deep: each level is fed what the one before made of
the features, as in drafting (HASS arXiv 2408.15766, EAGLE-3's training-time test).

Row i of level 0 is the pair (feature at i, token at i + 1), and its output stands for the feature at i + 1. Row i of
level j takes level j - 1's output of row i for the feature at i + j, and the token at i + j + 1. It sees level 0's rows
up to i, where drafting has the true features, and of each later level its own row i. Queries are computed for the rows
behind which the answer goes on; of the prompt's rows only keys and values.

The same weights as `EagleHead.forward` with autograd and without caches; tests hold the two together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

from decoder.heads.head import EagleHead
from decoder.training.eagle.features import Example

_GROUP = {"cpu": 1, "cuda": 16}
"""Answers whose attention is computed together, padded to the longest."""


@dataclass(slots=True)
class _Group:
    queries: torch.Tensor  # int64 [G, P], rows of Q; 0 where padded
    keys: torch.Tensor  # int64 [G, N], rows of R; 0 where padded
    sees: torch.Tensor  # bool [G, P, N]
    real: torch.Tensor  # bool [G, P]


class Batch:
    """Some answers laid out in one line.

    R rows, the pairs (feature, next token) of all answers; Q of them are queries. Query q is row `starts[q]`.

    Attributes:
        features: [R, D]; embedded: [R, D]; positions: int64 [R].
        query_rows: int64 [Q], rows of the queries.
    """

    def __init__(
        self, examples: Sequence[Example], embeddings: torch.Tensor, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._embeddings = embeddings
        self._tokens = torch.cat([example.tokens for example in examples]).to(device)
        self._all_features = torch.cat([example.features for example in examples]).to(device)
        self.best_ids = torch.cat([example.best_ids for example in examples]).to(device)
        self.chances = torch.cat([example.chances for example in examples]).to(device)
        rows, row_tokens, positions, queries, query_tokens, query_features, left = [], [], [], [], [], [], []
        token_start = feature_start = row_start = 0
        self.counts: list[int] = []
        spans = []
        for example in examples:
            n, p = len(example.tokens), example.prompt
            size, count = n - 2, n - 1 - p  # rows 0 .. n - 3; queries p - 1 .. n - 3
            rows.append(torch.arange(feature_start, feature_start + size))
            row_tokens.append(torch.arange(token_start + 1, token_start + 1 + size))
            positions.append(torch.arange(size))
            queries.append(torch.arange(row_start + p - 1, row_start + size))
            query_tokens.append(torch.arange(token_start + p, token_start + n - 1))  # of the token behind the row
            query_features.append(torch.arange(feature_start + p, feature_start + n - 1))  # of the next position
            left.append(torch.arange(count, 0, -1))
            spans.append((sum(self.counts), count, row_start, size, p - 1))
            self.counts.append(count)
            token_start, feature_start, row_start = token_start + n, feature_start + n - 1, row_start + size
        self._rows = torch.cat(rows).to(device)
        self.features = self._all_features[self._rows].to(dtype)
        self._row_tokens = torch.cat(row_tokens).to(device)
        self.positions = torch.cat(positions).to(device)
        self.query_rows = torch.cat(queries).to(device)
        self._query_tokens = torch.cat(query_tokens).to(device)
        self._query_features = torch.cat(query_features).to(device)
        self._left = torch.cat(left).to(device)
        self._groups = list(_groups(spans, _GROUP[device.type], device))
        self._dtype = dtype

    def __len__(self) -> int:
        """Queries."""
        return len(self.query_rows)

    @property
    def embedded(self) -> torch.Tensor:
        """[R, D], of the token behind each row."""
        return self.embed(self._tokens[self._row_tokens])

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [n] -> [n, D]."""
        return F.embedding(tokens, self._embeddings).to(self._dtype)

    def there(self, level: int) -> torch.Tensor:
        """bool [Q]: queries whose answer still goes on at this level."""
        return self._left > level

    def given(self, level: int) -> torch.Tensor:
        """int64 [Q]: the token that a level's row takes; anything where it is not `there`."""
        return self._tokens[(self._query_tokens + level).clamp(max=len(self._tokens) - 1)]

    def wanted(self, level: int) -> torch.Tensor:
        """int64 [Q]: the token that a level's row should predict; anything where it is not `there`."""
        return self.given(level + 1)

    def wanted_features(self, level: int) -> torch.Tensor:
        """[Q, D]: the feature that a level's row should come to; anything where it is not `there`."""
        rows = (self._query_features + level).clamp(max=len(self._all_features) - 1)
        return self._all_features[rows].to(self._dtype)

    def labels(self, level: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The target's likeliest tokens behind a level's position and their probabilities, [Q, BEST] each."""
        rows = (torch.arange(len(self), device=self.best_ids.device) + level).clamp(max=len(self) - 1)
        return self.best_ids[rows].long(), self.chances[rows].float()

    @property
    def groups(self) -> list[_Group]:
        return self._groups


def _groups(spans: list[tuple[int, int, int, int, int]], size: int, device: torch.device) -> Iterator[_Group]:
    for start in range(0, len(spans), size):
        part = spans[start : start + size]
        most_queries, most_keys = max(s[1] for s in part), max(s[3] for s in part)
        queries = torch.zeros(len(part), most_queries, dtype=torch.long)
        keys = torch.zeros(len(part), most_keys, dtype=torch.long)
        sees = torch.zeros(len(part), most_queries, most_keys, dtype=torch.bool)
        real = torch.zeros(len(part), most_queries, dtype=torch.bool)
        sees[:, :, 0] = True  # a padded query must see something
        for number, (query, count, row, rows, first) in enumerate(part):
            queries[number, :count] = torch.arange(query, query + count)
            keys[number, :rows] = torch.arange(row, row + rows)
            sees[number, :count, :rows] = torch.arange(rows) <= torch.arange(first, first + count)[:, None]
            real[number, :count] = True
        yield _Group(queries.to(device), keys.to(device), sees.to(device), real.to(device))


def levels(head: EagleHead, batch: Batch, count: int) -> Iterator[torch.Tensor]:
    """What the head makes of each query's features, level by level: [Q, D], `count` times.

    The caller may stop early. Autograd reaches the weights through all levels.
    """
    layer = head.layer
    attend = layer.self_attn
    width: int = attend.head_dim
    rows = head.fc(torch.cat([batch.embedded, batch.features], dim=-1))  # [R, D]
    keys, values = _heads(attend.k_proj(rows), width), _heads(attend.v_proj(rows), width)  # [R, kv_heads, d]
    keys = _turned(head, keys, batch.positions)
    inputs, positions = rows[batch.query_rows], batch.positions[batch.query_rows]
    own: list[tuple[torch.Tensor, torch.Tensor]] = []  # keys and values of later levels, [Q, kv_heads, d]
    states = inputs
    for level in range(count):
        if level:
            inputs = head.fc(torch.cat([batch.embed(batch.given(level)), states], dim=-1))
            own.append(
                (
                    _turned(head, _heads(attend.k_proj(inputs), width), positions + level),
                    _heads(attend.v_proj(inputs), width),
                )
            )
        queries = _turned(head, _heads(attend.q_proj(inputs), width), positions + level)
        mixed = _attention(batch, queries, keys, values, own, attend.scaling)
        between = inputs + attend.o_proj(mixed)
        states = between + layer.mlp(layer.post_attention_layernorm(between))
        yield states


def _heads(rows: torch.Tensor, width: int) -> torch.Tensor:
    return rows.view(len(rows), -1, width)


def _turned(head: EagleHead, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary embedding. [n, heads, d] -> the same shape."""
    cos, sin = (part[0][:, None] for part in head.rotary(rows, positions[None]))
    first, second = rows.chunk(2, dim=-1)
    turned: torch.Tensor = rows * cos + torch.cat([-second, first], dim=-1) * sin
    return turned


def _attention(
    batch: Batch,
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    own: Sequence[tuple[torch.Tensor, torch.Tensor]],
    scaling: float,
) -> torch.Tensor:
    """[Q, heads, d] against level 0's [R, kv_heads, d] and each later level's own row -> [Q, heads * d]."""
    _, heads, width = queries.shape
    kv_heads = keys.shape[1]
    shared = heads // kv_heads
    packed = queries.view(-1, kv_heads, shared, width) * scaling
    mixed = []
    for group in batch.groups:
        asked = packed[group.queries]  # [G, P, kv, s, d]
        scores = torch.einsum("gpksd,gnkd->gpksn", asked, keys[group.keys])
        scores = scores.masked_fill(~group.sees[:, :, None, None], float("-inf"))
        extra = [(asked * k[group.queries][:, :, :, None]).sum(-1, keepdim=True) for k, _ in own]
        exact = torch.promote_types(values.dtype, torch.float32)
        weights = torch.cat([scores, *extra], dim=-1).softmax(-1, dtype=exact).to(values.dtype)
        seen = keys[group.keys].shape[1]
        out = torch.einsum("gpksn,gnkd->gpksd", weights[..., :seen], values[group.keys])
        for number, (_, v) in enumerate(own):
            out = out + weights[..., seen + number, None] * v[group.queries][:, :, :, None]
        mixed.append(out[group.real])
    return torch.cat(mixed).reshape(-1, heads * width)


def trainable(head: EagleHead) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """(matrices, the rest)."""
    weights = list(head.parameters())
    return [weight for weight in weights if weight.dim() == 2], [weight for weight in weights if weight.dim() != 2]
