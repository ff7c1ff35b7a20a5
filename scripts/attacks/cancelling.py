"""Clients that disconnect."""

from __future__ import annotations

import json

from service import until
from stack import Stack

PATIENCE_S = 15.0
"""Seconds within which the answers must stop; otherwise they would run for minutes."""


def openai_clients_that_go(stack: Stack) -> None:
    """An OpenAI call stops with all its choices when its client disconnects."""
    body = json.dumps(
        {
            "model": "default",
            "n": 3,
            "max_tokens": 1500,
            "temperature": 1.0,
            "messages": [{"role": "user", "content": "Write a very long story."}],
            "logit_bias": {"2": -100, "0": -100},
        }
    ).encode()
    connection = stack.service.connect()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {stack.service.key}"}
    connection.request("POST", "/v1/chat/completions", body, headers)
    until(lambda: running(stack) >= 3, "the beginning of three answers", 30)
    connection.close()
    until(lambda: running(stack) == 0, "the end of three answers", PATIENCE_S)


def running(stack: Stack) -> int:
    from workers.broker.app import make_redis

    client = make_redis(stack.run["redis_url"])
    try:
        return sum(json.loads(info).get("running", 0) for info in client.hvals("rag:workers:info"))
    finally:
        client.close()


ON_A_STACK = [openai_clients_that_go]
