"""The demo: start everything, ingest the sample documents, ask, follow up, and check that speculation changes nothing.

    scripts/demo                                  (installs and pulls models first)
    python examples/demo.py [--url URL]           uses a running service

Exits with 1 when an answer or its citations differ from those of `speculation: off`.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rag_client import Rag, RagProblem

DOCUMENTS = Path(__file__).parent / "documents"
COLLECTION = "handbook"
SESSIONS = (
    ("What are the severity levels?", "What is SEV1?"),
    ("What does the travel policy say about hotels and meals?",),
)
OPTIONS: dict[str, Any] = {"collection": COLLECTION, "max_tokens": 56, "seed": 7, "retrieval": {"top_k": 3}}
START_SECONDS = 300

COLOURS = sys.stdout.isatty() and "NO_COLOR" not in os.environ
BOLD, DIM, GREEN, RESET = ("\033[1m", "\033[2m", "\033[32m", "\033[0m") if COLOURS else ("", "", "", "")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="address of a running service")
    url = parser.parse_args().url
    if url:
        return show(Rag(url))
    with tempfile.TemporaryDirectory(prefix="rag-demo-") as folder, running_service(Path(folder)) as started:
        return show(started)


def show(rag: Rag) -> int:
    """Run the demo against a service. Returns 0 if speculation changed nothing."""
    heading(f"Ingesting {len(list(DOCUMENTS.iterdir()))} sample documents")
    job = rag.upload(COLLECTION, sorted(DOCUMENTS.iterdir()))
    for failure in job["failures"]:
        print(f"  {failure['name']}: {failure['reason']}")
    if job["status"] != "succeeded" or job["failures"]:
        print(f"  The ingest ended with status {job['status']}.")
        return 1
    print(f"  {job['done']} documents in the collection {COLLECTION!r}")

    rag.ask("What is SEV1?", **{**OPTIONS, "max_tokens": 8})  # the first pass is slower: it warms the model up
    copied = [answer for questions in SESSIONS for answer in session(rag, questions, "auto", shown=True)]
    heading("The same questions with speculation off")
    plain = [answer for questions in SESSIONS for answer in session(rag, questions, "off", shown=False)]
    same = True
    for number, (fast, slow) in enumerate(zip(copied, plain, strict=True), start=1):
        text, citations = fast["answer"] == slow["answer"], fast["citations"] == slow["citations"]
        same = same and text and citations
        passes = f"{fast['speculation']['steps']} passes, {slow['speculation']['steps']} with it off"
        times = f"{fast['timings']['decode']:.0f} ms, {slow['timings']['decode']:.0f} ms with it off"
        print(f"  answer {number}: text {verdict(text)}, citations {verdict(citations)}")
        print(f"    {passes}; decoding took {times}")
    print(f"\n{BOLD}{'All answers and citations are identical.' if same else 'THE ANSWERS DIFFER.'}{RESET}")
    print(f"{DIM}The answers come from a 135M demo model. docs/how-to/own-model.md names better models.{RESET}")
    return 0 if same else 1


def session(rag: Rag, questions: Sequence[str], speculation: str, *, shown: bool) -> list[dict[str, Any]]:
    """Ask the questions one after the other in a new session; return the finished answers."""
    known: dict[str, str] = {}
    answers = []
    for question in questions:
        if shown:
            heading(("Follow-up: " if known else "Question: ") + question)
            print(f"  {GREEN}green{DIM} text was drafted and verified by the model{RESET}\n" if COLOURS else "")
            print("  ", end="")
        for event, data in rag.stream(question, speculation=speculation, **OPTIONS, **known):
            if event == "token" and shown:
                text = data["text"].replace("\n", "\n  ")
                print(f"{GREEN}{text}{RESET}" if "source" in data else text, end="", flush=True)
            elif event == "error":
                raise RagProblem(data["status"], data["code"], data["detail"])
            elif event == "done":
                answers.append(data)
                known = {"session_id": data["session_id"]}
        if shown:
            print(f"{DIM} (cut){RESET}\n" if answers[-1]["finish_reason"] in ("length", "repetition") else "\n")
            details(answers[-1])
    return answers


def details(answer: dict[str, Any]) -> None:
    """Passages, citations and what the drafters did."""
    print("  Passages")
    for passage in answer["passages"]:
        where = passage["heading"] or (f"page {passage['page']}" if passage["page"] else "")
        shown = f"{passage['title']} – {where}" if where else passage["title"]
        print(f"    {passage['rank']}. {shown}  {DIM}score {passage['score']:.3f}{RESET}")
    print("  Citations")
    titles = {passage["document_id"]: passage["title"] for passage in answer["passages"]}
    for citation in answer["citations"]:
        quote = answer["answer"][citation["answer_start"] : citation["answer_end"]].replace("\n", " ")
        span = f"{citation['source_start']}–{citation['source_end']}"
        text = f"“{quote}”" if citation["kind"] == "copied" else "supports the answer"
        print(f"    {citation['kind']:9} {titles[citation['document_id']]}, characters {span}: {text}")
    if answer["note"]:
        print(f"    {answer['note']}")
    speculation = answer["speculation"]
    print("  Speculation")
    print(f"    MAT {speculation['mat']:.2f}: {answer['usage']['completion_tokens']} tokens", end="")
    print(f" in {speculation['steps']} steps; plain decoding needs {speculation['plain_equivalent_steps']}")
    for source, count in speculation["by_source"].items():
        print(f"    {source}: {count['drafted']} tokens drafted, {count['accepted']} accepted")


@contextmanager
def running_service(data_dir: Path) -> Iterator[Rag]:
    """Run `rag up` on a free port with its data in `data_dir`. Yields a client, and stops the service at the end."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    heading(f"Starting Redis, a worker and the API: rag up --port {port}")
    log = data_dir / "up.log"
    models = os.environ.get("RAG_MODELS_DIR", str(Path.cwd() / ".rag" / "models"))
    environment = {**os.environ, "RAG_DATA_DIR": str(data_dir / "data"), "RAG_MODELS_DIR": models}
    command = [str(Path(sys.executable).with_name("rag")), "up", "--port", str(port)]
    with log.open("wb") as output:
        service = subprocess.Popen(command, env=environment, stdout=output, stderr=output, cwd=data_dir)
    try:
        wait_until_ready(Rag(url, timeout=5), service, log)
        print(f"  ready at {url}")
        yield Rag(url, api_key=(data_dir / "data" / "key").read_text().strip())
    finally:
        if service.poll() is None:
            service.send_signal(signal.SIGINT)
        try:
            service.wait(30)
        except subprocess.TimeoutExpired:
            service.kill()
            service.wait()


def wait_until_ready(rag: Rag, service: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    reason = "it did not respond"
    while service.poll() is None and time.monotonic() < deadline:
        try:
            rag.call("GET", "/readyz")
            return
        except (OSError, RagProblem) as error:
            reason = str(error)
        time.sleep(0.2)
    sys.exit(f"The service did not become ready: {reason}\n{log.read_text(errors='replace')[-4000:]}")


def heading(text: str) -> None:
    print(f"\n{BOLD}{text}{RESET}", flush=True)


def verdict(equal: bool) -> str:
    return "identical" if equal else "DIFFERENT"


if __name__ == "__main__":
    sys.exit(main())
