"""`rag bench decode|promise|record|simulate`, handed on to `decoder.bench`, and `sessions|citations`, to
`rag_service.bench`. All have options of their own.
"""

from __future__ import annotations

import typer

CONTEXT = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
SESSIONS = "sessions"
CITATIONS = "citations"
MORE = {
    SESSIONS: "conversations over HTTP, turn by turn: earlier turns reused, processed anew, and plain",
    CITATIONS: "citations against quotations marked by people",
}
"""Commands that the decoder's benchmark does not have, and what its help says of them."""


def bench(context: typer.Context) -> None:
    """Measure decoding, conversations and citations: `rag bench --help` lists what there is."""
    if context.args[:1] == [SESSIONS]:
        from rag_service.bench import main as sessions

        raise typer.Exit(sessions(context.args[1:], f"rag bench {SESSIONS}"))
    if context.args[:1] == [CITATIONS]:
        from decoder.models import resolve
        from rag_service.bench.citations import main as citations
        from rag_service.settings import load_settings

        folder = load_settings().models_folder
        raise typer.Exit(citations(context.args[1:], f"rag bench {CITATIONS}", lambda model: resolve(model, folder)))
    from decoder.bench import main

    raise typer.Exit(main(context.args, "rag bench", MORE))
