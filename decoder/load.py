"""`load_engine`: from a model's name, folder or hub id to an engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from decoder import induction_heads as heads
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning.acceptance import AcceptanceTables
from decoder.drafters.sdsat.adapter_files import fit_adapters
from decoder.engine import Engine
from decoder.heads.shipped import fit_head
from decoder.model.devices import check_device
from decoder.model.target import TargetModel
from decoder.planning.calibration import fingerprint, load_or_measure

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
SAME_TOKENS = 0.99
"""Share of the larger vocabulary that two tokenizers must agree on to count as the same."""


def load_engine(
    model: str,
    *,
    drafter: str = "auto",
    draft_model: str | None = None,
    eagle_head: str | Path | None = None,
    sdsat_adapters: str | Path | None = None,
    allow_pickle: bool = False,
    dtype: str = "float32",
    device: str = "cpu",
    models_dir: Path | None = None,
    induction_heads: bool | Path = True,
    state_dir: Path | None = None,
) -> Engine:
    """Load a target model and set up an engine with its tokenizer's end tokens and detokenizer.

    Args:
        model: a name from `rag models list`, a folder with config.json and *.safetensors, or a hub id.
        drafter: name of the default drafter.
        draft_model: a smaller model with the same tokenizer, named like `model`; for `small_model` and its kind.
        eagle_head: an EAGLE head's folder, for `eagle` and its kind, or the name of one that comes with the package;
            None takes the one that comes with the package for this model, if there is one, and "off" none.
        sdsat_adapters: the same for SDSAT adapters, for `sdsat` and `sdsat_two_step`.
        allow_pickle: read a head's `pytorch_model.bin`, for its weights alone, where it has no safetensors.
        dtype: float64, float32, bfloat16 or float16.
        device: "cpu", "cuda", "cuda:1", ...
        models_dir: where named models are kept; the default cache folder where None.
        induction_heads: a file that `rag models heads` wrote, for `pld_plus` ranked by attention; True takes the one in
            the model's folder, if there is one.
        state_dir: where what is measured and learned is kept between runs; None measures anew and keeps nothing.

    Raises:
        ValueError: unknown dtype or drafter, a device that torch cannot use, a model that cannot be found, or a draft
            model with another tokenizer; the message says what to do.
        DrafterUnavailable: the default drafter needs a draft model or an EAGLE head and none is named.
        AdaptersError: the SDSAT adapters cannot be read or are another model's.
        EagleHeadError: the head cannot be read or is another model's.
        InductionHeadsError: the file of induction heads is damaged or another model's.
        UnsupportedModel: a model's attention cannot take draft trees.
    """
    from decoder.models import default_models_dir, resolve

    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    check_device(device)
    models_dir = models_dir or default_models_dir()
    folder = resolve(model, models_dir)
    tokenizer = _tokenizer(folder)
    context = DrafterContext()
    if draft_model is not None:
        draft_folder = resolve(draft_model, models_dir)
        if not same_tokens(tokenizer.get_vocab(), _tokenizer(draft_folder).get_vocab()):
            raise ValueError(
                f"draft model {draft_model!r} and target {model!r} have different tokenizers; "
                "choose a draft model of the target's family, or none"
            )
        context.draft_model = TargetModel(_weights(draft_folder, dtype, device))
    target = TargetModel(_weights(folder, dtype, device))
    target.adapters = fit_adapters(sdsat_adapters, target, Path(model).name)
    context.eagle_head = fit_head(eagle_head, target, Path(model).name, allow_pickle=allow_pickle)
    context.induction_heads = _heads(induction_heads, folder, Path(model).name, target)

    def detokenize(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    if drafter not in {"off", "plain"}:
        if state_dir is not None:
            context.cost_file = state_dir / f"cost-{fingerprint(target, folder.name)}.json"
            context.acceptance = AcceptanceTables(state_dir / f"acceptance-{folder.name}")
        context.cost = load_or_measure(target, context.cost_file)
    return Engine(target, drafter, _end_tokens(target.model, tokenizer), detokenize, context)


def load_target(model: str, *, dtype: str, device: str, models_dir: Path | None = None) -> tuple[TargetModel, str]:
    """A target model alone, and its name; arguments and errors as `load_engine`."""
    from decoder.models import default_models_dir, resolve

    if dtype not in DTYPES:
        raise ValueError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    check_device(device)
    folder = resolve(model, models_dir or default_models_dir())
    return TargetModel(_weights(folder, dtype, device)), Path(model).name


def same_tokens(target: Mapping[str, int], draft: Mapping[str, int]) -> bool:
    """Whether two vocabularies (token -> id) are one tokenizer's: at most a few added tokens apart."""
    shared = sum(target.get(token) == number for token, number in draft.items())
    return shared >= SAME_TOKENS * max(len(target), len(draft))


def _heads(wanted: bool | Path, folder: Path, model: str, target: TargetModel) -> tuple[tuple[int, int], ...]:
    if isinstance(wanted, Path):
        return heads.load(wanted, target, model).pairs
    own = folder / heads.FILE
    return heads.load(own, target).pairs if wanted and own.is_file() else ()


def _weights(folder: Path, dtype: str, device: str) -> Any:
    from transformers import AutoModelForCausalLM

    weights = AutoModelForCausalLM.from_pretrained(
        folder, dtype=DTYPES[dtype], use_safetensors=True, trust_remote_code=False
    )
    return weights.to(device)


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _end_tokens(model: object, tokenizer: object) -> list[int]:
    """The model's own end tokens and its tokenizer's."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = list(configured) if isinstance(configured, (list, tuple)) else [configured]
    ids.append(getattr(tokenizer, "eos_token_id", None))
    return sorted({int(token) for token in ids if token is not None})
