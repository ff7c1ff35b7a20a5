"""The language of a text. Knows a language identifier; knows no document and no prompt."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

CHINESE = frozenset({"wuu", "yue", "zh", "lzh", "gan", "hak", "nan", "cdo"})
"""What the identifier calls short Chinese texts; all of them are written with the same signs."""

_lock = threading.Lock()


def language_of(text: str) -> str:
    """The ISO 639 code of a text's language; "en" for a text without letters."""
    if not any(character.isalpha() for character in text):
        return "en"
    with _lock:
        code = str(_identifier().classify(text)[0])
    return "zh" if code in CHINESE else code


@cache
def _identifier() -> Any:
    """The identifier; loading takes about a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE)
