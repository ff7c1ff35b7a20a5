"""`rag bench` and `rag train`: delegated, with all arguments, to the packages that parse them."""

from __future__ import annotations

from pathlib import Path

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
SERVICE_BENCHMARKS = {
    "sessions": "conversations over HTTP, turn by turn: with and without reuse of earlier turns, and plain",
    "citations": "citations against quotations marked by people",
    "answers": "whether answers are right, cited and honest, over HTTP",
    "retrieval": "whether the right document is retrieved, in every mode, and how fast",
}
"""Commands of `rag_service.bench`, with their help; `decoder.bench` has the others."""


def bench(context: typer.Context) -> None:
    """Measure decoding, conversations, retrieval and citations. `rag bench --help` lists the commands."""
    command, arguments = next(iter(context.args), ""), context.args[1:]
    if command == "sessions":
        from rag_service.bench import main as sessions

        raise typer.Exit(sessions(arguments, "rag bench sessions"))
    if command == "answers":
        from rag_service.bench.answers.run import main as answers

        raise typer.Exit(answers(arguments, "rag bench answers"))
    if command in ("citations", "retrieval"):
        from decoder.models import resolve
        from rag_service.bench.citations import main as citations
        from rag_service.bench.retrieval.run import main as retrieval

        folder = _models_folder()
        measure = citations if command == "citations" else retrieval
        raise typer.Exit(measure(arguments, f"rag bench {command}", lambda model: resolve(model, folder)))
    from decoder.bench import main

    raise typer.Exit(main(context.args, "rag bench", SERVICE_BENCHMARKS, _models_folder()))


def train(context: typer.Context) -> None:
    """Train drafters for a model. `rag train --help` lists the commands."""
    from decoder.training import main

    raise typer.Exit(main(context.args, "rag train", _models_folder()))


def _models_folder() -> Path:
    """Where `rag models pull` puts models."""
    from rag_service.settings import load_settings

    return load_settings().models_folder
