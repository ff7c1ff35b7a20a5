"""The names that modules of this repository have in the package: of modules, and in texts that name them."""

from __future__ import annotations

import re
from collections.abc import Iterable

PACKAGE = "langchain_rag_service"
PLACES = {
    "rag_service.langchain": PACKAGE,
    "rag_service.client": f"{PACKAGE}.client",
    "rag_service.contract": f"{PACKAGE}.contract",
    "rag_service.access": f"{PACKAGE}.access",
    "rag_service.service_error": f"{PACKAGE}.service_error",
    "workers.broker.progress": f"{PACKAGE}.contract.progress",
}
"""What the package may have of this repository, modules and packages, and where it has them."""
LEFT_OUT = ("rag_service", "workers", "workers.broker")
"""Packages that hold those. Their `__init__.py` is left out, so it must be without code."""


def new_name(module: str, importer: str) -> str:
    """Raises ValueError if the package has no place for the module."""
    for old, new in PLACES.items():
        if module == old or module.startswith(f"{old}."):
            return new + module.removeprefix(old)
    raise ValueError(
        f"{importer} imports {module}, which the package has no place for. Move what is needed of it to a module "
        "without other imports, and name that one in scripts/langchain_package/names.py."
    )


class Names:
    """Old names and new ones.

    Args:
        importers: module to a module that imports it.

    Raises:
        ValueError: as `new_name`, or two modules would have one name.
    """

    def __init__(self, importers: dict[str, str]) -> None:
        self.modules = {old: new_name(old, importer) for old, importer in importers.items() if old not in LEFT_OUT}
        olds: dict[str, str] = {}
        for old, new in self.modules.items():
            if (other := olds.setdefault(new, old)) != old:
                raise ValueError(f"{other} and {old} would both be {new}; rename one of them")
        self._names = {"rag_service": PACKAGE, **self.modules}
        self._pattern = re.compile(rf"(?<![\w./-])({_any_of(self._names)})(?![\w/-])")

    def renamed(self, text: str) -> str:
        """The text with new names in place of old ones, in code and in prose."""
        return self._pattern.sub(lambda match: self._names[match[1]], text)


def _any_of(names: Iterable[str]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
