"""A filter on documents' metadata → SQL for the rows of the documents that pass it.

A filter names metadata keys and the values that they must have, all of them:

    {"team": "travel"}                               equal; 1 and 1.0 are the same number, 1 and true are not the same
    {"year": {"$gte": 2020, "$lt": 2025}}            numbers, or texts such as ISO dates: $gt, $gte, $lt, $lte
    {"team": {"$in": ["travel", "office"]}}          one of several; $nin: none of them; $ne: not equal
    {"tags": {"$contains": "policy"}}                a list that has the value
    {"$or": [{…}, {…}]}, {"$and": […]}, {"$not": {…}}

These are the operators that LangChain's stores use. `$ne`, `$nin` and `$not` also pass documents without the key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retriever.errors import InvalidQuery
from retriever.parsing.text import clean
from retriever.stores.canonical import canonical, spellings

MAX_CONDITIONS = 64
"""Conditions of a filter in all, and values of a `$in`."""
MAX_KEYS = 16
MAX_DEPTH = 8
MAX_NUMBER = 10**300
RANGES = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", "$in", "$nin", *RANGES, "$contains")
_JOINED = {"$and": " INTERSECT ", "$or": " UNION "}
_WITH = "SELECT document FROM document_metadata WHERE key = ? AND element = {element} AND {condition}"

Query = tuple[str, list[object]]
"""SQL for document rows, with its parameters."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a store asks for documents.

    Attributes:
        every: SQL for the rows of all documents.
        condition: SQL for those whose metadata key has an operand by an operator: `$eq`, `$in`, `$contains`, a range.
    """

    every: str
    condition: Callable[[str, str, Any], Query]


def allowed_rows(where: Mapping[str, Any]) -> Query:
    """SQL for the rows of the chunks whose document passes a filter. Raises InvalidQuery."""
    query, parameters = documents(where, SQLITE)
    return f"SELECT row FROM chunks WHERE document IN ({query})", parameters


def documents(where: Mapping[str, Any], dialect: Dialect) -> Query:
    """SQL for the rows of the documents that pass a filter. Raises InvalidQuery."""
    checked(where)
    return _object(where, dialect)


def checked(where: object, depth: int = 0) -> int:
    """The number of conditions. Raises InvalidQuery with what is wrong and what is allowed."""
    if depth > MAX_DEPTH:
        raise InvalidQuery(f"the filter is nested deeper than {MAX_DEPTH}; write it flatter")
    if not isinstance(where, Mapping) or len(where) > MAX_KEYS or any(not isinstance(key, str) for key in where):
        raise InvalidQuery(f"a filter must be an object with at most {MAX_KEYS} metadata keys and their values")
    count = 0
    for key, value in where.items():
        if clean(key) != key:
            raise InvalidQuery(f"the filter's key {key!r} has signs that no text has; leave them out")
        if key in _JOINED:
            if not isinstance(value, Sequence) or isinstance(value, str) or not value:
                raise InvalidQuery(f"{key} needs a list of filters, got {value!r}")
            count += sum(checked(one, depth + 1) for one in value)
        elif key == "$not":
            count += checked(value, depth + 1)
        elif key.startswith("$"):
            raise InvalidQuery(f"{key} is no operator between filters; use $and, $or or $not")
        else:
            count += _checked_value(key, value)
    if count > MAX_CONDITIONS:
        raise InvalidQuery(f"the filter has more than {MAX_CONDITIONS} conditions")
    return count


def _checked_value(key: str, value: object) -> int:
    if not _has_operators(value):
        if isinstance(value, Mapping) and any(str(one).startswith("$") for one in value):
            raise InvalidQuery(
                f"the value of {key!r} mixes operators with other keys; use operators alone, or $eq for an object as "
                "it is"
            )
        _plain(value)
        return 1
    assert isinstance(value, Mapping)
    for operator, operand in value.items():
        if operator not in _OPERATORS:
            raise InvalidQuery(f"{operator} of {key!r} is no operator; use {', '.join(_OPERATORS)}")
        _plain(operand)
        if operator in ("$in", "$nin") and (not isinstance(operand, list) or len(operand) > MAX_CONDITIONS):
            raise InvalidQuery(f"{operator} of {key!r} needs a list of at most {MAX_CONDITIONS} values")
        if operator in RANGES and (isinstance(operand, bool) or not isinstance(operand, int | float | str)):
            raise InvalidQuery(f"{operator} of {key!r} needs a number, or a text such as an ISO date")
        if operator in RANGES and isinstance(operand, int) and abs(operand) > MAX_NUMBER:
            raise InvalidQuery(f"{operator} of {key!r} needs a number of at most 300 digits")
    return len(value)


def _plain(value: object) -> None:
    try:
        canonical(value)
    except (TypeError, ValueError) as error:
        raise InvalidQuery(f"the filter's values must be plain JSON: {error}") from None


def _has_operators(value: object) -> bool:
    return isinstance(value, Mapping) and bool(value) and all(str(key).startswith("$") for key in value)


def _object(where: Mapping[str, Any], dialect: Dialect) -> Query:
    return _joined(" INTERSECT ", [_entry(key, value, dialect) for key, value in where.items()], dialect)


def _entry(key: str, value: Any, dialect: Dialect) -> Query:
    if key in _JOINED:
        return _joined(_JOINED[key], [_object(one, dialect) for one in value], dialect)
    if key == "$not":
        return _without(_object(value, dialect), dialect)
    if not _has_operators(value):
        return dialect.condition(key, "$eq", value)
    conditions = [_condition(key, operator, operand, dialect) for operator, operand in value.items()]
    return _joined(" INTERSECT ", conditions, dialect)


def _condition(key: str, operator: str, operand: Any, dialect: Dialect) -> Query:
    if operator in ("$ne", "$nin"):
        return _without(dialect.condition(key, "$eq" if operator == "$ne" else "$in", operand), dialect)
    return dialect.condition(key, operator, operand)


def _in_sqlite(key: str, operator: str, operand: Any) -> Query:
    if operator in RANGES:
        if isinstance(operand, str):  # texts stand in quotation marks, and other values never do
            condition = f"value {RANGES[operator]} ? AND value LIKE '\"%'"
            return _WITH.format(element=0, condition=condition), [key, canonical(operand)]
        return _WITH.format(element=0, condition=f"number {RANGES[operator]} ?"), [key, float(operand)]
    element = 1 if operator == "$contains" else 0
    values = [text for one in (operand if operator == "$in" else [operand]) for text in spellings(one)]
    marks = ", ".join("?" * len(values))
    return _WITH.format(element=element, condition=f"value IN ({marks})"), [key, *values]


SQLITE = Dialect("SELECT row FROM documents", _in_sqlite)


def _without(query: Query, dialect: Dialect) -> Query:
    return f"{dialect.every} EXCEPT SELECT * FROM ({query[0]}) AS part", query[1]


def _joined(operator: str, queries: Sequence[Query], dialect: Dialect) -> Query:
    if not queries:
        return dialect.every, []
    return (
        operator.join(f"SELECT * FROM ({text}) AS part" for text, _ in queries),
        [value for _, parameters in queries for value in parameters],
    )
