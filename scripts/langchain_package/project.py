"""The project file and the page of the package, made from this repository's."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from closure import Closure
from names import PACKAGE, Names

NAME = "langchain-rag-service"
DESCRIPTION = "LangChain's chat model, language model and retriever for a rag-service, and its Python client"
BROUGHT_BY = {
    "anyio": "httpx",
    "httpx": "httpx",
    "httpx_sse": "httpx-sse",
    "langchain_core": "langchain-core",
    "pydantic": "pydantic",
    "pydantic_core": "pydantic",
}
"""What the package may import from elsewhere, and the dependency that brings it."""
UNUSED = ("Which to install", "Examples")
"""Sections of docs/langchain.md that are of no use to readers of the package's page."""


def dependencies(found: Closure, project: dict[str, Any], standard_library: frozenset[str]) -> list[str]:
    """The requirements of what is imported, with the bounds that this repository has.

    Args:
        project: this repository's `[project]`.

    Raises:
        ValueError: something is imported that the package does not bring.
    """
    needed = set()
    for name in found.foreign:
        if name in BROUGHT_BY:
            needed.add(BROUGHT_BY[name])
        elif name not in standard_library:
            allowed = ", ".join(sorted(BROUGHT_BY))
            raise ValueError(f"{found.importers[name]} imports {name}; {NAME} has only {allowed}")
    return sorted(line for line in project["dependencies"] if re.split(r"[^\w-]", line)[0] in needed)


def project_file(root: Path, found: Closure, names: Names, standard_library: frozenset[str]) -> str:
    """pyproject.toml of the package: this repository's version, licence and bounds."""
    own = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    project = own["project"]
    packages = sorted(names.modules[old] for old, file in found.files.items() if _is_package(old, file, names))
    tables: dict[str, dict[str, Any]] = {
        "build-system": own["build-system"],
        "project": {
            "name": NAME,
            "version": project["version"],
            "description": DESCRIPTION,
            "readme": "README.md",
            "requires-python": project["requires-python"],
            "license": project["license"],
            "license-files": ["LICENSE"],
            "classifiers": ["Typing :: Typed"],
            "dependencies": dependencies(found, project, standard_library),
        },
        "tool.setuptools": {"packages": packages},
        "tool.setuptools.package-data": {PACKAGE: ["py.typed"]},
    }
    return "\n".join(f"[{table}]\n{_lines(fields)}" for table, fields in tables.items())


def page(root: Path, names: Names) -> str:
    """README.md of the package: docs/langchain.md with the package's names.

    Raises:
        ValueError: a link leads to another page, which the package does not have.
    """
    text = (root / "docs" / "langchain.md").read_text(encoding="utf-8")
    start, *sections = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    kept = [section for section in sections if not section.startswith(tuple(f"## {title}\n" for title in UNUSED))]
    if len(sections) - len(kept) != len(UNUSED):
        raise ValueError(f"docs/langchain.md lacks one of the sections {', '.join(UNUSED)}")
    body = re.sub(r"^# .*\n", f"# {NAME}\n\n{DESCRIPTION}.\n", start, count=1) + "".join(kept)
    if link := re.search(r"\]\((?!https?://|#)[^)]*\)", body):
        raise ValueError(f"docs/langchain.md links to {link[0][2:-1]} in a section that the package's page has")
    return names.renamed(body).rstrip() + "\n"


def _is_package(module: str, file: Path, names: Names) -> bool:
    return module in names.modules and file.name == "__init__.py"


def _lines(fields: dict[str, Any]) -> str:
    """Texts and lists of texts as TOML."""
    return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())
