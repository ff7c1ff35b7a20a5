"""The blocks that a model folder's GGUF file has of the model's weights: integers of four and six bits, as they are.

A conversion keeps the file in the folder if most of it are such blocks (`keep`). Knows files and names of tensors;
knows no layer and no product.
"""

from __future__ import annotations

import os
import shutil
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from decoder.weights.gguf_weights import EMBEDDING, Plan, in_halves, plan_for
from decoder.weights.model_folder import ModelError

if TYPE_CHECKING:
    import torch

FILE = "blocks.gguf"
"""The GGUF file in a model folder."""
BlockFormat = Literal["Q4_K", "Q6_K"]
_FORMATS: dict[str, BlockFormat] = {kind: kind for kind in get_args(BlockFormat)}


class FileBlocks:
    """The blocks of a model folder.

    Args:
        folder: of the model.
        config: the model's.

    Raises:
        ModelError: the folder has no file with blocks of this model.
    """

    def __init__(self, folder: Path, config: Any) -> None:
        import torch
        from gguf import GGUFReader

        path = folder / FILE
        if not has_blocks(folder):
            raise ModelError(
                f"{folder.name} has no integers of four bits: {folder} has no {FILE}. A named model in Q4_K_M has it "
                "if you delete that folder and run `rag models pull` again; a GGUF file in Q4_K_M of a Llama, Qwen2 "
                "or Qwen3 model, if you convert it again with `python -m decoder.weights.conversion FILE.gguf FOLDER`. "
                "Other models run as int8 (RAG_DTYPE)"
            )
        try:
            reader = GGUFReader(path)
            plan = plan_for(config, reader, torch.bfloat16)
        except (OSError, ValueError, LookupError) as error:
            raise ModelError(f"{path} is not a readable GGUF file ({error}); pull the model again") from error
        if plan is None:
            raise ModelError(f"{path} does not have the weights of this model, one by one; choose int8 or bfloat16")
        self._plan: Plan = plan
        self._tied: bool = config.tie_word_embeddings

    def __call__(self, name: str) -> tuple[torch.Tensor, BlockFormat] | None:
        """The blocks of a weight by its name in transformers, uint8 [out, bytes of a row], and their format; None if
        the file has the weight in another one."""
        import torch

        tensor = self._plan.tensors.get(name)
        if tensor is None and self._tied and name == "lm_head.weight":
            name = "model.embed_tokens.weight"
            tensor = self._plan.tensors.get(name)
        kind = None if tensor is None else _FORMATS.get(tensor.tensor_type.name)
        if tensor is None or kind is None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the file is read-only, and so are its bytes
            data = torch.from_numpy(tensor.data)
        heads = self._plan.heads.get(name)
        return (data if heads is None else in_halves(data, heads)), kind


def has_blocks(folder: Path) -> bool:
    """Whether a model folder has a file with blocks."""
    return (folder / FILE).is_file()


def keep(gguf_path: Path, reader: Any, plan: Plan | None, folder: Path, *, owned: bool) -> None:
    """Keep a GGUF file in the model folder made of it, if more than half of what layers multiply by are such blocks.

    Args:
        reader: of the file.
        plan: which of its tensors are the model's weights; None if that is not known, so that it cannot be used.
        owned: whether nobody else will change the file. Then it gets a second name where possible, instead of a copy.
    """
    kept = folder / FILE
    kept.unlink(missing_ok=True)
    if plan is None or not _mostly_blocks(reader):
        return
    if owned:
        with suppress(OSError):  # another file system, or one without such names
            os.link(gguf_path.resolve(), kept)
            return
    shutil.copyfile(gguf_path, kept)


def _mostly_blocks(reader: Any) -> bool:
    matrices = [tensor for tensor in reader.tensors if len(tensor.shape) == 2 and tensor.name != EMBEDDING]
    blocks = sum(int(tensor.n_elements) for tensor in matrices if tensor.tensor_type.name in _FORMATS)
    return 2 * blocks > sum(int(tensor.n_elements) for tensor in matrices)
