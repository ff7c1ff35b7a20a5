"""The folder that the distributions are built from: modules with their new names, project file, page, licence."""

from __future__ import annotations

import ast
import shutil
import sys
from pathlib import Path

from closure import OWN, Closure, closure
from names import LEFT_OUT, PACKAGE, Names
from project import page, project_file

MODULES = ("rag_service.langchain", "rag_service.client")
"""What the package gives; what they import comes with them."""


def write(root: Path, folder: Path) -> None:
    """Write the package's source to an empty folder.

    Args:
        root: this repository.

    Raises:
        ValueError: the modules import what the package cannot have. The message names who imports what.
    """
    found = closure(root, MODULES)
    names = Names({module: found.importers[module] for module in found.files})
    _check_left_out(found)
    for old, file in found.files.items():
        if old in LEFT_OUT:
            continue
        path = folder.joinpath(*names.modules[old].split("."))
        path = path / "__init__.py" if file.name == "__init__.py" else path.with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(names.renamed(file.read_text(encoding="utf-8")), encoding="utf-8")
    (folder / PACKAGE / "py.typed").touch()
    (folder / "pyproject.toml").write_text(project_file(root, found, names, sys.stdlib_module_names), encoding="utf-8")
    (folder / "README.md").write_text(page(root, names), encoding="utf-8")
    shutil.copy(root / "LICENSE", folder)
    _check_self_contained(folder, names)


def _check_left_out(found: Closure) -> None:
    for module in LEFT_OUT:
        if module in found.files:
            code = ast.parse(found.files[module].read_text(encoding="utf-8")).body
            if any(not isinstance(statement, ast.Expr) for statement in code):
                raise ValueError(f"{found.files[module]} has code, which the package would lack")


def _check_self_contained(folder: Path, names: Names) -> None:
    written = closure(folder, [names.modules[module] for module in MODULES], (PACKAGE,))
    if left := [name for name in written.foreign if name in OWN]:
        raise ValueError(f"{written.importers[left[0]]} still imports {left[0]} under its old name")
