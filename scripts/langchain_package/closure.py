"""What modules of this repository import, directly and through each other. Reads their text; runs none of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

OWN = ("rag_service", "workers", "decoder", "retriever")
"""The packages of this repository."""


@dataclass
class Closure:
    """Modules by name, with the packages around them, and what they import from elsewhere."""

    files: dict[str, Path] = field(default_factory=dict)
    """Module to its file."""
    importers: dict[str, str] = field(default_factory=dict)
    """Module, or package from elsewhere, to the first module that imports it."""

    @property
    def foreign(self) -> list[str]:
        """Top-level names of the packages from elsewhere, the standard library's included."""
        return sorted(name for name in self.importers if name not in self.files)


def closure(root: Path, modules: Sequence[str], own: Sequence[str] = OWN) -> Closure:
    """All that `modules` import. Imports in functions and for type checkers count as well.

    Args:
        root: the folder of the packages in `own`; all others are from elsewhere.

    Raises:
        ValueError: a module does not exist, or imports relatively.
    """
    found = Closure()
    waiting = [(module, "") for module in modules]
    while waiting:
        module, importer = waiting.pop()
        if module.partition(".")[0] not in own:
            found.importers.setdefault(module.partition(".")[0], importer)
            continue
        for name in _with_parents(module):
            if name in found.files:
                continue
            if (file := _file(root, name)) is None:
                raise ValueError(f"there is no module {name}, which {importer or 'the package'} imports")
            found.files[name] = file
            found.importers[name] = importer
            waiting += [(imported, name) for imported in _imports(root, file)]
    return found


def _with_parents(module: str) -> Iterator[str]:
    parts = module.split(".")
    return (".".join(parts[:length]) for length in range(1, len(parts) + 1))


def _file(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split("."))
    return next((file for file in (path / "__init__.py", path.with_suffix(".py")) if file.is_file()), None)


def _imports(root: Path, file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level or node.module is None:
                raise ValueError(f"{file}:{node.lineno} imports relatively; name the module in full")
            yield node.module
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name for name in names if _file(root, name) is not None)
