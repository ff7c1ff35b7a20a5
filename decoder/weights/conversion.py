"""Converts GGUF files to model folders: config, tokenizer and weights as stock transformers reads them.

Dequantized weights are stored in the smallest dtype that holds each of them exactly, unless the caller names another;
`conversion.json` in the folder has the dtype, the source file and the rounding error. `gguf_weights.py` writes the
weights of common models tensor by tensor. Of others, transformers' loader reads all into memory. Knows the GGUF format;
knows no catalogue and no network.

    python -m decoder.weights.conversion model.gguf out-folder [auto|float32|bfloat16|float16]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from decoder.errors import UnsupportedModel
from decoder.weights import gguf_blocks
from decoder.weights.gguf_weights import Rounding, exact_dtype, measure, one_thread, plan_weights, write_weights
from decoder.weights.wheels import Progress, file_sha256

StorageDtype = Literal["auto", "float32", "bfloat16", "float16"]
RECORD = "conversion.json"

# Texts of control tokens that end a turn. GGUF names only one of them; chat models stop at several.
END_TEXTS = ("<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|end_of_text|>", "<|end|>", "<end_of_turn>", "</s>")
CONTROL_TOKEN = 3  # GGUF's token_type of a control token

# Pre-tokenizers that transformers' GGUF loader does not set up, by GGUF's `tokenizer.ggml.pre`.
_BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_DIGITS = {"type": "Digits", "individual_digits": True}
PRE_TOKENIZERS: dict[str, dict[str, Any]] = {"smollm": {"type": "Sequence", "pretokenizers": [_DIGITS, _BYTES]}}


@dataclass(frozen=True)
class Conversion:
    """The result of a conversion.

    Attributes:
        source: file name of the GGUF.
        sha256: of the GGUF, hex.
        dtype: the stored dtype.
        exact: whether every dequantized float32 weight is stored without rounding.
        max_abs_error: largest absolute difference between a dequantized weight and the stored one.
        max_rel_error: the same over the absolute value of the weight.
    """

    source: str
    sha256: str
    dtype: str
    exact: bool
    max_abs_error: float
    max_rel_error: float


def convert_gguf(
    gguf_path: Path,
    out_dir: Path,
    *,
    dtype: StorageDtype = "auto",
    tied: bool = False,
    owned: bool = False,
    progress: Progress | None = None,
) -> Conversion:
    """Write `out_dir` (created; not atomic: use a fresh folder) with safetensors, config, tokenizer and chat template,
    and the file itself if the number format `int4` can use it (`gguf_blocks.py`).

    Args:
        gguf_path: a GGUF file of an architecture that transformers reads.
        out_dir: folder to write.
        dtype: "auto" is the smallest of bfloat16, float16 and float32 that is exact.
        tied: whether the model's input and output embeddings are one matrix, as its makers published it. A GGUF file
            may have that matrix twice, in two precisions; then the output's, which is the finer one, is stored once.
        owned: whether nobody else will change the file, so that the folder may have it by a second name.
        progress: called with ("measure" | "convert" | "write", done, total).

    Raises:
        UnsupportedModel: the file is not GGUF, or transformers does not read its architecture.
    """
    import torch
    from gguf import GGUFReader

    progress = progress or _silent
    try:
        reader = GGUFReader(gguf_path)
    except (OSError, ValueError) as error:
        raise UnsupportedModel(f"{gguf_path} is not a readable GGUF file: {error}") from error
    sha256 = file_sha256(gguf_path)
    with one_thread():
        stored = exact_dtype(reader, progress) if dtype == "auto" else dtype
    out_dir.mkdir(parents=True, exist_ok=True)
    progress("convert", 0, len(reader.tensors))
    with _read_once(reader):
        _write_tokenizer(gguf_path, reader, out_dir)
        plan = plan_weights(gguf_path, reader, getattr(torch, stored), tied=tied)
    if plan is not None:
        with one_thread():
            rounding = write_weights(plan, out_dir, progress)
        model = plan.model
    elif tied:
        raise UnsupportedModel(f"{gguf_path.name} does not have the tensors of a model with tied embeddings")
    else:
        rounding = Rounding() if dtype == "auto" else measure(reader, getattr(torch, stored), progress)
        model = _load(gguf_path, getattr(torch, stored), progress)
        _write_loaded(model, out_dir)
    progress("write", 0, 1)
    gguf_blocks.keep(gguf_path, reader, plan, out_dir, owned=owned)
    _write_config(model, _end_ids(reader), out_dir)
    for weights in out_dir.glob("*.safetensors"):
        weights.chmod(0o644)  # written 0600, while every other file follows the umask
    conversion = Conversion(
        gguf_path.name,
        sha256,
        stored,
        rounding.absolute == 0.0,
        round(rounding.absolute, 9),
        round(rounding.relative, 9),
    )
    (out_dir / RECORD).write_text(json.dumps(asdict(conversion), indent=2) + "\n", encoding="utf-8")
    progress("write", 1, 1)
    return conversion


def _silent(stage: str, done: int, total: int) -> None:
    return None


def _load(gguf_path: Path, dtype: Any, progress: Progress) -> Any:
    import transformers

    options: dict[str, Any] = {"gguf_file": gguf_path.name, "dtype": dtype}
    if hasattr(transformers, "GgufConfig"):  # since 5.2x weights may stay packed unless this says otherwise
        options["quantization_config"] = transformers.GgufConfig(dequantize=True)
    with _bars_as_progress(progress):
        try:
            model = transformers.AutoModelForCausalLM.from_pretrained(gguf_path.parent, **options)
        except (ValueError, NotImplementedError) as error:
            raise UnsupportedModel(f"transformers cannot convert {gguf_path.name}: {error}") from error
    return model


def _write_loaded(model: Any, out_dir: Path) -> None:
    model.hf_quantizer = None  # save_pretrained would reject it
    _forget_origin(model.config)
    with _bars_as_progress(_silent):
        model.save_pretrained(out_dir)


def _write_config(model: Any, end_ids: list[int], out_dir: Path) -> None:
    if end_ids:
        model.generation_config.eos_token_id = end_ids if len(end_ids) > 1 else end_ids[0]
    model.generation_config._from_model_config = False  # else a load would use the single end token of config.json
    model.config.architectures = [type(model).__name__]
    _forget_origin(model.config)
    model.config.save_pretrained(out_dir)
    model.generation_config.save_pretrained(out_dir)


def _forget_origin(config: Any) -> None:
    """Delete the traces of the GGUF file; a later load would look for it."""
    for entry in ("quantization_config", "_model_name_or_path"):
        if hasattr(config, entry):
            delattr(config, entry)


@contextmanager
def _read_once(reader: Any) -> Iterator[None]:
    """Let transformers use this reader inside the block; it would read the file's 150,000 tokens again and again."""
    import gguf

    original = gguf.GGUFReader
    gguf.GGUFReader = lambda *_, **__: reader
    try:
        yield
    finally:
        gguf.GGUFReader = original


@contextmanager
def _bars_as_progress(progress: Progress) -> Iterator[None]:
    """Replace transformers' progress bars inside the block: its count of dequantized tensors goes to `progress`."""
    from transformers import modeling_gguf_pytorch_utils as loader
    from transformers.utils import logging

    def counted(tensors: Any, **_: Any) -> Iterator[Any]:
        for number, tensor in enumerate(tensors):
            progress("convert", number, len(tensors))
            yield tensor

    bar = getattr(loader, "tqdm", None)
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    if bar is not None:
        loader.tqdm = counted
    try:
        yield
    finally:
        if bar is not None:
            loader.tqdm = bar
        if shown:
            logging.enable_progress_bar()


def _write_tokenizer(gguf_path: Path, reader: Any, out_dir: Path) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf_path.parent, gguf_file=gguf_path.name)
    tokenizer.save_pretrained(out_dir)
    settings = out_dir / "tokenizer_config.json"
    state = json.loads(settings.read_text(encoding="utf-8"))
    for origin in ("is_local", "local_files_only", "gguf_file", "name_or_path"):
        state.pop(origin, None)
    settings.write_text(json.dumps(state, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    pre = _field(reader, "tokenizer.ggml.pre")
    if pre in PRE_TOKENIZERS:
        path = out_dir / "tokenizer.json"
        state = json.loads(path.read_text(encoding="utf-8"))
        state["pre_tokenizer"] = PRE_TOKENIZERS[pre]
        path.write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")


def _end_ids(reader: Any) -> list[int]:
    """The GGUF's end token first, then the other control tokens that end a turn."""
    named = _field(reader, "tokenizer.ggml.eos_token_id")
    texts = _field(reader, "tokenizer.ggml.tokens") or []
    kinds = _field(reader, "tokenizer.ggml.token_type") or []
    ids = [] if named is None else [int(named)]
    for token, (text, kind) in enumerate(zip(texts, kinds, strict=False)):
        if text in END_TEXTS and kind == CONTROL_TOKEN and token not in ids:
            ids.append(token)
    return ids


def _field(reader: Any, name: str) -> Any:
    field = reader.fields.get(name)
    return None if field is None else field.contents()


def _main(arguments: list[str]) -> None:
    if len(arguments) not in {2, 3}:
        sys.exit(__doc__)
    dtype: Any = arguments[2] if len(arguments) == 3 else "auto"
    print(json.dumps(asdict(convert_gguf(Path(arguments[0]), Path(arguments[1]), dtype=dtype)), indent=2))


if __name__ == "__main__":
    _main(sys.argv[1:])
