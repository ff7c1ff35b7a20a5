"""Tables of next tokens: what is learned, what is drafted from it, and whose it is."""

from __future__ import annotations

import importlib.util
import itertools
import math
import sys
from types import ModuleType

import numpy as np
import pytest

from decoder.drafters.learning import next_token_tables as tables
from decoder.drafters.learning.next_tokens import MOST_DOMAINS, NOT_BEFORE, NextTokens, NextTokensByDomain, entries
from decoder.drafters.learning.shipped_texts import count

TEXTS = [[5, 6, 7, 8], [5, 6, 7, 9], [5, 6, 8], [4, 6, 7, 8], [5, 6, 7, 8]]


def row(**chances: float) -> tuple[list[int], list[float]]:
    """Tokens and logits of these chances, the likeliest first."""
    best = sorted(chances.items(), key=lambda item: -item[1])
    return [int(token[1:]) for token, _ in best], [math.log(chance) for _, chance in best]


def learn(table: NextTokens, before: int, token: int, **chances: float) -> None:
    tokens, logits = row(**chances)
    table.learn([before], [token], np.array([tokens]), np.array([logits]))


def first(table: NextTokens, before: int, token: int) -> dict[int, float]:
    """The chances of the tokens right after two."""
    _, tokens, chances = table.likeliest(before, token, 16, 1, 0.0)
    return dict(zip(tokens, chances, strict=True))


def test_a_context_of_two_tokens_counts_more_than_that_of_one() -> None:
    table = NextTokens()
    learn(table, 1, 3, t7=0.9, t8=0.1)
    learn(table, 2, 3, t7=0.1, t8=0.9)
    one, two, other = first(table, 1, 3), first(table, 2, 3), first(table, 4, 3)
    assert one[7] > 1.5 * one[8]
    assert two[8] > 1.5 * two[7]
    assert other[7] == pytest.approx(other[8])
    assert 0 < other[7] < 0.5
    assert first(table, 1, 4) == {}


def test_later_rows_count_more() -> None:
    table = NextTokens()
    for _ in range(200):
        learn(table, 1, 3, t7=1.0)
    for _ in range(20):
        learn(table, 1, 3, t8=1.0)
    chances = first(table, 1, 3)
    assert chances[8] > chances[7] > 0.1


def test_chances_of_a_full_row_leave_some_to_other_tokens() -> None:
    table = NextTokens()
    tokens, logits = np.arange(10, 10 + tables.BEST)[None], np.zeros((1, tables.BEST))
    for _ in range(50):
        table.learn([1], [3], tokens, logits)
    total = sum(first(table, 1, 3).values())
    assert total == pytest.approx(tables.BEST / (tables.BEST + tables.TAIL), rel=0.05)


def test_the_tree_is_the_best_of_all_trees_of_its_size() -> None:
    """Against every path of four tokens."""
    random = np.random.default_rng(3)
    table = NextTokens()
    for _ in range(300):
        before, token, *tokens = random.integers(0, 5, 4).tolist()
        if tokens[0] != tokens[1]:
            table.learn([before], [token], np.array([tokens]), np.array([[0.0, -random.exponential()]]))
    values: dict[tuple[int, ...], float] = {(): 1.0}
    for depth in range(1, 5):
        for path in itertools.product(range(5), repeat=depth):
            text = (0, 1, *path)
            chance = first(table, text[-3], text[-2]).get(path[-1], 0.0)
            values[path] = values[path[:-1]] * chance
    best = sorted((value for path, value in values.items() if path), reverse=True)
    parents, tokens, chances = table.likeliest(0, 1, 40, 4, 0.0)
    assert chances == pytest.approx(best[:40])
    paths: list[tuple[int, ...]] = []
    for parent, token in zip(parents, tokens, strict=True):
        assert -1 <= parent < len(paths)
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    assert len(set(paths)) == 40
    assert [values[path] for path in paths] == pytest.approx(chances)
    assert all(chance > 0.02 for chance in table.likeliest(0, 1, 40, 4, 0.02)[2])
    assert table.likeliest(0, 1, 40, 0, 0.0) == ([], [], [])


def test_texts_are_counted_by_one_and_by_two_tokens() -> None:
    """Contexts do not reach over the end of a text, and rare pairs are left out."""
    keys, tokens, chances, rows = count(TEXTS)
    assert sorted(keys.tolist()) == keys.tolist()
    counted = {
        key: (dict(zip(tokens[at].tolist(), chances[at].tolist(), strict=True)), rows[at])
        for at, key in enumerate(keys.tolist())
    }
    assert counted[6][0][7] == pytest.approx(4 / 5)
    assert counted[6][0][8] == pytest.approx(1 / 5)
    assert counted[6][1] == pytest.approx(0.5)
    pair = 6 * 2**32 + 6
    assert counted[pair][0][7] == pytest.approx(3 / 4)
    assert 5 * 2**32 + 6 not in counted, "4 6 came up once"
    assert 8 not in counted
    assert 9 not in counted
    assert count([]) is not None


def test_what_is_learned_starts_from_what_is_shipped_and_leaves_it_alone() -> None:
    shipped = count([[5, 6, 7, 7, 6]] * 30)
    before = [values.copy() for values in shipped]
    domains = NextTokensByDomain(lambda: shipped)
    table, other = domains.of("a"), domains.of("b")
    assert first(table, 5, 6)[7] > 0.7
    learn(table, 5, 6, t8=1.0)
    assert first(table, 5, 6)[8] > 0.1
    assert first(table, 5, 6)[7] > 0.4
    assert 8 not in first(other, 5, 6)
    for values, same in zip(shipped, before, strict=True):
        assert np.array_equal(values, same)


def test_the_domains_used_last_are_kept() -> None:
    domains = NextTokensByDomain()
    learn(domains.of("first"), 1, 2, t3=1.0)
    learn(domains.of("second"), 1, 2, t3=1.0)
    for number in range(MOST_DOMAINS - 1):
        domains.of("second")
        domains.of(f"another {number}")
    assert first(domains.of("second"), 1, 2)
    assert not first(domains.of("first"), 1, 2)


def test_a_table_that_is_full_replaces_contexts_of_few_rows() -> None:
    table = NextTokens(slots=64)
    for _ in range(8):
        learn(table, NOT_BEFORE, 3, t7=1.0)
    for token in range(1000, 1300):
        learn(table, NOT_BEFORE, token, t7=1.0)
    assert first(table, NOT_BEFORE, 3)
    assert sum(bool(first(table, NOT_BEFORE, token)) for token in range(1000, 1300)) <= 63
    assert first(table, NOT_BEFORE, 1299)


def test_a_broken_models_rows_teach_nothing() -> None:
    table = NextTokens()
    learn(table, 1, 3, t7=1.0)
    for value in (math.nan, -math.inf, math.inf):
        table.learn([1], [3], np.array([[7, 9]]), np.array([[value, 0.0]]))
    assert first(table, 1, 3)[7] > 0.5
    assert 9 not in first(table, 1, 3)


def in_python() -> ModuleType:
    """The tables' functions without numba."""
    spec = importlib.util.spec_from_file_location("next_token_tables_in_python", tables.__file__)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    jit = sys.modules["decoder.jit"]
    sys.modules["decoder.jit"] = None  # type: ignore[assignment]
    try:
        spec.loader.exec_module(module)
    finally:
        sys.modules["decoder.jit"] = jit
    return module


def test_compiled_or_not_the_results_are_the_same_bits() -> None:
    pytest.importorskip("numba", reason="without numba there is no compiled version")
    python, random = in_python(), np.random.default_rng(5)
    assert not hasattr(python.grow, "py_func")
    assert hasattr(tables.grow, "py_func")
    shipped = count(random.integers(0, 40, (60, 30)).tolist())
    learned = [entries(128), entries(128)]
    for _ in range(150):
        rows, best = int(random.integers(1, 5)), int(random.integers(1, 11))
        contexts = random.integers(-1, 40, rows), random.integers(0, 40, rows)
        tokens = np.array([random.permutation(60)[:best] for _ in range(rows)])
        logits = -np.sort(random.exponential(3.0, (rows, best)))
        trees = []
        for module, table in zip((tables, python), learned, strict=True):
            module.learn_rows(table, shipped, *contexts, tokens, logits)
            tree = np.zeros(24, np.int64), np.zeros(24, np.int64), np.zeros(24)
            nodes = module.grow(table, shipped, int(contexts[0][0]), int(contexts[1][0]), 6, 0.001, tree)
            trees.append((nodes, *(values[:nodes].tolist() for values in tree)))
        assert trees[0] == trees[1]
        assert trees[0][0] > 0
    for compiled, interpreted in zip(*learned, strict=True):
        assert np.array_equal(compiled, interpreted)
