"""The documentation's site: it builds without a warning and asks nobody else for anything."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ASKS = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(https?:)?//""")
LOADS = re.compile(r"""url\(["']?https?://""")


@pytest.mark.full
def test_the_site_builds_and_needs_nobody(tmp_path: Path) -> None:
    source = [sys.executable, ROOT / "scripts" / "site_source" / "pages.py", tmp_path / "source"]
    subprocess.run(source, check=True, timeout=60)
    options = ["--strict", "--config-file", tmp_path / "source" / "mkdocs.yml", "--site-dir", tmp_path / "site"]
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", *options],
        env={"PATH": "", "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    site = tmp_path / "site"
    written = {path.relative_to(site).with_suffix(".md").as_posix() for path in site.rglob("*.html")}
    assert {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")} <= written
    for path in site.rglob("*"):
        if path.suffix == ".html":
            assert not ASKS.search(path.read_text(encoding="utf-8").replace('rel="canonical"', "")), path
        elif path.suffix == ".css":
            assert not LOADS.search(path.read_text(encoding="utf-8")), path
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    assert any("bitwise" in one["text"] for one in (index.get("docs") or index["items"]))
