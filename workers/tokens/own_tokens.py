"""The service's own tokenizer, for text from model servers whose tokenizer it does not have.

Knows its folder; knows no servers. It says where a text can be cut and compared, and estimates what a server will
count; a server's own counts are those of its model. `benchmarks/learn_tokenizer.py` learned it.
"""

from __future__ import annotations

import functools
from importlib import resources

from workers.tokens.tokenizer import Tokens


@functools.cache
def own_tokens() -> Tokens:
    """A byte-level tokenizer of 40,000 ids that gives every text back, with a ChatML template that adds no system
    message and has tools. Loaded once a process; safe to use from several threads."""
    with resources.as_file(resources.files("workers.tokens") / "own") as folder:
        return Tokens.load(folder)
