"""Quality of a number format: perplexity on a text, and how often the most likely token is the original's.

    python -m rag_service.cli models quality smollm2-135m --dtype int8

Knows models and texts; knows no drafter. The two models are loaded one after the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch

from decoder.drafts.tree import DraftTree, TokenSource
from decoder.load import load_target
from decoder.model.pass_parts import TreePass
from decoder.models import default_models_dir, resolve
from decoder.recording.prompts import BenchError

TEXT = Path(__file__).with_name("quality_text.txt")
"""Own prose in English, Dutch and German, and code."""
WINDOW = 512
"""Tokens of a piece of the text; every piece is read on its own."""

Progress = Callable[[str, int, int], None]
"""(number format, tokens read, all tokens)."""


@dataclass(frozen=True, slots=True)
class Quality:
    """A number format beside another one.

    Attributes:
        model, dtype, reference: its name and both formats.
        tokens: predicted tokens.
        perplexity, reference_perplexity: on these tokens.
        agreement: share of them at which both formats have the same most likely token.
        divergence: mean Kullback-Leibler divergence of the reference's next-token chances from the format's, in nats,
            over the reference's 64 most likely tokens.
        nbytes, reference_nbytes: bytes of both models' weights in memory, packed copies included.
    """

    model: str
    dtype: str
    reference: str
    tokens: int
    perplexity: float
    reference_perplexity: float
    agreement: float
    divergence: float
    nbytes: int
    reference_nbytes: int

    def to_json(self) -> dict[str, object]:
        """All attributes by name."""
        return asdict(self)


@dataclass(slots=True)
class _Read:
    """What a model says about a text."""

    nbytes: int
    losses: torch.Tensor
    """float64 [n]."""
    best: torch.Tensor
    """int64 [n]."""
    chances: list[torch.Tensor]
    """Log-chances of each piece at `tokens`, float32 [piece, 64]."""
    tokens: list[torch.Tensor]
    """int64 [piece, 64]: the reference's most likely tokens."""


def compare_formats(
    model: str,
    *,
    dtype: str,
    reference: str = "float32",
    file: Path | None = None,
    limit: int | None = None,
    device: str = "cpu",
    models_dir: Path | None = None,
    progress: Progress = lambda dtype, done, total: None,
) -> Quality:
    """Compare a model in one number format with itself in another.

    Args:
        model: a name, folder or hub id.
        dtype, reference: the formats, as in `load_engine`.
        file: UTF-8 text. Default: a built-in one.
        limit: most tokens of it.
        progress: called after each piece.

    Raises:
        ValueError: the model or a format cannot be used, or the text has fewer than two tokens.
        PullFailed: a hub id could not be downloaded.
        OSError: the file cannot be read.
    """
    if limit is not None and limit < 2:
        raise BenchError(f"the limit must be at least 2 tokens, got {limit}")
    from transformers import AutoTokenizer

    folder = resolve(model, models_dir or default_models_dir())
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    text = (file or TEXT).read_text(encoding="utf-8")
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"][:limit]
    pieces = [ids[start : start + WINDOW] for start in range(0, len(ids), WINDOW)]
    pieces = [piece for piece in pieces if len(piece) > 1]
    if not pieces:
        raise BenchError(f"{file or TEXT} has fewer than two tokens; give a longer text")

    def read(dtype: str, like: _Read | None) -> _Read:
        return _read(model, dtype, device, models_dir, pieces, like, progress)

    original = read(reference, None)
    other = read(dtype, original)
    pairs = zip(original.chances, other.chances, strict=True)
    apart = torch.cat([(mine.exp() * (mine - theirs)).sum(-1) for mine, theirs in pairs])
    return Quality(
        Path(model).name,
        dtype,
        reference,
        len(original.best),
        math.exp(float(other.losses.mean())),
        math.exp(float(original.losses.mean())),
        float((other.best == original.best).double().mean()),
        float(apart.double().mean()),
        other.nbytes,
        original.nbytes,
    )


@torch.inference_mode()
def _read(
    model: str,
    dtype: str,
    device: str,
    models_dir: Path | None,
    pieces: list[list[int]],
    like: _Read | None,
    progress: Progress,
) -> _Read:
    """Read the pieces with a model; `like` names the tokens whose chances are kept."""
    target, _ = load_target(model, dtype=dtype, device=device, models_dir=models_dir)
    losses, best, chances, tokens = [], [], [], []
    total, done = sum(map(len, pieces)), 0
    for number, piece in enumerate(pieces):
        given = torch.tensor(piece, device=target.device)
        tree = DraftTree.chain(piece[1:-1], [TokenSource("text")] * (len(piece) - 2))
        logits = target.forward_tree([TreePass(target.new_cache(len(piece)), piece[0], tree)])[0].logits
        logs = torch.log_softmax(logits.float(), -1)  # [n, V]
        losses.append(-logs.gather(1, given[1:, None])[:, 0].double().cpu())
        best.append(logs.argmax(-1).cpu())
        kept = logs.topk(min(64, logs.shape[-1])).indices if like is None else like.tokens[number].to(logs.device)
        tokens.append(kept.cpu())
        chances.append(logs.gather(1, kept).cpu())
        done += len(piece)
        progress(dtype, done, total)
    return _Read(target.nbytes, torch.cat(losses), torch.cat(best), chances, tokens)
