"""`load_engine`: builds an engine from a model's name, folder or hub id."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

import torch

from decoder import dtypes
from decoder import induction_heads as heads
from decoder.drafters.auto.core_choice import compiled_core
from decoder.drafters.context import DrafterContext
from decoder.drafters.learning import shipped_texts
from decoder.drafters.learning.acceptance import AcceptanceTables
from decoder.drafters.learning.next_tokens import NextTokensByDomain
from decoder.drafters.sdsat.adapter_files import fit_adapters
from decoder.dtypes import INT4, INT8, EngineExact
from decoder.engine import Engine
from decoder.heads.shipped import fit_head
from decoder.model import bitwise_check
from decoder.model.devices import check_device
from decoder.model.fingerprint import weights_fingerprint
from decoder.model.freed_memory import give_back
from decoder.model.linear.blocks import block_product
from decoder.model.linear.quantise import quantise
from decoder.model.target import TargetModel
from decoder.models import default_models_dir, resolve
from decoder.planning.calibration import fingerprint, load_or_measure
from decoder.planning.draft_gate import Drafting
from decoder.weights.gguf_blocks import FileBlocks, has_blocks

log = logging.getLogger(__name__)

DTYPES = {
    "float64": torch.float64,
    "float32": torch.float32,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}
NUMBER_FORMATS = (*DTYPES, INT8, INT4)
"""The values of `dtype`."""
SAME_TOKENS = 0.99
"""Two tokenizers count as the same if they agree on this share of the larger vocabulary."""


def load_engine(
    model: str,
    *,
    drafter: str = "auto",
    draft_model: str | None = None,
    eagle_head: str | Path | None = None,
    sdsat_adapters: str | Path | None = None,
    allow_pickle: bool = False,
    dtype: str = "float32",
    exact: EngineExact = "auto",
    device: str = "cpu",
    models_dir: Path | None = None,
    induction_heads: bool | Path = True,
    state_dir: Path | None = None,
) -> Engine:
    """Load a target model and set up an engine with its tokenizer's end tokens and detokenizer.

    Args:
        model: a name from `rag models list`, a folder with config.json and *.safetensors, or a hub id.
        drafter: name of the default drafter.
        draft_model: a smaller model with the same tokenizer, named like `model`; for `small_model` and combinations
            with it.
        eagle_head: folder or name of an EAGLE head, for `eagle` and combinations with it. None takes the head that the
            package has for this model, if any; "off" takes none.
        sdsat_adapters: the same for SDSAT adapters, for `sdsat` and `sdsat_two_step`.
        allow_pickle: whether to read the weights of a head without safetensors from its `pytorch_model.bin`.
        dtype: float64, float32, bfloat16, float16, or, on a CPU, int8, or int4 if the model was a GGUF file.
        exact: "bitwise" makes every draft's logits equal to plain decoding's, bit by bit (`model/bitwise.py`); on a CPU
            in float32, bfloat16, int8 or int4. "default": up to rounding. "auto": bit by bit where that costs nothing.
        device: "cpu", "cuda", "cuda:1", ...
        models_dir: folder of the named models; the default cache folder if None.
        induction_heads: a file that `rag models heads` wrote, for `pld_plus` ranked by attention; True takes the file
            in the model's folder, if any.
        state_dir: folder for measured costs, learned acceptance and the shipped texts' counts, kept between runs; None
            stores nothing.

    Raises:
        ValueError: the dtype or drafter is unknown, torch cannot use the device, the model does not exist, or the
            draft model has another tokenizer; the message says what to do.
        DrafterUnavailable: the default drafter needs a draft model, head or adapters, and there are none.
        AdaptersError: the SDSAT adapters cannot be read, or belong to another model.
        EagleHeadError: the head cannot be read, or belongs to another model.
        InductionHeadsError: the file of induction heads is damaged, or belongs to another model.
        UnsupportedModel: the model's attention cannot take draft trees.
        BitwiseUnavailable: `exact` is "bitwise", and bits depend on a pass's other rows here.
    """
    _check(dtype, device)
    if exact not in get_args(EngineExact):
        raise ValueError(f"exact must be one of {', '.join(get_args(EngineExact))}, got {exact!r}")
    models_dir = models_dir or default_models_dir()
    folder = resolve(model, models_dir)
    tokenizer = _tokenizer(folder)
    context = DrafterContext()
    if draft_model is not None:
        draft_folder = resolve(draft_model, models_dir)
        if not same_tokens(tokenizer.get_vocab(), _tokenizer(draft_folder).get_vocab()):
            raise ValueError(
                f"draft model {draft_model!r} and target {model!r} have different tokenizers; "
                "choose a draft model of the target's family, or load the target without one"
            )
        context.draft_model = _target(draft_folder, _draft_dtype(draft_folder, dtype), device)
    target = _target(folder, dtype, device, bitwise=None if exact == "auto" else exact == "bitwise")
    if target.bitwise:
        log.info("checking that drafts leave the bits of %s's passes alone; some seconds", folder.name)
        bitwise_check.ensure(target, required=exact == "bitwise")
    target.adapters = fit_adapters(sdsat_adapters, target, Path(model).name)
    context.recycle = target.device.type == "cpu"  # there, passes take far longer than drafting
    if not context.recycle:
        context.drafting = Drafting()
    context.eagle_head = fit_head(eagle_head, target, Path(model).name, allow_pickle=allow_pickle)
    if context.recycle:
        context.next_tokens = NextTokensByDomain(
            partial(shipped_texts.shipped, tokenizer, target.vocab_size, state_dir)
        )
    context.induction_heads = _heads(induction_heads, folder, Path(model).name, target)

    def detokenize(ids: Sequence[int]) -> str:
        text: str = tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text

    if drafter not in {"off", "plain"}:
        if state_dir is not None:
            context.cost_file = state_dir / f"cost-{fingerprint(target, folder.name)}.json"
            context.acceptance = AcceptanceTables(state_dir / f"acceptance-{folder.name}")
        context.cost = load_or_measure(target, context.cost_file)
        compiled_core()  # now, so that no answer waits for it
    engine = Engine(target, drafter, _end_tokens(target.model, tokenizer), detokenize, context)
    if drafter not in {"off", "plain"} and context.recycles:
        context.next_tokens.prepare()
    give_back()  # what rounding, packing and measuring took
    return engine


def load_target(model: str, *, dtype: str, device: str, models_dir: Path | None = None) -> tuple[TargetModel, str]:
    """A target model without an engine, and its name. Arguments and errors as `load_engine`."""
    _check(dtype, device)
    folder = resolve(model, models_dir or default_models_dir())
    return _target(folder, dtype, device), Path(model).name


def same_tokens(target: Mapping[str, int], draft: Mapping[str, int]) -> bool:
    """Whether two vocabularies (token -> id) belong to the same tokenizer, apart from a few added tokens."""
    shared = sum(target.get(token) == number for token, number in draft.items())
    return shared >= SAME_TOKENS * max(len(target), len(draft))


def _check(dtype: str, device: str) -> None:
    if dtype not in NUMBER_FORMATS:
        raise ValueError(f"dtype must be one of {', '.join(NUMBER_FORMATS)}, got {dtype!r}")
    check_device(device)
    if problem := dtypes.problem(dtype, device):
        raise ValueError(problem)


def _heads(source: bool | Path, folder: Path, model: str, target: TargetModel) -> tuple[tuple[int, int], ...]:
    """The (layer, head) pairs of the file that `load_engine` names."""
    if isinstance(source, Path):
        return heads.load(source, target, model).pairs
    file = folder / heads.FILE
    return heads.load(file, target).pairs if source and file.is_file() else ()


def _target(folder: Path, dtype: str, device: str, *, bitwise: bool | None = False) -> TargetModel:
    """A model on its device."""
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors")) / 1e9
    log.info("loading the weights of %s as %s, %.1f GB; some seconds a GB", folder.name, dtype, size)
    if dtype not in {INT8, INT4}:
        return TargetModel(_weights(folder, DTYPES[dtype]).to(device), bitwise=bitwise)
    blocks = FileBlocks(folder, _config(folder)) if dtype == INT4 else None
    if blocks is not None and not block_product.available():
        raise ValueError("int4 needs machine code, which cannot be made here (the log says why); choose int8")
    weights = _weights(folder, "auto")  # as stored, so that they are read from disk one by one
    original = weights_fingerprint(weights)
    quantise(weights, blocks_of=blocks)
    target = TargetModel(weights, bitwise=bitwise)
    target.original_fingerprint = original
    return target


def _draft_dtype(folder: Path, dtype: str) -> str:
    """The number format of a draft model beside a target in this one."""
    if dtype == INT4 and not has_blocks(folder):
        log.info("%s has no integers of four bits; it drafts in int8", folder.name)
        return INT8
    return dtype


def _config(folder: Path) -> Any:
    from transformers import AutoConfig

    return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def _weights(folder: Path, dtype: torch.dtype | str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, use_safetensors=True, trust_remote_code=False)


def _tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _end_tokens(model: object, tokenizer: object) -> list[int]:
    """The end tokens of the model and of its tokenizer, ascending."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    ids = list(configured) if isinstance(configured, (list, tuple)) else [configured]
    ids.append(getattr(tokenizer, "eos_token_id", None))
    return sorted({int(token) for token in ids if token is not None})
