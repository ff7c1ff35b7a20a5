"""The demo: start everything, ingest sample documents, ask ten questions, and check that speculation changes nothing.

    scripts/demo                                  (installs and pulls models first)
    python examples/demo.py [--url URL]           uses a running service

Green text was copied and verified by the model. Exits with 1 if an answer or its citations differ from those of
`speculation: off`, unless the model runs in half precision.
"""

from __future__ import annotations

import argparse
import itertools
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
SESSIONS: tuple[tuple[tuple[str, str], ...], ...] = (
    (("What is the hotel limit per night in Zurich?", "210"), ("And in Berlin?", "140")),
    (("What is SEV1?", "lose data"),),
    (("How long are backups kept?", "35 days"),),
    (("Within how many days must I hand in expense claims?", "30 days"),),
    (("How many days of paid leave do I have?", "28"),),
    (("Who can lift a legal hold?", "general counsel"),),
    (("How much acetone may be kept in one room?", "5 litres"),),
    (("How is on-call duty paid?", "300 euros"),),
    (("Does the company pay for childcare?", ""),),
)
"""Questions, and what a right answer says; "" for a question that the documents do not answer."""
COMPARED = 3
"""Sessions that are asked again with speculation off."""
OPTIONS: dict[str, Any] = {"collection": COLLECTION, "seed": 7}
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
    """Run the demo against a service. Returns its exit status."""
    heading(f"Ingesting {len(list(DOCUMENTS.iterdir()))} sample documents")
    job = rag.upload(COLLECTION, sorted(DOCUMENTS.iterdir()))
    for failure in job["failures"]:
        print(f"  {failure['name']}: {failure['reason']}")
    if job["status"] != "succeeded" or job["failures"]:
        print(f"  The ingest ended with status {job['status']}.")
        return 1
    print(f"  {job['done']} documents in the collection {COLLECTION!r}")

    rag.ask("What is SEV1?", **OPTIONS, max_tokens=8)  # the first pass is slower: it warms the model up
    copied = [session(rag, questions, "auto", shown=True) for questions in SESSIONS]
    facts = [fact for questions in SESSIONS for _, fact in questions]
    rights = [right(answer, fact) for answer, fact in zip(itertools.chain(*copied), facts, strict=True)]
    print(f"{BOLD}{sum(rights)} of {len(rights)} answers are right{RESET}, told by a word that a right one has.")

    heading("The first questions again, with speculation off")
    plain = [session(rag, questions, "off", shown=False) for questions in SESSIONS[:COMPARED]]
    same = True
    for number, (fast, slow) in enumerate(zip(itertools.chain(*copied), itertools.chain(*plain), strict=False), 1):
        text, citations = fast["answer"] == slow["answer"], places(fast) == places(slow)
        same = same and text and citations
        passes = f"{fast['speculation']['steps']} passes, {slow['speculation']['steps']} with it off"
        times = f"{fast['timings']['decode']:.0f} ms, {slow['timings']['decode']:.0f} ms with it off"
        print(f"  answer {number}: text {verdict(text)}, citations {verdict(citations)}")
        print(f"    {passes}; decoding took {times}")
    exact = rag.call("GET", "/readyz")["model"]["dtype"] in ("float32", "float64")
    if same:
        print(f"\n{BOLD}All answers and citations are identical.{RESET}")
    elif exact:
        print(f"\n{BOLD}THE ANSWERS DIFFER.{RESET}")
    else:
        print(f"\n{BOLD}An answer differs{RESET}: in half precision a near-tie can go either way.")
    return 1 if exact and not same else 0


def places(answer: dict[str, Any]) -> list[dict[str, Any]]:
    """An answer's citations without their support: rows from the cache move the model's state by a rounding."""
    return [{name: value for name, value in one.items() if name != "support"} for one in answer["citations"]]


def right(answer: dict[str, Any], fact: str) -> bool:
    """Whether an answer says the fact and cites a source; without a fact, whether it is warned of or says so."""
    if not fact:
        return answer["abstained"] is not None or "do not say" in answer["answer"]
    return fact in answer["answer"] and bool(answer["citations"])


def session(rag: Rag, questions: Sequence[tuple[str, str]], speculation: str, *, shown: bool) -> list[dict[str, Any]]:
    """Ask the questions one after the other in a new session; return the finished answers."""
    known: dict[str, str] = {}
    answers = []
    for question, fact in questions:
        if shown:
            heading(("Follow-up: " if known else "Question: ") + question)
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
            print()
            details(answers[-1], right(answers[-1], fact))
    return answers


def details(answer: dict[str, Any], is_right: bool) -> None:
    """Citations, support, and what the drafters did."""
    titles = {passage["document_id"]: passage["title"] for passage in answer["passages"]}
    for citation in answer["citations"]:
        span = f"{citation['source_start']}–{citation['source_end']}"
        print(f"  {DIM}{citation['kind']} from {titles[citation['document_id']]}, characters {span}{RESET}")
    if answer["note"]:
        print(f"  {answer['note']}")
    speculation = answer["speculation"]
    support = "–" if answer["support"] is None else f"{answer['support']:.2f}"
    tokens, took = answer["usage"]["completion_tokens"], answer["timings"]["total"] / 1000
    print(f"  {DIM}support {support} · {tokens} tokens in {speculation['steps']} passes after the first", end="")
    print(f" · {took:.1f} s · {'right' if is_right else 'wrong'}{RESET}")


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
