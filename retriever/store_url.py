"""Where a library's collections are: the store that a URL names, or the embedded one."""

from __future__ import annotations

from pathlib import Path

from retriever.embedded.stores import EmbeddedStores
from retriever.errors import StoreUnavailable
from retriever.stores.protocol import Stores


def open_stores(url: str | None, data_dir: Path) -> Stores:
    """The collections in the PostgreSQL database of a URL, `postgresql://…`; those in `data_dir` if there is none.

    Nothing is connected yet. Raises ValueError for another URL, StoreUnavailable if psycopg is not installed.
    """
    if url is None:
        return EmbeddedStores(data_dir)
    try:
        from retriever.postgres.stores import PostgresStores
    except ImportError as error:
        raise StoreUnavailable(
            f"RAG_STORE_URL needs a package that is missing ({error}); "
            "run `pip install -e '.[postgres]'` in the project's folder"
        ) from error
    return PostgresStores(url)
