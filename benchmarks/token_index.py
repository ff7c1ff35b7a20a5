"""Measure TokenIndex: lookups, building and bytes, against transformers' prompt lookup and a plain dict.

    python benchmarks/token_index.py --json OUT.json --markdown OUT.md

The tokens are words and punctuation of real text files (the checkout's own, or `--data`), numbered in order of
appearance. Files come in a fixed shuffled order, repeated as needed. The script needs no model and no network. The
degenerate text repeats one token, which is the worst case for an n-gram index.
"""

from __future__ import annotations

import argparse
import random
import re
import shlex
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.simulated.report import environment_lines, table, write_json
from decoder.drafts.token_index import MAX_CANDIDATES, TokenIndex
from decoder.recording.environment import environment

SIZES = (1024, 4096, 32768, 131072)
BUILD_SIZES = (4096, 32768, 131072)
LOOKUP_US, BUILD_TOKENS_PER_S, BYTES_PER_TOKEN = 50.0, 1e6, 16.0
STEPS = 400
REPEATS = 7
CONTENDERS = ("matches_2", "matches_8", "first", "extend", "step", "dict", "transformers")
Ids = NDArray[np.int32]


def text_files(paths: Iterable[Path]) -> list[Path]:
    """The given files, and every text file below the given folders."""
    files: list[Path] = []
    for path in paths:
        below = [file for suffix in ("md", "txt", "py", "toml") for file in path.rglob(f"*.{suffix}")]
        files += [path] if path.is_file() else [file for file in below if ".git" not in file.parts]
    return files


def natural_tokens(files: Iterable[Path], count: int) -> Ids:
    """`count` token ids of real text: files in a fixed shuffled order, repeated as needed."""
    numbers: dict[str, int] = {}
    texts = []
    for path in sorted(files):
        pieces = re.findall(r"\w{1,6}|[^\w\s]|\n", path.read_text(encoding="utf-8", errors="ignore"))
        texts.append([numbers.setdefault(piece, len(numbers)) for piece in pieces])
    if not any(texts):
        raise SystemExit("The files contain no text; name text files with --data")
    shuffle = random.Random(0)
    ids: list[int] = []
    while len(ids) < count:
        shuffle.shuffle(texts)
        ids += [token for text in texts for token in text]
    return np.asarray(ids[:count], np.int32)


class PlainDict:
    """The obvious index: n-gram to the positions after it, for n = 1 to 3, in Python dictionaries."""

    def __init__(self, tokens: Ids) -> None:
        self._ends: dict[tuple[int, ...], list[int]] = {}
        self._ids: list[int] = []
        self.extend(tokens.tolist())

    def extend(self, ids: Iterable[int]) -> None:
        for token in ids:
            self._ids.append(token)
            end = len(self._ids)
            for n in range(1, min(3, end) + 1):
                self._ends.setdefault(tuple(self._ids[end - n :]), []).append(end)

    def first(self) -> int | None:
        for n in (3, 2, 1):
            ends = self._ends.get(tuple(self._ids[-n:]), [])
            if ends and ends[0] < len(self._ids):
                return ends[0]
        return None


class Counting(TokenIndex):
    """Counts the candidates that a lookup compares with the text."""

    examined = 0

    def _agreement(self, recent: tuple[int, ...], end: int) -> int:
        self.examined += 1
        return super()._agreement(recent, end)

    def _agreements(self, recent: tuple[int, ...], ends: list[int]) -> list[int]:
        self.examined += len(ends)
        return super()._agreements(recent, ends)


def peer_lookup() -> Callable[[torch.Tensor], object]:
    """transformers' prompt lookup with its defaults and 10 drafted tokens; takes ids [1, n]."""
    from transformers.generation.candidate_generator import PromptLookupCandidateGenerator

    generator: Any = PromptLookupCandidateGenerator(
        eos_token_id=torch.tensor([-1]), num_output_tokens=10, max_matching_ngram_size=2, max_length=1 << 30
    )
    lookup: Callable[[torch.Tensor], object] = generator.get_candidates
    return lookup


def microseconds(call: Callable[..., object], *arguments: Any) -> float:
    started = time.perf_counter()
    call(*arguments)
    return 1e6 * (time.perf_counter() - started)


def measure_steps(name: str, tokens: Ids, steps: int) -> dict[str, object]:
    """Decode the last `steps` tokens one by one: every contender adds each token and looks up the end of the text."""
    prompt, answer = tokens[:-steps], tokens[-steps:].tolist()
    index, counting, plain = TokenIndex.build([prompt]), Counting.build([prompt]), PlainDict(prompt)
    assert isinstance(counting, Counting)
    peer, ids = peer_lookup(), torch.from_numpy(tokens.astype(np.int64))[None]
    times: dict[str, list[float]] = {contender: [] for contender in CONTENDERS}
    most = 0
    for number, token in enumerate(answer):
        end = len(prompt) + number + 1
        suffix = tokens[end - 10 : end].tolist()
        times["extend"].append(microseconds(index.extend, [token]))
        times["matches_2"].append(microseconds(index.matches, suffix, 2))
        times["matches_8"].append(microseconds(index.matches, suffix, 8))
        times["first"].append(microseconds(index.first, suffix[-3:], end - 1))
        times["step"].append(times["extend"][-1] + times["matches_2"][-1])
        times["dict"].append(microseconds(plain.extend, [token]) + microseconds(plain.first))
        if number % 10 == 0:
            times["transformers"].append(microseconds(peer, ids[:, :end]))
        counting.extend([token])
        counting.examined = 0
        counting.matches(suffix, 8)
        most = max(most, counting.examined)
    if not most:
        raise RuntimeError("no candidate was counted; TokenIndex no longer compares through _agreement")
    row: dict[str, object] = {"text": name, "tokens": len(tokens), "steps": steps, "candidates_max": most}
    for contender, values in times.items():
        row[f"{contender}_us"] = round(statistics.median(values), 1)
        row[f"{contender}_p95_us"] = round(sorted(values)[int(0.95 * (len(values) - 1))], 1)
    return row


def measure_build(name: str, tokens: Ids, repeats: int) -> dict[str, object]:
    """Build from a prompt and read back from bytes: tokens per second, medians, contenders interleaved."""
    data = TokenIndex.build([tokens]).to_bytes()
    times: dict[str, list[float]] = {"build": [], "from_bytes": [], "dict": []}
    for _ in range(repeats):
        times["build"].append(microseconds(TokenIndex.build, [tokens]))
        times["from_bytes"].append(microseconds(TokenIndex.from_bytes, data))
        times["dict"].append(microseconds(PlainDict, tokens))
    row: dict[str, object] = {"text": name, "tokens": len(tokens), "bytes_per_token": round(len(data) / len(tokens), 2)}
    for contender, values in times.items():
        row[f"{contender}_tokens_per_s"] = round(1e6 * len(tokens) / statistics.median(values))
    return row


def misses(steps: Sequence[dict[str, Any]], builds: Sequence[dict[str, Any]]) -> list[str]:
    """Describe each figure that misses its target."""
    missed = []
    for row in steps:
        label = f"{row['text']} text, {row['tokens']} tokens"
        if row["matches_2_us"] > LOOKUP_US:
            missed.append(f"lookup {row['matches_2_us']} µs > {LOOKUP_US:.0f} µs ({label})")
        if row["candidates_max"] > MAX_CANDIDATES:
            missed.append(f"{row['candidates_max']} candidates > {MAX_CANDIDATES} ({label})")
    for row in builds:
        label = f"{row['text']} text, {row['tokens']} tokens"
        if row["build_tokens_per_s"] < BUILD_TOKENS_PER_S:
            missed.append(f"build {row['build_tokens_per_s']} tokens/s < 1M ({label})")
        if row["bytes_per_token"] > BYTES_PER_TOKEN:
            missed.append(f"{row['bytes_per_token']} bytes a token > 16 ({label})")
    return missed


def markdown(result: dict[str, Any]) -> str:
    lines = ["# TokenIndex", ""]
    lines += [
        "Microseconds, median (95th percentile), while the last 400 tokens are decoded one by one after the others. "
        "`matches_k` finds the k longest matches of the text's end, `first` the earliest place of its last 3-gram; "
        "`step` is `extend` by one token and `matches_2`. The dict (1- to 3-grams, Python dictionaries) does the same "
        "step; transformers' prompt lookup scans all tokens.",
        "",
    ]
    names = list(CONTENDERS)
    body = [
        [
            row["text"],
            f"{row['tokens']}",
            *(f"{row[n + '_us']} ({row[n + '_p95_us']})" for n in names),
            f"{row['candidates_max']}",
        ]
        for row in result["steps"]
    ]
    lines += table(["text", "tokens", *names, "candidates, most"], body, left=1)
    lines += ["", "Thousand tokens a second, and bytes a token as written by `to_bytes`.", ""]
    names = ["build", "from_bytes", "dict"]
    body = [
        [
            row["text"],
            f"{row['tokens']}",
            *(f"{row[n + '_tokens_per_s'] / 1e3:.0f}" for n in names),
            f"{row['bytes_per_token']}",
        ]
        for row in result["builds"]
    ]
    lines += table(["text", "tokens", *names, "bytes a token"], body, left=1)
    lines += ["", "Targets: ≤ 50 µs a lookup at 128k tokens, ≤ 64 candidates, ≥ 1M tokens/s built, ≤ 16 bytes a token."]
    lines += ["Missed: " + ("; ".join(result["missed"]) or "none") + ".", ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure TokenIndex.")
    parser.add_argument("--data", type=Path, nargs="+", help="text files or folders of them (default: the checkout)")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    natural = natural_tokens(text_files(options.data or [Path(__file__).resolve().parents[1]]), max(SIZES))
    degenerate = np.full(max(SIZES), 7, np.int32)
    texts = {"natural": natural, "degenerate": degenerate}
    steps = [measure_steps(name, ids[:size], STEPS) for name, ids in texts.items() for size in SIZES]
    builds = [measure_build(name, ids[:size], REPEATS) for name, ids in texts.items() for size in BUILD_SIZES]
    command = shlex.join(["python", "benchmarks/token_index.py", *sys.argv[1:]])
    facts = environment(command, distinct=len(set(natural)))
    result: dict[str, Any] = {"environment": facts, "steps": steps, "builds": builds, "missed": misses(steps, builds)}
    write_json(options.json, result)
    if options.markdown:
        options.markdown.write_text(markdown(result), encoding="utf-8")
    print("\n".join(result["missed"]) or "All targets are met.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
