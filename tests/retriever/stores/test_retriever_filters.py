"""Filters pass exactly the documents that they say, in every mode."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retriever import Collection, InvalidQuery, Library, SourceDocument
from retriever.stores import canonical
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("each_store")

DOCUMENTS: dict[str, dict[str, Any]] = {
    "a": {"team": "travel", "year": 2020, "tags": ["x", "y"], "date": "2020-05-01"},
    "b": {"team": "office", "year": 2023.5, "tags": ["y", 3], "date": "2023"},
    "c": {"team": "travel", "year": "2021", "tags": [], "draft": True},
    "d": {"team": None, "year": -1, "place": {"city": "Zürich"}, "tags": "x"},
    "e": {},
    "f": {"year": 2020.0, "tags": [3.0, 3], "place": {"floors": [1, 2.0]}, "draft": 1, "serial": 2**53 + 1},
}


@pytest.fixture(scope="module")
def collection(each_store: str, tmp_path_factory: pytest.TempPathFactory) -> Collection:
    made = Library(tmp_path_factory.mktemp("library"), HashEmbedder()).create("docs")
    sources = [SourceDocument(document_id=one, text=f"zebra {one}", metadata=more) for one, more in DOCUMENTS.items()]
    made.ingest(sources)
    return made


def found(collection: Collection, where: Any, mode: Any = "hybrid") -> str:
    return "".join(sorted(passage.document_id for passage in collection.search("zebra", 20, mode, where)))


@pytest.mark.parametrize("mode", ["hybrid", "dense", "lexical"])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({}, "abcdef"),
        ({"team": "travel"}, "ac"),
        ({"team": {"$eq": "travel"}, "year": 2020}, "a"),
        ({"team": {"$ne": "travel"}}, "bdef"),
        ({"team": None}, "d"),
        ({"team": {"$in": ["office", None]}}, "bd"),
        ({"team": {"$nin": ["office", None]}}, "acef"),
        ({"team": {"$in": []}}, ""),
        ({"year": {"$gte": 2020}}, "abf"),
        ({"year": {"$gt": 2020, "$lt": 3000}}, "b"),
        ({"year": {"$lte": -1}}, "d"),
        ({"year": {"$gte": "2021"}}, "c"),
        ({"date": {"$gte": "2020-05", "$lt": "2021"}}, "a"),
        ({"date": {"$lt": "2024"}}, "ab"),
        ({"tags": {"$contains": "y"}}, "ab"),
        ({"tags": {"$contains": 3}}, "bf"),
        ({"tags": {"$contains": "x"}}, "a"),
        ({"tags": "x"}, "d"),
        ({"tags": ["x", "y"]}, "a"),
        ({"place": {"city": "Zürich"}}, "d"),
        ({"draft": True}, "c"),
        ({"draft": {"$lt": 2}}, "f"),
        ({"$or": [{"team": "office"}, {"draft": True}]}, "bc"),
        ({"$and": [{"team": "travel"}, {"$not": {"draft": True}}]}, "a"),
        ({"$not": {}}, ""),
        ({"team": "travel", "$or": [{"year": 2020}, {"year": 1}]}, "a"),
        ({"unknown": 1}, ""),
        ({"year": {"$lt": 10**30}}, "abdf"),
        ({"year": 2020}, "af"),
        ({"year": 2020.0}, "af"),
        ({"year": 2020.0, "team": "travel"}, "a"),
        ({"year": {"$ne": 2020.0}}, "bcde"),
        ({"year": {"$in": [2020.0, -1.0]}}, "adf"),
        ({"year": {"$nin": [2020.0]}}, "bcde"),
        ({"tags": {"$contains": 3.0}}, "bf"),
        ({"tags": ["y", 3.0]}, "b"),
        ({"tags": [3, 3]}, "f"),
        ({"place": {"floors": [1.0, 2]}}, "f"),
        ({"draft": 1.0}, "f"),
        ({"draft": {"$in": [True]}}, "c"),
        ({"serial": 2**53 + 1}, "f"),
        ({"serial": 2**53}, ""),
        ({"serial": float(2**53)}, ""),
    ],
)
def test_filters(collection: Collection, mode: str, where: Any, expected: str) -> None:
    assert found(collection, where, mode) == expected


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"$nor": []}, "use \\$and, \\$or or \\$not"),
        ({"$or": []}, "list of filters"),
        ({"$or": {"a": 1}}, "list of filters"),
        ({"$and": ["x"]}, "object with at most"),
        ({"a": {"$near": 1}}, "no operator"),
        ({"a": {"$in": "x"}}, "needs a list"),
        ({"a": {"$gt": 1, "x": 2}}, "mixes operators with other keys"),
        ({"$not": {"a": {"x": 2, "$gt": 1}}}, "mixes operators with other keys"),
        ({"a": {"$gt": True}}, "number, or a text"),
        ({"a": float("nan")}, "plain JSON"),
        ({"a": {"$gt": 10**400}}, "300 digits"),
        ({"\ud800": 1}, "signs that no text has"),
        ({"$or": [{"a": n} for n in range(100)]}, "more than 64"),
    ],
)
def test_what_is_no_filter_is_said(collection: Collection, where: Any, said: str) -> None:
    with pytest.raises(InvalidQuery, match=said):
        found(collection, where)


def test_nesting_is_bounded(collection: Collection) -> None:
    where: Any = {"a": 1}
    for _ in range(9):
        where = {"$not": where}
    with pytest.raises(InvalidQuery, match="nested"):
        found(collection, where)


KEYS = st.sampled_from(["team", "year", "tags", "date", "draft"])
VALUES = st.sampled_from(
    ["travel", "office", None, 2020, 2020.0, 2023.5, "2021", ["x", "y"], [3], "x", 3, 3.0, True, 1, "2020-05-01"]
)
EQUAL = st.sampled_from(["$eq", "$ne", "$contains"])
RANGES = st.sampled_from(["$gt", "$lte"])
BOUNDS = st.sampled_from([2020, "2021"])
CONDITIONS = st.one_of(
    st.dictionaries(KEYS, VALUES, max_size=2),
    st.builds(lambda key, operator, value: {key: {operator: value}}, KEYS, EQUAL, VALUES),
    st.builds(lambda key, values: {key: {"$in": values}}, KEYS, st.lists(VALUES, max_size=3)),
    st.builds(lambda key, operator, value: {key: {operator: value}}, KEYS, RANGES, BOUNDS),
)
FILTERS = st.recursive(
    CONDITIONS,
    lambda inner: st.one_of(
        st.builds(lambda parts: {"$or": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda parts: {"$and": parts}, st.lists(inner, min_size=1, max_size=3)),
        st.builds(lambda part: {"$not": part}, inner),
    ),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(where=FILTERS)
def test_filters_mean_what_they_say(collection: Collection, where: Any) -> None:
    assert found(collection, where, "lexical") == "".join(one for one, more in DOCUMENTS.items() if passes(where, more))


def passes(where: Any, metadata: dict[str, Any]) -> bool:
    """The same by Python."""
    return all(_entry(key, value, metadata) for key, value in where.items())


def _entry(key: str, value: Any, metadata: dict[str, Any]) -> bool:
    if key in ("$or", "$and"):
        return (any if key == "$or" else all)(passes(one, metadata) for one in value)
    if key == "$not":
        return not passes(value, metadata)
    if not (isinstance(value, dict) and value and all(name.startswith("$") for name in value)):
        value = {"$eq": value}
    return all(_holds(operator, operand, key, metadata) for operator, operand in value.items())


def _holds(operator: str, operand: Any, key: str, metadata: dict[str, Any]) -> bool:
    stored = metadata.get(key)
    same = key in metadata and _same(stored, operand)
    if operator in ("$eq", "$ne"):
        return same == (operator == "$eq")
    if operator == "$in":
        return key in metadata and any(_same(stored, one) for one in operand)
    if operator == "$contains":
        return isinstance(stored, list) and any(_same(one, operand) for one in stored)
    comparable = isinstance(stored, str) if isinstance(operand, str) else isinstance(stored, int | float)
    if not comparable or isinstance(stored, bool) or stored is None:
        return False
    return bool(stored > operand if operator == "$gt" else stored <= operand)


def _same(one: Any, other: Any) -> bool:
    """Whether two values are equal in JSON, where true is no number."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return bool(one == other)


def test_numbers_are_found_in_collections_of_earlier_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They wrote 2020.0 where this one writes 2020."""
    made = Library(tmp_path, HashEmbedder()).create("earlier")
    with monkeypatch.context() as earlier:
        earlier.setattr(canonical, "comparable", canonical.canonical)
        for name, value in (("a", 2020), ("b", 2020.0), ("c", [2020.0]), ("d", 2.5), ("e", 1e22), ("f", 10**22)):
            made.ingest([SourceDocument(document_id=name, text=f"zebra {name}", metadata={"year": value})])
    assert [found(made, {"year": value}) for value in (2020, 2020.0, 2.5, 1e22, 10**22)] == [
        "ab",
        "ab",
        "d",
        "ef",
        "ef",
    ]
    assert found(made, {"year": {"$contains": 2020}}) == found(made, {"year": [2020.0]}) == "c"
