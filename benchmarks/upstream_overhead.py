"""What the service adds to a model server's answers: time to the first text and in all, beside asking it directly.

    python benchmarks/upstream_overhead.py --json OUT.json --markdown OUT.md

The model server is a script (`paced_upstream.py`): it sends words of its prompt at a fixed pace, so that no model takes
the cores. The same prompts are sent through the service and straight to it, in turn. The time of the search
(`timings.search`) and of the support check (`timings.support`) are stated on their own, and not part of the overhead.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from paced_upstream import FIRST_S, PACE_S, WORDS

from decoder.bench.results import environment_lines, table, write_json, write_markdown
from decoder.recording.environment import environment
from rag_service.access import local_key
from rag_service.bench.stack import Stack
from rag_service.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
COLLECTION = "handbook"
LENGTH_S = FIRST_S + WORDS * PACE_S
"""Of an answer."""
SHARE, FIXED_MS = 0.05, 30.0
"""What the service may add: a share of the direct time, and milliseconds."""


class Timed(NamedTuple):
    """One answer, in milliseconds from its request. `search` and `support` are 0 for direct ones."""

    first: float
    total: float
    search: float
    support: float
    events: int
    text: str


async def data_lines(response: httpx.Response) -> AsyncIterator[tuple[float, str]]:
    """The data of server-sent events, and when each came."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield time.perf_counter(), line[6:]


async def ask_service(client: httpx.AsyncClient, question: str) -> Timed:
    body = {"question": question, "collection": COLLECTION, "stream": True, "max_tokens": 4 * WORDS}
    started, first, events, text = time.perf_counter(), 0.0, 0, ""
    async with client.stream("POST", "/v1/query", json=body) as response:
        response.raise_for_status()
        async for at, data in data_lines(response):
            event = json.loads(data)
            if "timings" not in event and "text" in event:
                first, events, text = first or at, events + 1, text + event["text"]
            elif "timings" in event:
                times = event["timings"]
                total = 1e3 * (at - started)
                return Timed(1e3 * (first - started), total, times["search"], times["support"], events, text)
            elif "error" in event or "status" in event:
                raise SystemExit(f"an answer failed: {event}")
    raise SystemExit("a stream ended early")


async def ask_directly(client: httpx.AsyncClient, body: dict[str, Any]) -> Timed:
    started, first, events, text = time.perf_counter(), 0.0, 0, ""
    async with client.stream("POST", "/v1/chat/completions", json=body) as response:
        response.raise_for_status()
        async for at, data in data_lines(response):
            if data == "[DONE]":
                return Timed(1e3 * (first - started), 1e3 * (at - started), 0.0, 0.0, events, text)
            for choice in json.loads(data)["choices"]:
                if piece := choice["delta"].get("content"):
                    first, events, text = first or at, events + 1, text + piece
    raise SystemExit("a direct stream ended early")


async def measure(service: str, key: str, upstream: str, streams: Sequence[int], rounds: int) -> dict[str, Any]:
    """Both ways by number of streams at once; the order of the two changes from round to round."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=256)
    headers = {"Authorization": f"Bearer {key}"}
    async with (
        httpx.AsyncClient(base_url=service, headers=headers, timeout=120, limits=limits, trust_env=False) as through,
        httpx.AsyncClient(base_url=upstream, timeout=120, limits=limits, trust_env=False) as direct,
    ):
        questions = [f"What does rule {n} of the handbook say about travel, leave and backups?" for n in range(1, 65)]
        for at in range(0, len(questions), 8):  # once, so that the prompts are known
            await asyncio.gather(*(ask_service(through, question) for question in questions[at : at + 8]))
        asked = {body["messages"][-1]["content"]: body for body in (await direct.get("/asked")).json()}
        bodies = [next(body for text, body in asked.items() if question in text) for question in questions]
        result: dict[str, Any] = {}
        for spread, many in ((spread, many) for spread in (True, False) for many in streams if spread or many > 1):
            pairs: list[tuple[Timed, Timed]] = []
            for number in range(rounds if many > 1 else 4 * rounds):
                chosen = [(number * many + n) % len(questions) for n in range(many)]
                both: dict[bool, list[Timed]] = {}
                for served in (number % 2 == 0, number % 2 == 1):
                    if served:
                        calls = [partial(ask_service, through, questions[n]) for n in chosen]
                    else:
                        calls = [partial(ask_directly, direct, bodies[n]) for n in chosen]
                    both[served] = await wave(calls, LENGTH_S / many if spread else 0.0)
                pairs += zip(both[False], both[True], strict=True)
            if any(one.text != other.text for one, other in pairs):
                raise SystemExit("a text through the service differs from the direct one")
            row = summary(pairs)
            result[f"{many}, {'spread' if spread else 'together'}" if many > 1 else "1"] = row
            print(f"{many} at once{', spread' if spread else ''}: {json.dumps(row)}", file=sys.stderr, flush=True)
        return result


async def wave(calls: Sequence[Callable[[], Awaitable[Timed]]], apart_s: float) -> list[Timed]:
    """The second answer of each call. A call's two answers follow each other; calls begin `apart_s` after another.

    So with `apart_s` above 0, as many answers are under way as there are calls, at different places. Without it they
    begin together, and there is one of each.
    """

    async def twice(number: int) -> Timed:
        await asyncio.sleep(number * apart_s)
        if apart_s:
            await calls[number]()
        return await calls[number]()

    return await asyncio.gather(*map(twice, range(len(calls))))


def summary(pairs: Sequence[tuple[Timed, Timed]]) -> dict[str, Any]:
    """Medians in milliseconds; what is added is a median over pairs, without search and support."""
    direct, served = [one for one, _ in pairs], [other for _, other in pairs]
    row: dict[str, Any] = {"answers": len(pairs)}
    for name, without in (("first", 0), ("total", 1)):
        alone = [getattr(one, name) for one in direct]
        added = [
            getattr(other, name) - other.search - without * other.support - getattr(one, name) for one, other in pairs
        ]
        row[name] = {
            "direct": round(median(alone), 1),
            "served": round(median(getattr(other, name) for other in served), 1),
            "added": round(median(added), 1),
            "added_p95": round(sorted(added)[int(0.95 * (len(added) - 1))], 1),
            "allowed": round(SHARE * median(alone) + FIXED_MS, 1),
        }
    row["search"] = round(median(other.search for other in served), 1)
    row["support"] = round(median(other.support for other in served), 1)
    row["events"] = median(other.events for other in served)
    return row


def page(result: dict[str, Any]) -> str:
    head = ["at once", "answers", "time to", "direct, ms", "through the service, ms", "search, ms", "support, ms"]
    head += ["added, ms", "95 % below", "allowed"]
    body = [
        [
            *(many, str(row["answers"]), {"first": "first text", "total": "end"}[name]),
            *(str(row[name][one]) for one in ("direct", "served")),
            *(str(row["search"]), str(row["support"]) if name == "total" else "–"),
            *(str(row[name][one]) for one in ("added", "added_p95", "allowed")),
        ]
        for many, row in result["rows"].items()
        for name in ("first", "total")
    ]
    lines = [
        "# What the service adds to a model server",
        "",
        f"The model server is a script: first text after {1e3 * FIRST_S:.0f} ms, then {WORDS} words, one each "
        f"{1e3 * PACE_S:.0f} ms. Added: the median over pairs of the time through the service less the direct one, "
        "without the search and the support check, which are stated beside it. Together: all begin at the same "
        "moment; spread: they begin evenly over the time of an answer. Allowed: 5 % of the direct time and "
        f"{FIXED_MS:.0f} ms.",
        "",
        *table(head, body, left=3),
        "",
        *environment_lines(result["environment"]),
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure what the service adds to a model server's answers.")
    parser.add_argument("--streams", type=int, nargs="+", default=[1, 8, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--markdown", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as bound:
        bound.set_inheritable(True)
        address = f"http://127.0.0.1:{bound.getsockname()[1]}"
        os.environ |= {
            "RAG_ENGINE": "openai",
            "RAG_UPSTREAM__URL": f"{address}/v1",
            "RAG_UPSTREAM__MODEL": "script",
            "RAG_UPSTREAM__SERVER": "llama.cpp",
            "RAG_CONCURRENCY": str(max(options.streams)),
        }
        command = [sys.executable, str(ROOT / "benchmarks/paced_upstream.py"), str(bound.fileno())]
        server = subprocess.Popen(command, pass_fds=[bound.fileno()])
        try:
            say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
            with Stack(Path(folder), Settings(), say) as stack:
                client = stack.client(reuse=True)
                client.ingest(COLLECTION, sorted((ROOT / "examples/documents").iterdir()))
                key, service = local_key.ensure(Path(folder)), str(client.address.base_url)
                rows = asyncio.run(measure(service, key, address, options.streams, options.rounds))
        finally:
            server.terminate()
            server.wait()
    result = {
        "environment": environment(f"python benchmarks/upstream_overhead.py --rounds {options.rounds}"),
        "rows": rows,
    }
    write_json(options.json, result)
    write_markdown(options.markdown, page(result))


if __name__ == "__main__":
    main()
