"""TokenIndex against a brute-force matcher."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from decoder.drafts.token_index import MAX_CANDIDATES, ORDERS, Match, TokenIndex

TOKENS = st.lists(st.integers(0, 3), max_size=60)


def brute_matches(
    text: list[int], suffix: list[int], k: int, max_length: int, min_length: int
) -> list[tuple[int, int]]:
    found = []
    for end in range(1, len(text)):
        length = 0
        while length < min(max_length, len(suffix), end) and text[end - 1 - length] == suffix[-1 - length]:
            length += 1
        if length >= min_length:
            found.append((length, end))
    return sorted(found, key=lambda item: (-item[0], -item[1]))[:k]


def index_of(parts: list[list[int]], grown: list[int], bulk: list[int]) -> TokenIndex:
    index = TokenIndex.build(parts)
    index.add_segment(grown)
    if bulk:
        index.extend(bulk)
    return index


@settings(max_examples=400, deadline=None)
@given(
    parts=st.lists(TOKENS, max_size=3),
    grown=TOKENS,
    k=st.integers(1, 4),
    max_length=st.integers(1, 12),
    min_length=st.integers(1, 4),
)
def test_matches_equal_brute_force(
    parts: list[list[int]], grown: list[int], k: int, max_length: int, min_length: int
) -> None:
    index = index_of(parts, grown, [])
    text = [token for part in parts for token in part] + grown
    suffix = text[-max_length:]
    got = index.matches(suffix, k, max_length, min_length)
    expected = brute_matches(text, suffix, k, max_length, min_length)
    if len(text) <= MAX_CANDIDATES:
        assert [(match.length, match.position) for match in got] == expected
    else:  # the bound on candidates may hide some, never invent one
        assert {(m.length, m.position) for m in got} <= set(
            brute_matches(text, suffix, len(text), max_length, min_length)
        )
    starts = [0]
    for part in parts:
        starts.append(starts[-1] + len(part))
    for _, position, tag in got:
        segment, offset = index.segment_of(position)
        assert segment == tag
        assert starts[segment] + offset == position


@settings(max_examples=300, deadline=None)
@given(parts=st.lists(TOKENS, max_size=3), grown=TOKENS, n=st.sampled_from(ORDERS), data=st.data())
def test_first_is_the_earliest_end(parts: list[list[int]], grown: list[int], n: int, data: st.DataObject) -> None:
    index = index_of(parts, grown, [])
    text = [token for part in parts for token in part] + grown
    ngram = data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    if len(text) > n and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(text) - n))
        ngram = text[at : at + n]
    before = data.draw(st.none() | st.integers(0, len(text)))
    ends = [e for e in range(n, len(text) + 1) if text[e - n : e] == ngram and (before is None or e <= before)]
    assert index.first(ngram, before) == (ends[0] if ends else None)


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(TOKENS, max_size=3), grown=TOKENS, token=st.integers(0, 4))
def test_positions_are_all_occurrences(parts: list[list[int]], grown: list[int], token: int) -> None:
    text = [t for part in parts for t in part] + grown
    expected = [i for i, t in enumerate(text) if t == token]
    assert index_of(parts, grown, []).positions(token).tolist() == expected


@settings(max_examples=100, deadline=None)
@given(parts=st.lists(TOKENS, min_size=1, max_size=4), grown=TOKENS)
def test_bytes_round_trip(parts: list[list[int]], grown: list[int]) -> None:
    index = index_of(parts, grown, [])
    data = index.to_bytes()
    again = TokenIndex.from_bytes(data)
    assert again.tokens.tolist() == index.tokens.tolist()
    assert again.matches(grown, 3) == index.matches(grown, 3)
    assert len(data) <= 16 * len(index) + 64


def test_bulk_extension_equals_token_by_token() -> None:
    tokens = [(i * i) % 7 for i in range(1500)]
    bulk, single = TokenIndex.build([[1, 2, 3]]), TokenIndex.build([[1, 2, 3]])
    bulk.extend(tokens)
    for token in tokens:
        single.extend([token])
    for at in range(20, 1500, 97):
        assert bulk.matches(tokens[at - 10 : at], 5) == single.matches(tokens[at - 10 : at], 5)


def test_examined_candidates_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """In text that repeats without end, a lookup looks at no more candidates than its bound."""
    examined = 0
    one, several = TokenIndex._agreement, TokenIndex._agreements

    def counted(self: TokenIndex, recent: tuple[int, ...], end: int) -> int:
        nonlocal examined
        examined += 1
        return one(self, recent, end)

    def counted_together(self: TokenIndex, recent: tuple[int, ...], ends: list[int]) -> list[int]:
        nonlocal examined
        examined += len(ends)
        return several(self, recent, ends)

    monkeypatch.setattr(TokenIndex, "_agreement", counted)
    monkeypatch.setattr(TokenIndex, "_agreements", counted_together)
    index = TokenIndex.build([[1] * 50_000])
    assert index.matches([1] * 10, 2) == [Match(10, 49_999, 0), Match(10, 49_998, 0)]
    assert examined <= MAX_CANDIDATES
    examined = 0
    index.matches([1] * 8, 10_000, max_length=8)
    assert 0 < examined <= MAX_CANDIDATES


def test_a_match_runs_across_segments_and_names_the_one_it_copies_from() -> None:
    index = TokenIndex.build([[1, 2], [3, 4, 5]])
    index.add_segment([9, 1, 2])
    assert index.matches([9, 1, 2], 1) == [Match(2, 2, 1)]


def test_damaged_bytes_are_refused() -> None:
    data = TokenIndex.build([[1, 2, 3]]).to_bytes()
    for damaged in (b"", b"nonsense", data[:-1], data + b"\0", b"x" + data[1:]):
        with pytest.raises(ValueError, match="token index"):
            TokenIndex.from_bytes(damaged)


def test_sizes_that_are_not_indexed_are_refused() -> None:
    with pytest.raises(ValueError, match="the index has n-grams"):
        TokenIndex.build([[1, 2]]).first([1] * 5)


@pytest.mark.parametrize("frozen", [True, False])
def test_matches_of_several_ends_are_those_of_each(frozen: bool) -> None:
    random = np.random.default_rng(8)
    for _ in range(30):
        text = random.integers(0, 5, 200).tolist()
        index = TokenIndex.build([text[:120]]) if frozen else TokenIndex()
        index.extend(text[120:])
        ends = [[*text[-5:], token] for token in range(6)]
        for k, longest in ((1, 6), (3, 4), (24, 10)):
            assert index.matches_of(ends, k, longest) == [index.matches(end, k, longest) for end in ends]
    assert TokenIndex().matches_of([], 1) == []


def test_an_index_gives_the_matches_of_a_plain_search() -> None:
    """Length, place and order, whatever sizes are indexed and however they are looked up."""
    random = np.random.default_rng(9)
    for number in range(60):
        text = random.integers(0, 3 + number % 6, 50).tolist()
        index = TokenIndex.build([text[:30]])
        index.extend(text[30:])
        lengths = {}
        for end in range(1, len(text)):
            same = 0
            while same < min(end, 10) and text[end - 1 - same] == text[-1 - same]:
                same += 1
            if same:
                lengths[end] = same
        expected = sorted(lengths.items(), key=lambda item: (-item[1], -item[0]))
        assert [(m.position, m.length) for m in index.matches(text[-10:], 50, 10)] == expected
