"""The tokenizer of the package, for texts of model servers whose own tokenizer is not known."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from workers.tokens.tokenizer import Tokens


@cache
def own_tokens() -> Tokens:
    """The tokenizer in this package's folder `own`, with its ChatML template."""
    return Tokens.load(Path(__file__).parent / "own")
