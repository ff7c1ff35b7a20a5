"""Lossless, copy-aware decoding: token ids in, token ids out. Knows no HTTP, no Redis, no passages.

engine = load_engine("smollm2-135m", drafter="casd", dtype="float32", device="cpu")
for step in engine.generate(prompt_ids, SamplingParams(max_tokens=128, temperature=0.7, seed=7)):
    ...

Names are imported on first use: `decoder.models`, `.catalogue`, `.errors` and `.drafter_names` load no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from decoder.drafts.stats import DecodeStats, SourceCount
    from decoder.drafts.token_index import Match, TokenIndex
    from decoder.drafts.tree import ROOT, DraftTree, TokenSource
    from decoder.engine import Engine
    from decoder.errors import DecoderError, PromptError, PromptTooLong, UnknownDrafter, UnsupportedModel
    from decoder.generation import Generation
    from decoder.load import load_engine
    from decoder.model.prefix import Prefix
    from decoder.sampling.params import SamplingParams
    from decoder.sampling.repetition import RepetitionStop
    from decoder.sequence import Corpus, PromptSegment, Sequence, Step

__all__ = [
    "ROOT",
    "Corpus",
    "DecodeStats",
    "DecoderError",
    "DraftTree",
    "Engine",
    "Generation",
    "Match",
    "Prefix",
    "PromptError",
    "PromptSegment",
    "PromptTooLong",
    "RepetitionStop",
    "SamplingParams",
    "Sequence",
    "SourceCount",
    "Step",
    "TokenIndex",
    "TokenSource",
    "UnknownDrafter",
    "UnsupportedModel",
    "load_engine",
]

_MODULES = {
    "drafts.stats": ("DecodeStats", "SourceCount"),
    "drafts.token_index": ("Match", "TokenIndex"),
    "drafts.tree": ("ROOT", "DraftTree", "TokenSource"),
    "engine": ("Engine",),
    "errors": ("DecoderError", "PromptError", "PromptTooLong", "UnknownDrafter", "UnsupportedModel"),
    "generation": ("Generation",),
    "load": ("load_engine",),
    "model.prefix": ("Prefix",),
    "sampling.params": ("SamplingParams",),
    "sampling.repetition": ("RepetitionStop",),
    "sequence": ("Corpus", "PromptSegment", "Sequence", "Step"),
}


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"decoder.{module}"), name)
    raise AttributeError(f"module 'decoder' has no attribute {name!r}")
