"""llama.cpp's own server, of the wheel `xllamacpp`, with a small real model, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from decoder.models import NAMED, default_models_dir
from decoder.weights.gguf_file import GgufFile

MODEL = "qwen2.5-coder-0.5b"
WINDOW = 8192
_SERVE = """
import sys, xllamacpp
params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.n_ctx, params.n_parallel, params.port, params.n_gpu_layers, params.verbosity = int(sys.argv[2]), 1, 0, 0, 0
server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


@contextmanager
def llamacpp_server() -> Iterator[str]:
    """The server's address, without /v1. It ends with the block, or with this process.

    The model's file is downloaded once, into the models' folder.
    """
    source = NAMED[MODEL].source
    assert isinstance(source, GgufFile)
    file: Path = source.fetch(default_models_dir() / "gguf", lambda *_: None)
    command = [sys.executable, "-c", _SERVE, str(file), str(WINDOW)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith("http"):
                    yield line.strip()
                    break
            else:
                raise RuntimeError(f"llama.cpp's server ended with {process.wait()}")
        finally:
            process.kill()
