"""A question and passages → how well each passage answers it. `Reranker` is what a search expects of any such model.

`CrossEncoderReranker` reads a local folder; it downloads nothing and runs no code from the folder. Weights wait for the
first search, so creating one costs nothing.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from retriever.embedding.sentence_transformer import check_device
from retriever.errors import EmbedderUnavailable, RerankerUnavailable

BATCH = 32
"""Pairs that go through the model together, if more are asked for at once."""


class Reranker(Protocol):
    """Scores passages for a question; safe to call from several threads."""

    @property
    def name(self) -> str: ...

    def load(self) -> None:
        """Make ready now instead of at the first use. Raises RerankerUnavailable."""

    def scores(self, question: str, texts: Sequence[str], /) -> Sequence[float]:
        """A finite score for each text, in the order of `texts`; higher is better. Raises RerankerUnavailable."""


class CrossEncoderReranker:
    """A cross-encoder in a local folder, such as ms-marco-MiniLM-L6-v2, by sentence-transformers."""

    def __init__(self, folder: Path, *, name: str | None = None, device: str = "cpu", dtype: str = "float32") -> None:
        """Raises RerankerUnavailable if the folder holds no cross-encoder with one score a pair.

        Args:
            name: the folder's own name by default.
            device: `cpu`, `cuda` or `cuda:N`.
            dtype: number format of the weights, `float32` or `bfloat16`.
        """
        self.folder = Path(folder)
        _check(self.folder)
        self.name = name or self.folder.resolve().name
        self.device = device
        self.dtype = dtype
        self._lock = threading.Lock()
        self._model: Any = None

    def load(self) -> None:
        with self._lock:
            if self._model is not None:
                return
            try:
                check_device(self.device)
            except EmbedderUnavailable as error:
                raise RerankerUnavailable(str(error)) from None
            import torch
            from sentence_transformers import CrossEncoder

            try:
                self._model = CrossEncoder(
                    str(self.folder),
                    device=self.device,
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True, "dtype": getattr(torch, self.dtype)},
                    activation_fn=torch.nn.Identity(),  # a sigmoid makes good scores equal
                )
            except Exception as error:  # safetensors has errors of its own
                raise RerankerUnavailable(
                    f"the reranker in {self.folder} cannot be loaded: {error}; pull it again"
                ) from error

    def scores(self, question: str, texts: Sequence[str], /) -> Sequence[float]:
        """The model's own logits: their scale differs from model to model."""
        self.load()
        if not texts:
            return []
        with self._lock:  # the tokenizer underneath is not safe for several threads
            found = self._model.predict(
                [(question, text) for text in texts], batch_size=BATCH, show_progress_bar=False, convert_to_tensor=True
            )
        scores = [float(score) for score in found.float().cpu()]
        if not all(map(math.isfinite, scores)):
            raise RerankerUnavailable(f"the reranker {self.name} gives scores that are no numbers; use another one")
        return scores


def _check(folder: Path) -> None:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = str((config.get("architectures") or ["none"])[0])
        labels = len(config.get("id2label") or "01")  # transformers' default is two
    except (OSError, ValueError, AttributeError) as error:
        raise RerankerUnavailable(
            f"{folder} holds no reranker (no config.json that can be read): pull the model, or name another folder"
        ) from error
    if not any(folder.glob("*.safetensors")):
        raise RerankerUnavailable(
            f"{folder} has no *.safetensors, and other weights are not read: pull the model again"
        )
    if not kind.endswith("ForSequenceClassification") or labels != 1:
        raise RerankerUnavailable(
            f"{folder} holds no cross-encoder with one score a pair (its architecture is {kind}, with {labels} "
            "labels): `rag models list --catalogue` names some"
        )
