"""The comparison with llama.cpp, without llama.cpp: what is sent, how answers are read, which mode counts as best."""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from decoder import SamplingParams
from decoder.bench.decode.outcomes import Outcome
from decoder.bench.decode.timing import TimedAnswer
from decoder.recording.prompts import BenchError
from decoder.weights.conversion import RECORD
from decoder.weights.wheels import file_sha256
from tests.support.tiny_models import tiny_model

FILE = Path(__file__).parents[3] / "benchmarks" / "against_llamacpp.py"
ANSWER = {
    "tokens": [5, 6, 7, 8, 9, 10, 11, 2],
    "tokens_evaluated": 3,
    "stop_type": "eos",
    "timings": {"prompt_ms": 100.0, "predicted_ms": 50.0, "predicted_n": 8, "draft_n": 9, "draft_n_accepted": 4},
}


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("against_llamacpp", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    path = list(sys.path)
    spec.loader.exec_module(module)
    yield module
    sys.path[:] = path


@pytest.fixture
def server() -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """A loopback server that gives ANSWER to prompts of three tokens and refuses others."""
    requests: list[tuple[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append((self.path, body))
            answer = json.dumps(ANSWER if len(body["prompt"]) == 3 else {"error": "too long"}).encode()
            self.send_response(200 if len(body["prompt"]) == 3 else 400)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *arguments: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}", requests
        serving.shutdown()
        thread.join()


def test_token_ids_are_sent_and_the_answer_is_read(
    script: ModuleType, server: tuple[str, list[tuple[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, requests = server
    monkeypatch.setattr(script, "start_server", lambda *_: SimpleNamespace(listening_address=address))
    servers = script.Servers(Path("x.gguf"), ["llama.cpp"], 2, 512, [2])
    answer = servers.measure("llama.cpp", [7, 8, 9], SamplingParams(max_tokens=8))
    path, body = requests[0]
    assert path == "/completion"
    assert (body["prompt"], body["n_predict"], body["temperature"]) == ([7, 8, 9], 8, 0)
    assert not body["cache_prompt"]
    assert answer.tokens == ANSWER["tokens"]
    assert (answer.steps, answer.drafted, answer.accepted, answer.finish_reason) == (3, 9, 4, "stop")
    assert (answer.prefill_s, answer.decode_s, answer.seconds_a_token) == (0.1, 0.05, pytest.approx(0.05 / 7))
    with pytest.raises(BenchError, match=r"rejected a prompt.*too long"):
        servers.measure("llama.cpp", [7] * 600, SamplingParams(max_tokens=8))


def test_answers_that_cannot_be_compared_are_refused(script: ModuleType) -> None:
    with pytest.raises(BenchError, match="read 3 tokens of a prompt of 4"):
        script.measured_from(ANSWER, [1, 2, 3, 4], frozenset())
    with pytest.raises(BenchError, match="no token ids"):
        script.measured_from({**ANSWER, "tokens": []}, [1, 2, 3], frozenset())


def test_the_best_mode_is_the_fastest_of_the_category(script: ModuleType) -> None:
    def measured(seconds: float) -> TimedAnswer:
        return TimedAnswer(list(range(11)), "length", 1.0, seconds, 5, 0, 0, 0)

    times = {"plain": 10.0, "auto": 2.0, "llama.cpp": 6.0, "llama.cpp:ngram_mod": 5.0, "llama.cpp:ngram_simple": 4.0}
    answers = {mode: measured(seconds) for mode, seconds in times.items()}
    outcomes = [Outcome(str(n), "bench", "qa", 1, 9, answers, {}) for n in range(2)]
    (entry,) = script.summary(outcomes, list(times))
    assert entry["best"] == "llama.cpp:ngram_simple"
    assert (entry["auto_over_plain"], entry["best_over_llamacpp"], entry["auto_over_best"]) == (5.0, 1.5, 2.0)
    assert [entry[name] for name in script.SPEEDS] == [1.0, 5.0, 1.67, 2.5]
    text = script.markdown({"summary": [entry], "rows": [], "environment": {"model": "tiny"}})
    assert "| bench | qa | 1 | 2 | 1.0 | 5.0 | 1.67 | 2.5 | ngram_simple | 5.00 | 1.50 | 2.00 |" in text


def test_the_engines_weights_must_come_from_the_file(script: ModuleType, tmp_path: Path) -> None:
    gguf, folder = tmp_path / "m.gguf", tmp_path / "model"
    gguf.write_bytes(b"GGUF")
    tiny_model().save_pretrained(folder)
    (folder / "tokenizer.json").write_text("{}")
    options = argparse.Namespace(gguf=gguf, model=str(folder), models_dir=tmp_path)
    with pytest.raises(BenchError, match="was not converted from a GGUF file"):
        script.find_gguf(options, tmp_path)
    (folder / RECORD).write_text(json.dumps({"sha256": "0" * 64}))
    with pytest.raises(BenchError, match=r"converted from another file than m\.gguf"):
        script.find_gguf(options, tmp_path)
    (folder / RECORD).write_text(json.dumps({"sha256": file_sha256(gguf)}))
    assert script.find_gguf(options, tmp_path) == gguf
    options.gguf = None
    with pytest.raises(BenchError, match="name the file with --gguf"):
        script.find_gguf(options, tmp_path)


def test_without_xllamacpp_it_says_how_to_get_it(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(BenchError, match="pip install xllamacpp"):
        script.start_server(Path("x.gguf"), "llama.cpp", 1, 512)


LLAMA_SERVER = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        answer = json.dumps({{**{answer!r}, "content": " ".join(sys.argv[1:])}}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *args): pass
if "bad.gguf" in sys.argv:
    sys.exit("error: bad.gguf is no model")
server = HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler)
server.serve_forever()
"""


def test_a_server_built_for_the_processor_answers_in_its_mode(script: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "llama-server"
    program.write_text(LLAMA_SERVER.format(python=sys.executable, answer=ANSWER))
    program.chmod(0o755)
    specs = ["llama.cpp", "llama.cpp:ngram_simple:size_n=3"]
    servers = script.Servers(Path("m.gguf"), specs, 2, 512, [2], program)
    assert servers.measure(specs[1], [1, 2, 3], SamplingParams(max_tokens=8)).tokens == ANSWER["tokens"]
    started = {spec: servers._servers[spec]._process.args[1:] for spec in specs}
    assert started[specs[0]][:6] == ["--model", "m.gguf", "--ctx-size", "512", "--parallel", "1"]
    assert started[specs[0]][-4:] == ["--threads", "2", "--threads-batch", "2"]
    assert started[specs[1]][-4:] == ["--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3"]
    processes = [servers._servers[spec]._process for spec in specs]
    del servers
    assert [process.wait(timeout=60) != 0 for process in processes] == [True, True]  # they end with it
    with pytest.raises(BenchError, match=r"llama-server ended: error: bad\.gguf is no model"):
        script.Program(program, Path("bad.gguf"), "llama.cpp", 2, 512)
