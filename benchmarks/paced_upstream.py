"""A model server with OpenAI's API that sends words of its prompt at a fixed pace; nothing is computed.

python -m benchmarks.paced_upstream FD       serves on a listening socket that it inherits
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import uvicorn

FIRST_S, PACE_S, WORDS = 0.4, 0.025, 80
CHECK_S = 0.05
"""Until the answer to a question for one token: its prompt is known but for the end."""
Send = Callable[[dict[str, Any]], Awaitable[None]]

asked: list[dict[str, Any]] = []


async def app(scope: dict[str, Any], receive: Callable[[], Awaitable[dict[str, Any]]], send: Send) -> None:
    if scope["type"] != "http":
        return
    if scope["method"] == "GET":
        known = asked if scope["path"] == "/asked" else {"object": "list", "data": [{"id": "script"}]}
        await reply(send, json.dumps(known).encode())
        return
    raw, more = b"", True
    while more:
        message = await receive()
        raw, more = raw + message.get("body", b""), message.get("more_body", False)
    body = json.loads(raw)
    if body.get("stream"):
        asked.append(body)
        await stream(send, body)
    else:
        await asyncio.sleep(CHECK_S)
        top = [{"token": "Yes", "logprob": -0.1}, {"token": "No", "logprob": -2.5}]
        logprobs = {"content": [{**top[0], "top_logprobs": top}]}
        choice = {"index": 0, "message": {"content": "Yes"}, "finish_reason": "length", "logprobs": logprobs}
        await reply(send, json.dumps({"choices": [choice]}).encode())


async def stream(send: Send, body: dict[str, Any]) -> None:
    """The first words of the prompt's last passage, each when its time has come."""
    clock = asyncio.get_running_loop().time
    started = clock()
    words = re.findall(r"\S+\s*", body["messages"][-1]["content"])[:WORDS]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for number, word in enumerate(words):
        await asyncio.sleep(max(0.0, started + FIRST_S + PACE_S * number - clock()))
        await event(send, {"choices": [{"index": 0, "delta": {"content": word}}]})
    await event(send, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    await event(send, {"choices": [], "usage": {"prompt_tokens": 1000, "completion_tokens": len(words)}})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": False})


async def event(send: Send, chunk: dict[str, Any]) -> None:
    await send({"type": "http.response.body", "body": b"data: %s\n\n" % json.dumps(chunk).encode(), "more_body": True})


async def reply(send: Send, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


if __name__ == "__main__":
    uvicorn.run(app, fd=int(sys.argv[1]), log_level="warning")
