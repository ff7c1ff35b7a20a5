"""The pages of the documentation's site: docs/ at its root, what they link to beside them, and the configuration.

    python scripts/site_source/pages.py FOLDER

Writes FOLDER/pages and FOLDER/mkdocs.yml. Links keep their targets: docs/x.md becomes x.md, anything else keeps its
path in the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BESIDE = ("benchmarks", "examples", "CHANGELOG.md", "rag_service/llamaindex/retriever.py")
"""What pages link to outside docs/."""
KEPT = {".md", ".svg", ".png", ".py", ".json", ".jsonl"}
LINK = re.compile(r"(\]\()([^)#\s:]+)(#[^)\s]*)?(\))")


def place(path: Path) -> Path:
    """Where a file of the repository is on the site."""
    inside = path.relative_to(ROOT)
    return Path(*inside.parts[1:]) if inside.parts[0] == "docs" else inside


def relinked(page: Path, text: str) -> str:
    """A page's text with links that hold on the site."""

    def link(found: re.Match[str]) -> str:
        start, target, anchor, end = found.groups()
        path = (page.parent / target).resolve()
        if not path.is_relative_to(ROOT) or not path.exists():
            return found.group()
        moved = os.path.relpath(place(path), place(page).parent)
        return f"{start}{moved}{anchor or ''}{end}"

    return LINK.sub(link, text)


def files() -> list[Path]:
    named = [ROOT / "docs", *(ROOT / name for name in BESIDE)]
    return [
        path for one in named for path in ([one] if one.is_file() else sorted(one.rglob("*"))) if path.suffix in KEPT
    ]


def title(page: Path) -> str:
    """Its first heading."""
    return next(line.lstrip("# ") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("# "))


def listed(folder: Path) -> list[dict[str, str]]:
    """Entries of the navigation for a folder's pages, by their titles."""
    pages = sorted(folder.glob("*.md"), key=title)
    return [{title(page): place(page).as_posix()} for page in pages]


def write(folder: Path) -> None:
    pages = folder / "pages"
    shutil.rmtree(pages, ignore_errors=True)
    for path in files():
        written = pages / place(path)
        written.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".md":
            written.write_text(relinked(path, path.read_text(encoding="utf-8")), encoding="utf-8")
        else:
            shutil.copyfile(path, written)
    shutil.copyfile(ROOT / "rag_service" / "web" / "icon.svg", pages / "images" / "icon.svg")
    configuration = yaml.safe_load((Path(__file__).parent / "mkdocs.yml").read_text(encoding="utf-8"))
    for section in configuration["nav"]:
        if "Guides" in section:
            section["Guides"] = listed(ROOT / "docs" / "how-to")
        for entry in section.get("Development", []):
            if isinstance(entry, dict) and "Decisions" in entry:
                entry["Decisions"] = listed(ROOT / "docs" / "decisions")
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(configuration, sort_keys=False), encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
