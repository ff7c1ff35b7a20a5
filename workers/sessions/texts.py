"""The texts of a session, each kept once by its content, for the records of its answers and turns.

Every record of a session repeats its passages and the conversation before it. So what is stored of one names them, and
they stand in one hash beside the session: a record grows by a name a turn, whatever the session's length. What an
earlier version stored whole has no names and is read as it is.

Knows the JSON of jobs and turns; knows no prompts, no scripts and no sessions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

from workers.broker import keys, wire
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.broker.messages import GenerateJob, TurnRecord

LEAST = 64
"""Characters below which a text is not worth its name."""


class _TextsGoneError(Exception):
    """A text is not kept any more: the session was erased meanwhile."""


class _Stored:
    """A message as it is stored.

    Attributes:
        text: JSON with names in the place of texts.
        kept: what the names stand for, as JSON, by name.
    """

    def __init__(self, message: GenerateJob | TurnRecord) -> None:
        self.kept: dict[str, str] = {}
        data = message.model_dump()
        cores = {str(p["chunk_id"]): str(p.get("text", "")).strip() for p in data["passages"] if "chunk_id" in p}
        for segment in data["segments"]:
            segment["text"] = self._text(segment["text"], cores.get(str(segment["chunk_id"]), ""))
        data["passages"] = [self._passage(passage, rank) for rank, passage in enumerate(data["passages"], 1)]
        if isinstance(message, GenerateJob):
            data["segments"] = self._turns(data["segments"])
        self.text = _dumps(data)

    def _keep(self, value: Any) -> str:
        text = _dumps(value)
        name = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:18]).decode()
        self.kept[name] = text
        return name

    def _text(self, text: Any, core: str = "") -> Any:
        """A passage is kept without what stands around it in a prompt."""
        if not isinstance(text, str) or len(text) < LEAST:
            return text
        core = core if len(core) >= LEAST and core in text else text.strip() or text
        before, _, after = text.partition(core)
        return {"kept": self._keep(core), "before": before, "after": after}

    def _passage(self, passage: dict[str, Any], rank: int) -> dict[str, Any] | str:
        if "text" not in passage:
            return passage
        changed = {**passage, "text": self._text(passage["text"])}
        if passage.get("rank") == rank:  # it follows from the place
            changed["rank"] = None
        return self._keep(changed)

    def _turns(self, segments: Sequence[dict[str, Any]]) -> list[dict[str, Any] | str]:
        """Segments up to the end of each answer together; the next turn's prompt begins with the same."""
        made: list[dict[str, Any] | str] = []
        turn: list[dict[str, Any]] = []
        for segment in segments:
            turn.append(segment)
            if segment["kind"] == "answer":
                made.append(self._keep(turn))
                turn = []
        return [*made, *turn]


class _Whole:
    """Messages that are read: asks for what their names stand for until nothing is missing."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._messages: list[dict[str, Any]] = [json.loads(text) for text in texts]
        self._known: dict[str, Any] = {}

    @property
    def session_id(self) -> str:
        """That of an answer's job."""
        return str(self._messages[0]["session_id"])

    def missing(self) -> list[str]:
        return list(dict.fromkeys(name for message in self._messages for name in self._names(message)))

    def learn(self, names: Sequence[str], texts: Sequence[str | None]) -> None:
        for name, text in zip(names, texts, strict=True):
            if text is None:
                raise _TextsGoneError(name)
            self._known[name] = json.loads(text)

    def messages(self) -> list[dict[str, Any]]:
        return [self._filled(message) for message in self._messages]

    def _names(self, message: dict[str, Any]) -> Iterator[str]:
        for part in (*message["segments"], *message["passages"]):
            if isinstance(part, str) and part not in self._known:
                yield part
                continue
            found = self._known[part] if isinstance(part, str) else part
            for one in found if isinstance(found, list) else [found]:
                text = one.get("text")
                if isinstance(text, dict) and text["kept"] not in self._known:
                    yield text["kept"]

    def _filled(self, message: dict[str, Any]) -> dict[str, Any]:
        segments: list[dict[str, Any]] = []
        for part in message["segments"]:
            segments += map(self._with_text, self._known[part] if isinstance(part, str) else [part])
        passages = []
        for rank, part in enumerate(message["passages"], 1):
            passage = self._with_text(self._known[part] if isinstance(part, str) else part)
            passages.append({**passage, "rank": rank} if passage.get("rank", 0) is None else passage)
        return {**message, "segments": segments, "passages": passages}

    def _with_text(self, part: dict[str, Any]) -> dict[str, Any]:
        text = part.get("text")
        if not isinstance(text, dict):
            return part
        return {**part, "text": text["before"] + self._known[text["kept"]] + text["after"]}


def stored(message: GenerateJob | TurnRecord, *, apart: bool = False) -> tuple[str, dict[str, str]]:
    """A message as it is stored, and what it names, by name.

    Args:
        apart: it belongs to no session, so it is stored whole.
    """
    if apart:
        return wire.dumps(message), {}
    made = _Stored(message)
    return made.text, made.kept


def read_turns(client: RedisClient, owner: str, session_id: str, texts: Sequence[str]) -> list[TurnRecord]:
    """Turns of a session as they were stored; [] where it was erased meanwhile."""
    whole = _Whole(texts)
    try:
        while names := whole.missing():
            whole.learn(names, client.hmget(keys.session_texts(owner, session_id), names))
    except _TextsGoneError:
        return []
    return [TurnRecord.model_validate(message) for message in whole.messages()]


def read_job(client: RedisClient, owner: str, text: str) -> GenerateJob | None:
    """An answer's job as it was stored; None where its session was erased meanwhile."""
    whole = _Whole([text])
    try:
        while names := whole.missing():
            whole.learn(names, client.hmget(keys.session_texts(owner, whole.session_id), names))
    except _TextsGoneError:
        return None
    return GenerateJob.model_validate(*whole.messages())


async def aread_job(client: AsyncRedisClient, owner: str, text: str) -> GenerateJob | None:
    """`read_job` for asyncio."""
    whole = _Whole([text])
    try:
        while names := whole.missing():
            whole.learn(names, await client.hmget(keys.session_texts(owner, whole.session_id), names))
    except _TextsGoneError:
        return None
    return GenerateJob.model_validate(*whole.messages())


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
