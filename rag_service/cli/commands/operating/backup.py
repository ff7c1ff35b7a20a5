"""`rag backup` and `rag restore`: everything that the service keeps, in one file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from rag_service.answering.models import model_folder
from rag_service.cli.console import CliError, count, print_result, progress_bar, say_dim, say_warning
from rag_service.cli.options import Json
from rag_service.cli.stack import addresses
from rag_service.cli.stack.data_folder import keep_private, only_one
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings
from rag_service.stack.exit_status import UNREACHABLE, USAGE
from retriever.embedding.provider_name import names_provider

if TYPE_CHECKING:
    from rag_service.backup.manifest import Manifest
    from rag_service.backup.progress import Progress as OnProgress
    from workers.broker.app import RedisClient


def backup(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Archive to write, such as rag.tar.gz.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Save collections, ingests, sessions, answers, API keys and usage in one file. The service may run meanwhile.

    Models are not in it, nor the local key, logs and what was learned about speed. Everyone who can read the file can
    read the documents and conversations in it.
    """
    from rag_service.backup.saving import save

    settings = load_settings()
    with _errors(), _redis(settings) as client, _bar() as progress:
        manifest = save(file, settings, client, replace=force, progress=progress)
        size = file.stat().st_size
    told = {"file": str(file), "bytes": size, **_told(manifest)}
    print_result(told, f"Saved {_contents(manifest)} in {file} ({size / 1e6:.1f} MB).", as_json)


def restore(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Archive that `rag backup` wrote.")],
    check: Annotated[bool, typer.Option("--check", help="Only check that the file is whole, and say what it has.")] = (
        False
    ),
    as_json: Json = False,
) -> None:
    """Put an archive's contents into an empty data folder, Redis and database, as the settings name them.

    The service must be stopped. Nothing is merged: what is there already is refused, and a damaged archive changes
    nothing. What had an end to its time keeps it, so sessions and answers that have expired by now stay away.
    """
    from rag_service.backup import restoring

    settings = load_settings()
    with _errors(), ExitStack() as stack:
        progress = stack.enter_context(_bar())
        manifest = restoring.check(file, progress)
        if check:
            text = f"{file} is whole: {_contents(manifest)}, saved {manifest.created} by {manifest.service_version}."
            print_result({"file": str(file), **_told(manifest)}, text, as_json)
            return
        url = None if settings.redis_url is None else addresses.with_password(settings)
        say_dim(f"Restoring into {_places(settings)}.")
        keep_private(settings.data_dir)
        stack.enter_context(_stopped(settings))
        expired = restoring.restore(file, manifest, settings, url, progress)
    missing = _missing_models(manifest, settings)
    text = f"Restored {_contents(manifest)}, saved {manifest.created}, into {_places(settings)}."
    if expired:
        text += f" {count(expired, 'key')} of Redis had expired by now."
    told = {
        "file": str(file),
        **_told(manifest),
        "data_dir": str(settings.data_dir.resolve()),
        "expired": expired,
        "missing_models": missing,
    }
    print_result(told, text, as_json)
    if manifest.counts.api_keys:
        say_warning(
            "API keys are as they were at the backup: those revoked since are valid again. Revoke them again: "
            "`rag keys list`, `rag keys revoke ID`."
        )
    for name in missing:
        own = name.startswith(("/", ".", "~")) or name.count("/") > 1
        fix = "copy its folder, or name another model" if own else f"`rag models pull {name}` gets it"
        say_dim(f"The model {name} is not here: {fix}.")
    _compare(manifest, settings)


@contextmanager
def _redis(settings: Settings) -> Iterator[RedisClient]:
    """The service's Redis: that of the settings, that of the running stack, or the private one, started meanwhile."""
    from rag_service.backup.redis_reading import TIMEOUT_S
    from workers.broker.app import make_redis
    from workers.broker.embedded_redis import EmbeddedRedis

    with ExitStack() as stack:
        url = addresses.redis_url(settings)
        if url is None:
            if not settings.data_dir.is_dir():
                raise CliError(f"There is no data folder {settings.data_dir}. Set RAG_DATA_DIR to the service's.")
            stack.enter_context(only_one(settings.data_dir))
            url = stack.enter_context(EmbeddedRedis(settings.data_dir.resolve() / "redis")).url
        client = make_redis(url, decode=False, timeout_s=TIMEOUT_S)
        stack.callback(client.close)
        yield client


@contextmanager
def _stopped(settings: Settings) -> Iterator[None]:
    """Keep `rag up` from starting. Raises CliError if it runs."""
    with ExitStack() as stack:
        try:
            stack.enter_context(only_one(settings.data_dir))
        except CliError as error:
            raise CliError(f"A restore needs the service stopped. {error}") from None
        yield


@contextmanager
def _errors() -> Iterator[None]:
    from retriever.errors import RetrieverError
    from workers.broker.embedded_redis import EmbeddedRedisError
    from workers.errors import QueueUnavailable

    try:
        yield
    except QueueUnavailable as error:
        raise CliError(_sentence(error), UNREACHABLE) from None
    except (RetrieverError, EmbeddedRedisError, OSError) as error:
        raise CliError(_sentence(error)) from error
    except ImportError as error:
        reason = (
            f"RAG_STORE_URL needs a package that is missing ({error}); "
            "run `pip install -e '.[postgres]'` in the project's folder"
        )
        raise CliError(f"{reason}.") from error
    except ValueError as error:  # of a URL
        raise CliError(_sentence(error), USAGE) from None


def _sentence(error: Exception) -> str:
    text = str(error)
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


@contextmanager
def _bar() -> Iterator[OnProgress]:
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with progress_bar(*columns) as progress:
        bar = progress.add_task("", total=None)

        def on_progress(what: str, done: int, total: int | None) -> None:
            progress.update(bar, description=what, completed=done, total=total)

        yield on_progress


def _contents(manifest: Manifest) -> str:
    counts = manifest.counts
    return ", ".join(
        [
            f"{count(counts.collections, 'collection')} with {count(counts.documents, 'document')}",
            count(counts.jobs, "ingest"),
            count(counts.sessions, "session"),
            count(counts.answers, "answer"),
            count(counts.api_keys, "API key"),
        ]
    )


def _places(settings: Settings) -> str:
    """Where a restore puts things."""
    places = [f"the data folder {settings.data_dir.resolve()}"]
    places += ["the Redis of RAG_REDIS_URL"] * (settings.redis_url is not None)
    places += ["the database of RAG_STORE_URL"] * (settings.store_url is not None)
    return f"{', '.join(places[:-1])} and {places[-1]}" if len(places) > 1 else places[0]


def _told(manifest: Manifest) -> dict[str, Any]:
    """The manifest without what only a restore needs."""
    return manifest.model_dump(exclude={"members", "columns"})


def _missing_models(manifest: Manifest, settings: Settings) -> list[str]:
    """The models of the archive's service that are not on this machine."""
    missing = []
    for name, model in manifest.models.items():
        if name.startswith("RAG_UPSTREAM") or names_provider(model):
            continue
        try:
            model_folder(model, settings.models_folder)
        except InvalidSettings:
            missing.append(model)
    return missing


def _compare(manifest: Manifest, settings: Settings) -> None:
    """Say which settings name other models than those of the archive's service."""
    for name, model in manifest.models.items():
        here = getattr(settings, name.removeprefix("RAG_").lower(), model)
        if here != model:
            say_warning(f"The saved service had {name}={model}; here it is {here or 'not set'}.")
