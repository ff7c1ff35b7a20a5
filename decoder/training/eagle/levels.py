"""An EAGLE head's forward pass over whole answers, several levels deep: each level reads the output of the level before
in place of the features, as in drafting (HASS arXiv 2408.15766, EAGLE-3's training-time test).

Row i of level 0 is the pair (feature at i, token at i + 1); its output predicts the feature at i + 1. Row i of level j
takes level j - 1's output of row i as the feature at i + j, with the token at i + j + 1. It attends to level 0's rows
up to i, for which drafting has the true features, and to its own row i of each later level. Only rows after which the
answer continues have queries; the prompt's rows have keys and values only.

It computes the same as `EagleHead.forward`, with autograd and without caches; tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from decoder.heads.head import EagleHead
from decoder.training.eagle.features import Example

_GROUP = {"cpu": 1, "cuda": 16}
"""Answers whose attention is computed together, padded to the longest."""


@dataclass(slots=True)
class _Group:
    queries: torch.Tensor  # int64 [G, P], rows of Q; 0 if padded
    keys: torch.Tensor  # int64 [G, N], rows of R; 0 if padded
    sees: torch.Tensor  # bool [G, P, N]
    real: torch.Tensor  # bool [G, P]


class Batch:
    """Several answers in one line: R rows, the pairs (feature, next token) of all answers, and Q queries among them.

    Attributes:
        features: [R, D], of the rows.
        positions: int64 [R], of the rows.
        query_rows: int64 [Q], the queries' rows.
        counts: queries per answer.
        groups: answers whose attention is computed together.
    """

    def __init__(
        self, examples: Sequence[Example], embeddings: torch.Tensor, device: torch.device, dtype: torch.dtype
    ) -> None:
        self._embeddings, self._dtype = embeddings, dtype
        self._tokens, self._all_features, self._best_ids, self._chances = (
            torch.cat([getattr(example, name) for example in examples]).to(device)
            for name in ("tokens", "features", "best_ids", "chances")
        )
        columns: list[list[torch.Tensor]] = [[] for _ in range(7)]
        token_start = feature_start = row_start = 0
        self.counts: list[int] = []
        spans = []
        for example in examples:
            n, p = len(example.tokens), example.prompt
            size, count = n - 2, n - 1 - p  # rows 0 .. n - 3; queries p - 1 .. n - 3
            ranges = (
                range(feature_start, feature_start + size),
                range(token_start + 1, token_start + 1 + size),
                range(size),
                range(row_start + p - 1, row_start + size),
                range(token_start + p, token_start + n - 1),
                range(feature_start + p, feature_start + n - 1),
                range(count, 0, -1),
            )
            for column, numbers in zip(columns, ranges, strict=True):
                column.append(torch.arange(numbers.start, numbers.stop, numbers.step))
            spans.append((sum(self.counts), count, row_start, size, p - 1))
            self.counts.append(count)
            token_start, feature_start, row_start = token_start + n, feature_start + n - 1, row_start + size
        rows, self._row_tokens, self.positions, self.query_rows, *queries = (
            torch.cat(column).to(device) for column in columns
        )
        self._query_tokens, self._query_features, self._remaining = queries
        self.features = self._all_features[rows].to(dtype)
        self.groups = list(_groups(spans, _GROUP[device.type], device))

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.query_rows)

    @property
    def embedded(self) -> torch.Tensor:
        """[R, D], the embeddings of the tokens after the rows."""
        return self.embed(self._tokens[self._row_tokens])

    def embed(self, tokens: torch.Tensor) -> torch.Tensor:
        """int64 [n] -> [n, D]."""
        return F.embedding(tokens, self._embeddings).to(self._dtype)

    def continues(self, level: int) -> torch.Tensor:
        """bool [Q]: the answer has a token for this level to predict. Other queries' inputs and targets are void."""
        return self._remaining > level

    def input_tokens(self, level: int) -> torch.Tensor:
        """int64 [Q]: the tokens that a level's rows read."""
        return self._tokens[(self._query_tokens + level).clamp(max=len(self._tokens) - 1)]

    def target_tokens(self, level: int) -> torch.Tensor:
        """int64 [Q]: the tokens that a level's rows should predict."""
        return self.input_tokens(level + 1)

    def target_features(self, level: int) -> torch.Tensor:
        """[Q, D]: the features that a level's rows should predict."""
        rows = (self._query_features + level).clamp(max=len(self._all_features) - 1)
        return self._all_features[rows].to(self._dtype)

    def labels(self, level: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The target's likeliest tokens for a level to predict and their probabilities, [Q, BEST] each."""
        rows = (torch.arange(len(self), device=self._best_ids.device) + level).clamp(max=len(self) - 1)
        return self._best_ids[rows].long(), self._chances[rows].float()


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
    """The head's outputs for the queries, level by level: [Q, D], `count` times.

    The caller may stop early. Autograd reaches the weights through all levels.
    """
    layer = head.layer
    attend = layer.self_attn
    width: int = attend.head_dim
    rows = head.fc(torch.cat([batch.embedded, batch.features], dim=-1))  # [R, D]
    keys, values = _heads(attend.k_proj(rows), width), _heads(attend.v_proj(rows), width)  # [R, kv_heads, d]
    keys = _rotated(head, keys, batch.positions)
    inputs, positions = rows[batch.query_rows], batch.positions[batch.query_rows]
    own: list[tuple[torch.Tensor, torch.Tensor]] = []  # keys and values of later levels, [Q, kv_heads, d]
    states = inputs
    for level in range(count):
        if level:
            inputs = head.fc(torch.cat([batch.embed(batch.input_tokens(level)), states], dim=-1))
            own_keys = _rotated(head, _heads(attend.k_proj(inputs), width), positions + level)
            own.append((own_keys, _heads(attend.v_proj(inputs), width)))
        queries = _rotated(head, _heads(attend.q_proj(inputs), width), positions + level)
        mixed = _attention(batch, queries, keys, values, own, attend.scaling)
        between = inputs + attend.o_proj(mixed)
        states = between + layer.mlp(layer.post_attention_layernorm(between))
        yield states


def _heads(rows: torch.Tensor, width: int) -> torch.Tensor:
    return rows.view(len(rows), -1, width)


def _rotated(head: EagleHead, rows: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary embedding. [n, heads, d] -> the same shape."""
    cos, sin = (part[0][:, None] for part in head.rotary(rows, positions[None]))
    first, second = rows.chunk(2, dim=-1)
    rotated: torch.Tensor = rows * cos + torch.cat([-second, first], dim=-1) * sin
    return rotated


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
        rows = packed[group.queries]  # [G, P, kv, s, d]
        scores = torch.einsum("gpksd,gnkd->gpksn", rows, keys[group.keys])
        scores = scores.masked_fill(~group.sees[:, :, None, None], float("-inf"))
        extra = [(rows * k[group.queries][:, :, :, None]).sum(-1, keepdim=True) for k, _ in own]
        exact = torch.promote_types(values.dtype, torch.float32)
        weights = torch.cat([scores, *extra], dim=-1).softmax(-1, dtype=exact).to(values.dtype)
        shown = group.keys.shape[1]
        out = torch.einsum("gpksn,gnkd->gpksd", weights[..., :shown], values[group.keys])
        for number, (_, v) in enumerate(own):
            out = out + weights[..., shown + number, None] * v[group.queries][:, :, :, None]
        mixed.append(out[group.real])
    return torch.cat(mixed).reshape(-1, heads * width)
