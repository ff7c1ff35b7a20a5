"""`rag sync SOURCE`: keeps the documents of a collection in step with a folder or a bucket."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.cli.commands.documents.ingest import PATIENCE_S
from rag_service.cli.confirm import agreed
from rag_service.cli.console import CliError, count, err, out, progress_bar, say_dim, say_error
from rag_service.cli.options import ApiKey, Json, Url
from rag_service.cli.stack.connect import connect
from rag_service.cli.sync.documents import SyncedDocuments
from rag_service.cli.sync.report import print_counts, print_failures, print_outcome_json, print_plan
from rag_service.stack.exit_status import FAILED, INTERRUPTED, USAGE
from rag_service.sync.changes import Changes
from rag_service.sync.folder_source import FolderSource
from rag_service.sync.mirror import Mirror, Outcome
from rag_service.sync.plan import Plan
from rag_service.sync.s3_source import SCHEME, S3Source
from rag_service.sync.selection import Selection
from rag_service.sync.source import Source, SourceUnavailable

EVERY_S = 600.0
EVERY_S3_S = 60.0
"""A full pass at least so often, with --watch: of a folder, whose changes are seen at once, and of a bucket."""


def sync(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="A folder, or s3://BUCKET/PREFIX (needs the extra `s3`).")
    ],
    collection: Annotated[
        str, typer.Option("--collection", "-c", metavar="NAME", help="Collection; created if needed.")
    ] = DEFAULT_COLLECTION,
    name: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the source in the collection.  [default: the folder's own]"),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only such files. Patterns are those of .gitignore.")
    ] = None,
    exclude: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="No such files or folders; also the lines of a folder's `.ragignore`."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Remove documents without asking.")] = False,
    no_delete: Annotated[bool, typer.Option("--no-delete", help="Remove no documents.")] = False,
    delete_many: Annotated[
        bool,
        typer.Option("--delete-many", help="Also remove more than half of the documents, or those of empty folders."),
    ] = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on until Ctrl-C. Removes documents only with --yes.")
    ] = False,
    every: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="With --watch, compare at least so often.  [default: 600; s3: 60]", min=1),
    ] = None,
    endpoint_url: Annotated[
        str | None, typer.Option(metavar="URL", help="Server of an s3:// source.  [default: Amazon's]")
    ] = None,
    url: Url = None,
    api_key: ApiKey = None,
    as_json: Json = False,
) -> None:
    """Bring the documents of a collection in step with a folder or a bucket: new, changed, renamed and removed files.

    Removals are listed and confirmed first. Nothing is removed because a folder cannot be read or a disk is not there.
    Documents that came another way stay as they are. The exit status is 1 if the two are not in step after it.
    """
    if yes and no_delete:
        raise CliError("--yes removes documents and --no-delete does not; choose one.", USAGE)
    if name is not None and (not name.strip() or "/" in name or name.startswith(".")):
        raise CliError("--name must not be empty, contain `/` or begin with a full stop.", USAGE)
    if watch and dry_run:
        raise CliError("--dry-run looks once; leave out --watch.", USAGE)
    try:
        opened = _open(source, name, endpoint_url, Selection(include or (), exclude or ()))
    except SourceUnavailable as unavailable:
        raise CliError(str(unavailable)) from None
    except ValueError as error:  # a pattern
        raise CliError(f"A pattern cannot be read: {error}", USAGE) from None
    with connect(url, api_key, PATIENCE_S) as api:
        mirror = Mirror(opened, SyncedDocuments(api, collection, create=not dry_run), delete_many=delete_many)
        once = _Pass(mirror, opened.name, collection, yes, no_delete, dry_run, as_json, watch)
        if watch:
            folder = opened.root if isinstance(opened, FolderSource) else None
            _watch(once, folder, every or (EVERY_S3_S if folder is None else EVERY_S))
        elif not once.run():
            raise typer.Exit(FAILED)


@dataclass
class _Pass:
    """One comparison and what follows from it, as the options say."""

    mirror: Mirror
    source: str
    collection: str
    yes: bool
    no_delete: bool
    dry_run: bool
    as_json: bool
    watch: bool
    told: object = None
    """What was shown last."""

    def run(self) -> bool:
        """Whether source and collection are in step now. Raises CliError."""
        try:
            with err().status("Comparing …"):
                plan = self.mirror.plan()
        except SourceUnavailable as unavailable:
            raise CliError(f"{unavailable} Nothing was changed.") from None
        if not self.as_json:
            self._print(plan)
        if self.dry_run:
            outcome = Outcome(plan, failures=list(plan.failures))
        else:
            outcome = self._carry_out(plan, self._may_remove(plan))
        if self.as_json:
            print_outcome_json(outcome, self.source, self.collection, self.dry_run, one_line=self.watch)
        else:
            self._print_outcome(outcome)
        removals_wanted = not (self.no_delete or self.dry_run)
        left = removals_wanted and len(outcome.removed) < len(plan.removed)
        return not (outcome.failures or plan.kept or plan.refusal or plan.unreadable or left)

    def _print(self, plan: Plan) -> None:
        """While watching, what the last pass said already is not said again."""
        told = (plan.uploads, plan.removed, plan.kept, plan.skipped, plan.refusal)
        if not self.watch or told != self.told:
            print_plan(plan, self.source, self.collection)
        self.told = told

    def _print_outcome(self, outcome: Outcome) -> None:
        print_failures(outcome)
        if self.dry_run:
            out().print("Nothing was changed.")
            return
        if not self.watch or outcome.plan.uploads or outcome.removed:
            print_counts(outcome, self.source, self.collection)
        left = len(outcome.plan.removed) - len(outcome.removed)
        if left and not outcome.plan.refusal and not self.no_delete and not self.watch:
            stay = "The document of 1 removed file stays" if left == 1 else f"Documents of {left} removed files stay"
            err().print(f"{stay}; --yes removes {'it' if left == 1 else 'them'}.", style="yellow")

    def _may_remove(self, plan: Plan) -> bool:
        if not plan.removed or plan.refusal or self.no_delete:
            return False
        if self.yes or self.watch or self.as_json:
            return self.yes
        return agreed(f"Remove {count(len(plan.removed), 'document')}?")

    def _carry_out(self, plan: Plan, remove: bool) -> Outcome:
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with progress_bar(*columns) as progress:
            bar = progress.add_task("Ingesting", total=len(plan.uploads))
            return self.mirror.carry_out(
                plan, remove=remove, progress=lambda done, _: progress.update(bar, completed=done)
            )


def _open(source: str, name: str | None, endpoint_url: str | None, selection: Selection) -> Source:
    if source.startswith(SCHEME):
        return S3Source(source, name, endpoint_url=endpoint_url, selection=selection)
    if endpoint_url is not None:
        raise CliError("--endpoint-url is for s3:// sources.", USAGE)
    return FolderSource(Path(source), name, selection)


def _watch(once: _Pass, folder: Path | None, every: float) -> None:
    """Compare now, after changes, and at least every `every` seconds, until Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    idle = False
    try:
        if not (once.yes or once.no_delete):
            say_dim("Removed files are only listed; with --yes their documents are removed.")
        with Changes(folder) as changes:
            while True:
                idle = False
                try:
                    once.run()
                except CliError as error:
                    say_error(f"{error} Trying again in {min(every, 60):.0f} s, or at the next change.")
                    pause = min(every, 60)
                else:
                    pause = every
                idle = True
                changes.wait(pause)
                changes.restart()
    except KeyboardInterrupt:
        say_dim("Stopped." if idle else "Stopped in the middle; the next sync goes on.")
        raise typer.Exit(0 if idle else INTERRUPTED) from None
