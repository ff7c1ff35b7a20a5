"""Which paths of a source are synced: patterns, formats and names. Opens no files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from pathspec import GitIgnoreSpec

from rag_service.contract.file_names import MAX_CHARS, sendable
from retriever.parsing.formats import SUPPORTED


class Selection:
    """Patterns as in `.gitignore`: `*.tmp`, `drafts/`, `/only/at/the/root`, `**/old/*`.

    Args:
        include: a file must match one of them, if there are any.
        exclude: a file, or a folder above it, must match none.
    """

    def __init__(self, include: Sequence[str] = (), exclude: Sequence[str] = ()) -> None:
        self._include = GitIgnoreSpec.from_lines(include) if include else None
        self._exclude = GitIgnoreSpec.from_lines(exclude)

    def plus(self, exclude: Sequence[str]) -> Selection:
        """With more patterns that exclude."""
        more = Selection()
        more._include = self._include
        more._exclude = GitIgnoreSpec([*self._exclude.patterns, *GitIgnoreSpec.from_lines(exclude).patterns])
        return more

    def enters(self, folder: str) -> bool:
        """Whether files below a folder may be synced."""
        return not hidden(folder) and not self._exclude.match_file(f"{folder}/")

    def takes(self, path: str) -> bool:
        """Whether a file is synced if it can be read. Hidden files never are."""
        if hidden(path) or self._exclude.match_file(path):
            return False
        return self._include is None or self._include.match_file(path)


def hidden(path: str) -> bool:
    return any(part.startswith(".") for part in path.split("/"))


def refusal(path: str, source: str) -> str:
    """Why the service would not read a file of this name; "" if it would."""
    name = f"{source}/{path}"
    if sendable(name) != name or "\ufffd" in name:
        if len(name) > MAX_CHARS:
            return f"the name is longer than {MAX_CHARS} characters"
        return "the name contains bytes that are not UTF-8, or control characters"
    ending = PurePosixPath(path).suffix.lower()
    if ending not in SUPPORTED:
        return f"{ending} is not supported" if ending else "a file without an ending is not supported"
    return ""
