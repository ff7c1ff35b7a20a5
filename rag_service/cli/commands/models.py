"""`rag models list|pull|heads`: the models that can be had by name, and what drafters want to know of one."""

from __future__ import annotations

from functools import partial
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
    "download": "downloading",
    "extract": "unpacking",
    "measure": "reading",
    "convert": "converting",
    "write": "writing",
    "ready": "ready",
}


@app.command("list", epilog=example("rag models list"))
def list_models(as_json: Json = False) -> None:
    """Models known by name, and whether they are here. A folder or a hub id can be used as well."""
    from decoder.models import available

    settings = load_settings()
    found = [
        {
            "name": status.model.name,
            "kind": status.model.kind,
            "pulled": status.pulled,
            "folder": str(status.folder) if status.folder else None,
            "licence": status.model.licence,
            "disk_bytes": status.model.disk_bytes,
            "about": status.model.about,
        }
        for status in available(settings.models_folder)
    ]
    if as_json:
        print_json({"models_dir": str(settings.models_folder), "models": found})
        return
    screen = out()
    for model in found:
        state = "here" if model["pulled"] else f"not here ({int(str(model['disk_bytes'])) / 1e6:.0f} MB)"
        screen.print(f"{model['name']}  {model['kind']}  {state}", style="bold", markup=False)
        screen.print(f"  {model['about']} ({model['licence']})", markup=False)


@app.command("pull", epilog=example("rag models pull smollm2-135m", "rag models pull Qwen/Qwen2.5-7B-Instruct"))
def pull(
    names: Annotated[list[str], typer.Argument(metavar="NAMES…", help="Names, or hub ids such as owner/name.")],
    as_json: Json = False,
) -> None:
    """Download models, check them, and convert them where needed. What is here already is left alone."""
    from decoder.models import ModelError, PullFailed
    from decoder.models import pull as pull_model

    settings = load_settings()
    pulled = []
    for name in names:
        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
        with Progress(*columns, TimeElapsedColumn(), console=err()) as progress:
            bar = progress.add_task(name, total=None)
            try:
                folder = pull_model(name, settings.models_folder, partial(_show, progress, bar, name))
            except (ModelError, PullFailed) as error:
                progress.stop()
                raise CliError(str(error)) from None
        pulled.append({"name": name, "folder": str(folder)})
        if not as_json:
            out().print(f"{name} is in {folder}", markup=False)
    if as_json:
        print_json({"models": pulled})


@app.command("heads", epilog=example("rag models heads smollm2-135m --limit 20"))
def heads(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A name, a folder, or a hub id such as owner/name.")],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help='JSONL of {"text": "…"} to repeat, or of benchmark items. Default: built-in texts.'
        ),
    ] = None,
    file: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write. Default: in the model's folder.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", help="Prompts at most, spread evenly over the data.")
    ] = None,
    dtype: Annotated[str, typer.Option(metavar="NAME", help="Precision the model runs in.")] = "float32",
    device: Annotated[str, typer.Option(metavar="DEVICE", help="cpu, cuda, cuda:1, …")] = "cpu",
    as_json: Json = False,
) -> None:
    """Find the attention heads that look at what the model copies, for drafter `pld_plus` with ranking `a`."""
    from decoder.bench import find_heads
    from decoder.models import PullFailed

    settings = load_settings()
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    with Progress(*columns, TimeElapsedColumn(), console=err()) as progress:
        bar = progress.add_task(f"{model}: loading", total=None)

        def show(answered: int, prompts: int, tokens: int) -> None:
            said = f"{model}: {tokens} copied tokens in {answered} answers"
            progress.update(bar, description=said, completed=answered, total=prompts)

        try:
            path, found = find_heads(
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
        print_json({"model": model, "file": str(path), "tokens": found.tokens, "heads": found.pairs})
        return
    best = found.ranked[0]
    out().print(f"{len(found.ranked)} of {found.layers * found.heads} heads are in {path}", markup=False)
    out().print(
        f"best: layer {best.layer}, head {best.head}; it looked at the source of {best.score:.0%} of {found.tokens} "
        "copied tokens",
        markup=False,
    )


def _show(progress: Progress, bar: TaskID, name: str, stage: str, done: int, total: int) -> None:
    progress.update(bar, description=f"{name}: {_STAGES.get(stage, stage)}", completed=done, total=total or None)
