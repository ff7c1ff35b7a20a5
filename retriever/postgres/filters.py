"""The filters of `stores.filters` as queries of PostgreSQL. The same conditions on the same canonical values.

Keys and values are compared as JSON in ASCII, so any text can be stored, and byte by byte. An index of PostgreSQL has
no room for long values: it holds their beginnings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

from retriever.stores import filters
from retriever.stores.canonical import canonical, rows, spellings
from retriever.stores.filters import Query

PREFIX = 200
"""Characters of a value that the index holds."""
_Row = tuple[str, int, str, str, float | None]


def stored_rows(metadata: Mapping[str, Any]) -> Iterator[_Row]:
    """The rows of a document's metadata: key, whether an element of a list, beginning of the value, value, number."""
    for key, value, number, element in rows(metadata):
        yield _key(key), element, value[:PREFIX], value, number


def allowed_documents(collection: int, where: Mapping[str, Any]) -> Query:
    """SQL for the rows of the documents that pass a filter. Raises InvalidQuery."""
    every = f"SELECT row FROM documents WHERE collection = {collection}"
    table = f"SELECT document FROM document_metadata WHERE collection = {collection} AND key = %s"

    def condition(key: str, operator: str, operand: Any) -> Query:
        query = f"{table} AND element = {1 if operator == '$contains' else 0}"
        if operator not in filters.RANGES:
            values = [text for one in (operand if operator == "$in" else [operand]) for text in spellings(one)]
            starts = [value[:PREFIX] for value in values]
            return f"{query} AND prefix = ANY(%s) AND value = ANY(%s)", [_key(key), starts, values]
        sign = filters.RANGES[operator]
        if isinstance(operand, str):  # texts stand in quotation marks, and other values never do
            bounds = f"prefix {sign[0]}= %s AND value {sign} %s AND starts_with(value, '\"')"
            bound = canonical(operand)
            return f"{query} AND {bounds}", [_key(key), bound[:PREFIX], bound]
        return f"{query} AND number {sign} %s", [_key(key), float(operand)]

    return filters.documents(where, filters.Dialect(every, condition))


def _key(key: str) -> str:
    stored = canonical(key)
    return stored if len(stored) <= PREFIX else f"{stored[:PREFIX]}{hashlib.sha256(stored.encode()).hexdigest()}"
