"""The engine against llama.cpp on the CPU: same GGUF file, same prompts as token ids, same number of threads.

    pip install xllamacpp
    python benchmarks/against_llamacpp.py --model smollm2-135m --data items.jsonl --limit 2 --threads 2 --json OUT.json
    python benchmarks/against_llamacpp.py --gguf model.gguf --model converted-folder --data items.jsonl --json OUT.json

`xllamacpp` carries llama.cpp's server; nothing of the project needs it. The engine runs the weights that were converted
from the same file (its SHA-256 must equal that in the folder's conversion.json), dequantized once; llama.cpp multiplies
4-bit weights with 8-bit activations, so texts may differ and each side is timed on its own. Speeds are tokens after the
first over the time after it. All of llama.cpp's self-speculation modes run (`--modes`); "best"
is the fastest of them on a category in hindsight, which favours llama.cpp.

The PyPI wheel is built for any x86-64 processor. `--server PATH` takes a `llama-server` that was built for this one,
which is faster: xllamacpp's source distribution carries llama.cpp's.

    cmake -B build -DGGML_NATIVE=ON -DLLAMA_BUILD_UI=OFF && cmake --build build --target llama-server
"""

from __future__ import annotations

import argparse
import json
import shlex
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import weakref
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import IO, Any

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from decoder.bench.decode.interleaved import compare, modes_of
from decoder.bench.decode.outcomes import Outcome, PromptsFile, by_category, prompts_path
from decoder.bench.decode.rows import PLAIN, decode_rows, tokens_per_second
from decoder.bench.decode.slowdown_check import AUTO, compare_speeds, ratios
from decoder.bench.decode.timing import TimedAnswer
from decoder.bench.results import Row, environment_lines, table, write_json, write_markdown
from decoder.load import NUMBER_FORMATS
from decoder.models import NAMED, default_models_dir, resolve
from decoder.planning.calibration import load_or_measure
from decoder.recording.arguments import items_of, say
from decoder.recording.environment import environment
from decoder.recording.loaded_model import open_model
from decoder.recording.prompts import BenchError
from decoder.recording.specs import parse_spec, split_specs
from decoder.sampling.params import SamplingParams
from decoder.weights.conversion import RECORD
from decoder.weights.gguf_file import GgufFile
from decoder.weights.wheels import file_sha256

LLAMA = "llama.cpp"
MODES = "ngram_simple,ngram_simple:size_n=3:size_m=16,ngram_map_k,ngram_map_k4v,ngram_mod,ngram_cache"
WINDOW = 8192
INSTALL = "this comparison needs xllamacpp; install it with `pip install xllamacpp`"


class Servers:
    """One llama.cpp server a mode, all on the same file; answers come over loopback HTTP.

    Args:
        specs: "llama.cpp" is plain decoding, "llama.cpp:MODE[:option=value…]" a self-speculation mode.
        end_tokens: tokens that end the engine's answers; llama.cpp ends at those its file names.
        program: a `llama-server`; None takes xllamacpp's.
    """

    def __init__(
        self,
        gguf: Path,
        specs: Sequence[str],
        threads: int,
        window: int,
        end_tokens: Sequence[int],
        program: Path | None = None,
    ) -> None:
        self._ends = frozenset(end_tokens)
        self._servers: dict[str, Any] = {}
        for spec in specs:
            self._servers[spec] = (
                start_server(gguf, spec, threads, window)
                if program is None
                else Program(program, gguf, spec, threads, window)
            )
        # Loopback requests never go through a proxy.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def measure(self, spec: str, prompt_ids: list[int], params: SamplingParams) -> TimedAnswer:
        """One greedy answer."""
        body = {
            **{"prompt": prompt_ids, "n_predict": params.max_tokens, "temperature": 0, "ignore_eos": params.ignore_eos},
            **{"cache_prompt": False, "return_tokens": True},
        }
        request = urllib.request.Request(
            f"{self._servers[spec].listening_address}/completion",
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
        )
        try:
            with self._opener.open(request) as response:
                answer = json.load(response)
        except urllib.error.HTTPError as error:
            raise BenchError(f"llama.cpp rejected a prompt: {error.read().decode(errors='replace')}") from None
        return measured_from(answer, prompt_ids, self._ends)


class Program:
    """A `llama-server` in one mode, which ends with this object. Raises BenchError if it does not begin to listen."""

    def __init__(self, program: Path, gguf: Path, spec: str, threads: int, window: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        count = str(threads)
        command = [str(program), "--model", str(gguf), "--ctx-size", str(window), "--parallel", "1"]
        command += ["--host", "127.0.0.1", "--port", str(port), "--threads", count, "--threads-batch", count]
        _, _, mode = spec.partition(":")
        if mode:
            name, options = parse_spec(mode)
            kind = name.replace("_", "-")
            command += ["--spec-type", kind]
            for option, value in options.items():
                command += [f"--spec-{kind}-{option.replace('_', '-')}", str(value)]
        self.listening_address = f"http://127.0.0.1:{port}"
        said = tempfile.TemporaryFile()  # noqa: SIM115 - a pipe would fill and stop it
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
        weakref.finalize(self, _end, self._process, said)
        while not self._listens():
            if self._process.poll() is not None:
                said.seek(0)
                last = said.read().decode(errors="replace").strip().splitlines()[-3:]
                raise BenchError(f"llama-server ended: {' '.join(last)}")
            time.sleep(0.05)

    def _listens(self) -> bool:
        try:
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(f"{self.listening_address}/health"):
                return True
        except OSError:  # 503 while the model is loaded
            return False


def _end(process: subprocess.Popen[bytes], said: IO[bytes]) -> None:
    process.kill()
    process.wait()
    said.close()


def start_server(gguf: Path, spec: str, threads: int, window: int) -> Any:
    """A server in one mode. Raises BenchError for modes and options that this llama.cpp does not have."""
    try:
        import xllamacpp
    except ImportError:
        raise BenchError(INSTALL) from None
    params = xllamacpp.CommonParams()
    params.model.path = str(gguf)
    params.n_ctx, params.n_parallel, params.port, params.n_gpu_layers, params.verbosity = window, 1, 0, 0, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    _, _, mode = spec.partition(":")
    if mode:
        name, options = parse_spec(mode)
        kinds = xllamacpp.common_speculative_type
        prefix = "COMMON_SPECULATIVE_TYPE_"
        kind = getattr(kinds, prefix + name.upper(), None)
        if kind is None or not name.startswith("ngram"):
            known = [kind.removeprefix(prefix).lower() for kind in dir(kinds) if kind.startswith(prefix + "NGRAM")]
            raise BenchError(f"llama.cpp has no self-speculation mode {name!r}; it has {', '.join(known)}")
        own = getattr(params.speculative, name)
        for option, value in options.items():
            if not hasattr(own, option):
                raise BenchError(f"llama.cpp's {name} has no option {option!r}")
            setattr(own, option, value)
        params.speculative.types = [kind]
    return xllamacpp.Server(params)


def measured_from(response: dict[str, Any], prompt_ids: Sequence[int], ends: frozenset[int]) -> TimedAnswer:
    """A server's answer. Raises BenchError if the server read another prompt than it was sent."""
    times, tokens = response["timings"], response["tokens"]
    if response["tokens_evaluated"] != len(prompt_ids):
        raise BenchError(f"llama.cpp read {response['tokens_evaluated']} tokens of a prompt of {len(prompt_ids)}")
    if not tokens:
        raise BenchError("llama.cpp returned no token ids; this version's server does not know return_tokens")
    accepted = times.get("draft_n_accepted", 0)
    return TimedAnswer(
        tokens=tokens,
        finish_reason="stop" if tokens[-1] in ends or response.get("stop_type") == "eos" else "length",
        prefill_s=times["prompt_ms"] / 1e3,
        decode_s=times["predicted_ms"] / 1e3,
        steps=len(tokens) - 1 - accepted,
        drafted=times.get("draft_n", 0),
        accepted=accepted,
        copied=accepted,
        by_source={LLAMA: [times["draft_n"], accepted]} if times.get("draft_n") else {},
    )


def summary(outcomes: Sequence[Outcome], modes: Sequence[str]) -> list[dict[str, Any]]:
    """By category: tokens per second of plain, auto, llama.cpp and its best mode, and geometric means of ratios."""
    entries = []
    for (benchmark, category, turn), group in by_category(outcomes).items():
        speculating = [mode for mode in modes if mode.startswith(f"{LLAMA}:") and ratios(group, LLAMA, mode)]
        if not speculating or not ratios(group, PLAIN, AUTO):
            continue
        best = max(speculating, key=lambda mode: geometric_mean(ratios(group, LLAMA, mode)))
        entries.append(
            {
                **{"benchmark": benchmark, "category": category, "turn": turn, "prompts": len(group), "best": best},
                **{name: speed(group, mode) for name, mode in zip(SPEEDS, (PLAIN, AUTO, LLAMA, best), strict=True)},
                "auto_over_plain": round(geometric_mean(ratios(group, PLAIN, AUTO)), 3),
                "best_over_llamacpp": round(geometric_mean(ratios(group, LLAMA, best)), 3),
                "auto_over_best": round(geometric_mean(ratios(group, best, AUTO)), 3),
                "same_text": sum(o.answers[LLAMA].tokens == o.answers[PLAIN].tokens for o in group),
            }
        )
    return entries


SPEEDS = ("plain_tokens_per_s", "auto_tokens_per_s", "llamacpp_tokens_per_s", "best_tokens_per_s")


def speed(group: Sequence[Outcome], mode: str) -> float | None:
    """Tokens per second after the first, over all answers of a category."""
    rate = tokens_per_second(outcome.answers[mode] for outcome in group)
    return None if rate is None else round(rate, 2)


def markdown(result: dict[str, Any]) -> str:
    lines = ["# Against llama.cpp", ""]
    lines += [
        "Tokens per second of decoding, after the first token. llama.cpp's best is the fastest of its self-speculation "
        "modes on the category, in hindsight. The last ratio is auto's speed over it, prompt by prompt (geometric "
        "mean): above 1 auto is faster.",
        "",
    ]
    head = ["benchmark", "category", "turn", "prompts", "plain", "auto", "llama.cpp", "its best", "mode"]
    head += ["auto / plain", "best / llama.cpp", "auto / best"]
    body = [
        [
            *(str(entry[name]) for name in ("benchmark", "category", "turn", "prompts", *SPEEDS)),
            entry["best"].partition(":")[2],
            *(f"{entry[name]:.2f}" for name in ("auto_over_plain", "best_over_llamacpp", "auto_over_best")),
        ]
        for entry in result["summary"]
    ]
    lines += [*table(head, body, left=2), ""]
    rows: list[Row] = result["rows"]
    body = [
        [*(str(row[name]) for name in ("benchmark", "category", "turn", "drafter", "tokens", "mat", "tokens_per_s"))]
        for row in rows
    ]
    lines += ["## Every mode", ""]
    lines += [*table(["benchmark", "category", "turn", "mode", "tokens", "MAT", "tokens/s"], body, left=4), ""]
    return "\n".join([*lines, *environment_lines(result["environment"])])


def find_gguf(options: argparse.Namespace, scratch: Path) -> Path:
    """The GGUF file: the one named, else the named model's.

    Raises BenchError if the model's folder was not converted from it.
    """
    gguf: Path | None = options.gguf
    if gguf is None:
        model = NAMED.get(options.model)
        if model is None or not isinstance(model.source, GgufFile):
            raise BenchError(f"{options.model} does not come from a known GGUF file; name the file with --gguf")
        print(f"fetching {model.source.name}", file=sys.stderr)
        gguf = model.source.fetch(scratch, lambda stage, done, total: None)
    record = resolve(options.model, options.models_dir) / RECORD
    if not record.is_file():
        raise BenchError(
            f"{options.model} was not converted from a GGUF file; convert one with "
            f"`python -m decoder.weights.conversion {gguf} FOLDER` and name that folder with --model"
        )
    if json.loads(record.read_text(encoding="utf-8"))["sha256"] != file_sha256(gguf):
        raise BenchError(f"{options.model} was converted from another file than {gguf.name}; convert this one")
    return gguf


def run(options: argparse.Namespace) -> None:
    if options.threads:
        torch.set_num_threads(options.threads)
    items = items_of(options)
    params = SamplingParams(max_tokens=options.max_tokens)
    specs = [LLAMA, *(f"{LLAMA}:{mode}" for mode in split_specs(options.modes))]
    modes = [*modes_of(AUTO), *specs]
    threads = torch.get_num_threads()
    settings = {
        **{"model": Path(options.model).name, "dtype": options.dtype, "device": "cpu", "threads": threads},
        **{"max_tokens": params.max_tokens, "temperature": 0.0},
    }
    with tempfile.TemporaryDirectory() as scratch:
        gguf = find_gguf(options, Path(scratch))
        loaded = open_model(options.model, dtype=options.dtype, device="cpu", models_dir=options.models_dir)
        engine = loaded.engine
        engine.context.cost = load_or_measure(engine.target, None)
        window = min(engine.target.max_positions, WINDOW)
        servers = Servers(gguf, specs, threads, window, sorted(engine.eos_token_ids), options.server)
        file = PromptsFile(prompts_path(options.json), {**settings, "modes": modes, "gguf": gguf.name})
        outcomes = compare(engine, loaded.chat, items, params, modes, file, say, peers=servers)
        command = shlex.join(["python", "benchmarks/against_llamacpp.py", *sys.argv[1:]])
        facts = environment(command, **settings, gguf=gguf.name, llamacpp=_version(options.server))
        result = {
            "environment": facts,
            "summary": summary(outcomes, modes),
            "rows": decode_rows(outcomes, modes, model=loaded.name, dtype=options.dtype),
            "promise": compare_speeds(outcomes, modes),
        }
    write_json(options.json, result)
    write_markdown(options.markdown, markdown(result))


def _version(program: Path | None) -> str:
    from importlib.metadata import version

    if program is None:
        return f"xllamacpp {version('xllamacpp')}"
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
    return f"{program.name}, built for this processor; {' '.join((said.stdout + said.stderr).split())}"


def main() -> int:
    parser = argparse.ArgumentParser(description="Compare decoding with llama.cpp on the CPU.")
    parser.add_argument("--model", default="smollm2-135m", help="a model that was converted from the GGUF file")
    parser.add_argument("--gguf", type=Path, help="the GGUF file (default: a named model's)")
    parser.add_argument("--server", type=Path, help="a llama-server built for this processor (default: xllamacpp's)")
    parser.add_argument("--models-dir", type=Path, default=default_models_dir())
    parser.add_argument(
        "--dtype", default="float32", choices=list(NUMBER_FORMATS), help="of the engine (default float32)"
    )
    parser.add_argument("--data", type=Path, nargs="+", required=True)
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--categories", default="")
    parser.add_argument("--max-chars", type=int, default=6000)
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--modes", default=MODES, help=f"llama.cpp's modes (default {MODES})")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    try:
        run(options)
    except (BenchError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
