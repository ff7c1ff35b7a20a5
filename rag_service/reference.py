"""Writes the generated pages of docs/: settings, the command line, the HTTP API, metrics.

    python -m rag_service.reference docs

`PAGES` maps each file to the function that returns its text.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from rag_service.api.metrics import metrics_page
from rag_service.api_reference import api_page
from rag_service.cli.reference import cli_page
from rag_service.settings import settings_table

PAGES: dict[str, Callable[[], str]] = {
    "api.md": api_page,
    "cli.md": cli_page,
    "metrics.md": metrics_page,
    "settings.md": settings_table,
}


def write(folder: Path) -> None:
    for name, page in PAGES.items():
        (folder / name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
