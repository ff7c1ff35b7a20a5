"""`rag collections copy|reindex`: on the store itself, so they need no running stack and may run beside one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from rag_service.answering.models import model_folder
from rag_service.cli.console import CliError, count, print_result, progress_bar, say_warning
from rag_service.cli.options import Json, named
from rag_service.settings import load_settings
from rag_service.stack.exit_status import USAGE
from retriever.errors import RetrieverError
from retriever.types import Progress as OnProgress

if TYPE_CHECKING:
    from retriever.stores.protocol import Stores

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the collection.", callback=named)]
Tenant = Annotated[str, typer.Option("--tenant", "-t", metavar="NAME", help="Tenant whose collection it is.")]


def _size(value: int | None) -> int | None:
    from retriever.stores.splitter import LEAST_SIZE, MOST_SIZE

    if value and not LEAST_SIZE <= value <= MOST_SIZE:
        raise typer.BadParameter(f"it must be from {LEAST_SIZE} to {MOST_SIZE} bytes, or 0 for the default.")
    return value


def copy(
    name: Name,
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="STORE",
            help="Where the copy goes: `postgresql://user:password@host/name`, or the data folder of an embedded "
            "store. The collection itself is where the settings say (RAG_STORE_URL, RAG_DATA_DIR).",
        ),
    ],
    new_name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Name of the copy.  [default: the same]")
    ] = None,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Copy a collection to another store or name: documents, originals, index and ids. Nothing is embedded.

    A copy has its name when it is complete; until then nobody sees it. Stopped at any moment, the same command goes
    on where it stopped. Run on a complete copy, it brings the copy up to date: documents that were changed or deleted
    are changed or deleted in the copy.
    """
    from retriever import copy_collection

    settings = load_settings()
    here = _stores(settings.store, settings.data_dir, tenant)
    with here as source, _named(to, tenant) as target, _errors(), _bar("Copying") as progress:
        report = copy_collection(source, name, target, new_name, progress)
    text = f"{report.collection} has {count(report.documents, 'document')}: {report.stored} copied now"
    print_result(asdict(report), text + (f", {report.removed} removed." if report.removed else "."), as_json)


def reindex(
    name: Name,
    embedding_model: Annotated[
        str | None,
        typer.Option("--embedding-model", metavar="MODEL", help="Embedding model.  [default: RAG_EMBEDDING_MODEL]"),
    ] = None,
    chunk_size: Annotated[
        int | None,
        typer.Option(
            "--chunk-size",
            metavar="BYTES",
            help="Bytes of UTF-8 at which a chunk is full, from 100 to 20000; 0 is the default, 900. Chunks that the "
            "embedding model would not read to their end are smaller.  [default: as it is]",
            min=0,
            callback=_size,
        ),
    ] = None,
    vector_dtype: Annotated[
        Literal["float16", "float32"] | None,
        typer.Option(
            "--vector-dtype",
            metavar="FORMAT",
            help="Number format in which vectors are kept: float16 or float32.  [default: as it is]",
        ),
    ] = None,
    prepare: Annotated[
        bool,
        typer.Option(
            "--prepare", help="Build the new index, and leave the old one in place until the command runs without this."
        ),
    ] = False,
    cancel: Annotated[bool, typer.Option("--cancel", help="Remove an unfinished index, and do nothing else.")] = False,
    tenant: Tenant = "default",
    as_json: Json = False,
) -> None:
    """Build the index of a collection anew, with another embedding model, chunk size or number format.

    The old index serves until the new one is complete and takes its place in one step. Documents added, changed or
    deleted meanwhile are so in the new one. Stopped at any moment, the same command goes on where it stopped.
    docs/how-to/reindex.md says in which order to change the embedding model of a service.
    """
    from retriever import cancel_reindex, make_embedder, reindex_collection

    settings = load_settings()
    model = embedding_model or settings.embedding_model
    with _stores(settings.store, settings.data_dir, tenant) as stores, _errors():
        if cancel:
            removed = cancel_reindex(stores, name)
            text = f"Removed the unfinished index of {name}." if removed else f"{name} has no unfinished index."
            print_result({"collection": name, "removed": removed}, text, as_json)
            return
        folder = partial(model_folder, models_folder=settings.models_folder)
        embedder = make_embedder(model, folder, *settings.embedding_place)
        with _bar("Indexing") as progress:
            report = reindex_collection(
                stores,
                name,
                embedder,
                vector_dtype=vector_dtype,
                chunk_size=chunk_size,
                exchange=not prepare,
                progress=progress,
            )
    size = count(report.documents, "document")
    state = "serves" if report.exchanged else "is ready; the same command without --prepare puts it in place"
    print_result(asdict(report), f"The new index of {name} ({size}) {state}.", as_json)
    if report.exchanged and model != settings.embedding_model:
        say_warning(
            f"The service embeds questions with {settings.embedding_model} and cannot search {name} by meaning. Set "
            f"RAG_EMBEDDING_MODEL={model} for the API and the workers, and restart them."
        )


@contextmanager
def _stores(url: str | None, folder: Path, tenant: str) -> Iterator[Stores]:
    from retriever import open_stores
    from retriever.library import check_name
    from retriever.types import DEFAULT_TENANT

    os.umask(0o077)  # collections are private to this user
    with _errors():
        check_name(tenant)
        opened = open_stores(url, folder)
    try:
        yield opened if tenant == DEFAULT_TENANT else opened.of(tenant)
    finally:
        opened.close()


@contextmanager
def _named(place: str, tenant: str) -> Iterator[Stores]:
    """The store that an option names."""
    if "://" not in place:
        with _stores(None, Path(place), tenant) as stores:
            yield stores
        return
    if not place.startswith(("postgresql://", "postgres://")):
        scheme = place.partition("://")[0]
        raise CliError(f"--to has no store {scheme}://; give postgresql://user:password@host/name or a folder.", USAGE)
    with _stores(place, Path(), tenant) as stores:
        yield stores


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except (RetrieverError, ValueError, OSError) as error:
        text = str(error)
        raise CliError(text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")) from error


@contextmanager
def _bar(title: str) -> Iterator[OnProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with progress_bar(*columns) as progress:
        bar = progress.add_task(title, total=None)

        def on_progress(done: int, total: int, name: str) -> None:
            progress.update(bar, completed=done, total=total)

        yield on_progress
