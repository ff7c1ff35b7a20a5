"""The texts of a session, each stored once by its content, for the records of its answers and turns.

Every record of a session repeats its passages and the conversation before it. So a stored record contains names of
these texts, and one hash of the session has the texts: a record grows by a name a turn, whatever the session's length.
Records that an earlier version stored whole have no names and are read as they are.

Knows the JSON of jobs and turns; knows no prompts, no scripts and no sessions.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from workers.broker import keys, wire
from workers.broker.app import AsyncRedisClient, RedisClient
from workers.broker.messages import GenerateJob, TurnRecord

LEAST = 64
"""Shorter texts, in characters, are stored in place."""


class _TextMissingError(Exception):
    """A text does not exist any more: the session was erased meanwhile."""


class _NamedTexts:
    """A message in stored form.

    Attributes:
        text: JSON with names in place of texts.
        texts: the named texts, as JSON, by name.
    """

    def __init__(self, message: GenerateJob | TurnRecord) -> None:
        self.texts: dict[str, str] = {}
        data = wire.fields(message)
        data["passages"] = data.get("passages", [])
        cores = {_chunk(p): str(p.get("text", "")).strip() for p in data["passages"] if "chunk_id" in p}
        for segment in data["segments"]:
            if "text" in segment:
                segment["text"] = self._text(segment["text"], cores.get(_chunk(segment), ""))
        data["passages"] = [self._passage(passage, rank) for rank, passage in enumerate(data["passages"], 1)]
        if isinstance(message, GenerateJob):
            data["segments"] = self._turns(data["segments"])
        self.text = _dumps(data)

    def _name(self, value: Any) -> str:
        text = _dumps(value)
        name = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()[:18]).decode()
        self.texts[name] = text
        return name

    def _text(self, text: Any, core: str = "") -> Any:
        """A passage is stored without the words around it in a prompt."""
        if not isinstance(text, str) or len(text) < LEAST:
            return text
        core = core if len(core) >= LEAST and core in text else text.strip() or text
        before, _, after = text.partition(core)
        return {"kept": self._name(core), "before": before, "after": after}

    def _passage(self, passage: dict[str, Any], rank: int) -> dict[str, Any] | str:
        if "text" not in passage:
            return passage
        changed = {**passage, "text": self._text(passage["text"])}
        if passage.get("rank") == rank:  # implied by the position
            changed["rank"] = None
        return self._name(changed)

    def _turns(self, segments: Sequence[dict[str, Any]]) -> list[dict[str, Any] | str]:
        """Names the segments of each turn together, up to its answer; the next turn's prompt begins with the same."""
        turns: list[dict[str, Any] | str] = []
        turn: list[dict[str, Any]] = []
        for segment in segments:
            turn.append(segment)
            if segment["kind"] == "answer":
                turns.append(self._name(turn))
                turn = []
        return [*turns, *turn]


def _chunk(part: Mapping[str, Any]) -> tuple[str, str]:
    """What names the chunk of a passage or of its segment."""
    return str(part.get("collection")), str(part.get("chunk_id"))


class _Reading:
    """Stored messages whose named texts are read step by step, until none is `missing`."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._messages: list[dict[str, Any]] = [json.loads(text) for text in texts]
        self._texts: dict[str, Any] = {}

    @property
    def session_id(self) -> str:
        """The session of an answer's job."""
        return str(self._messages[0]["session_id"])

    def missing(self) -> list[str]:
        return list(dict.fromkeys(name for message in self._messages for name in self._names(message)))

    def add(self, names: Sequence[str], texts: Sequence[str | None]) -> None:
        for name, text in zip(names, texts, strict=True):
            if text is None:
                raise _TextMissingError(name)
            self._texts[name] = json.loads(text)

    def messages(self) -> list[dict[str, Any]]:
        return [self._filled(message) for message in self._messages]

    def _names(self, message: dict[str, Any]) -> Iterator[str]:
        for part in (*message["segments"], *message.get("passages", ())):
            if isinstance(part, str) and part not in self._texts:
                yield part
                continue
            value = self._texts[part] if isinstance(part, str) else part
            for one in value if isinstance(value, list) else [value]:
                text = one.get("text")
                if isinstance(text, dict) and text["kept"] not in self._texts:
                    yield text["kept"]

    def _filled(self, message: dict[str, Any]) -> dict[str, Any]:
        segments: list[dict[str, Any]] = []
        for part in message["segments"]:
            segments += map(self._with_text, self._texts[part] if isinstance(part, str) else [part])
        passages = []
        for rank, part in enumerate(message.get("passages", ()), 1):
            passage = self._with_text(self._texts[part] if isinstance(part, str) else part)
            passages.append({**passage, "rank": rank} if passage.get("rank", 0) is None else passage)
        return {**message, "segments": segments, "passages": passages}

    def _with_text(self, part: dict[str, Any]) -> dict[str, Any]:
        text = part.get("text")
        if not isinstance(text, dict):
            return part
        return {**part, "text": text["before"] + self._texts[text["kept"]] + text["after"]}


def stored(message: GenerateJob | TurnRecord, *, whole: bool = False) -> tuple[str, dict[str, str]]:
    """A message in stored form, and the texts that it names, by name.

    Args:
        whole: store it without names, as it belongs to no session.
    """
    if whole:
        return wire.dumps(message), {}
    named = _NamedTexts(message)
    return named.text, named.texts


def read_turns(client: RedisClient, owner: str, session_id: str, texts: Sequence[str]) -> list[TurnRecord]:
    """Stored turns of a session; [] if it was erased meanwhile."""
    return [TurnRecord.model_validate(message) for message in _read(client, owner, session_id, _Reading(texts))]


def read_job(client: RedisClient, owner: str, text: str) -> GenerateJob | None:
    """An answer's stored job; None if its session was erased meanwhile."""
    reading = _Reading([text])
    messages = _read(client, owner, reading.session_id, reading)
    return GenerateJob.model_validate(*messages) if messages else None


async def aread_job(client: AsyncRedisClient, owner: str, text: str) -> GenerateJob | None:
    """`read_job` for asyncio."""
    reading = _Reading([text])
    try:
        while names := reading.missing():
            reading.add(names, await client.hmget(keys.session_texts(owner, reading.session_id), names))
    except _TextMissingError:
        return None
    return GenerateJob.model_validate(*reading.messages())


def _read(client: RedisClient, owner: str, session_id: str, reading: _Reading) -> list[dict[str, Any]]:
    """Whole messages; [] if the session was erased meanwhile."""
    try:
        while names := reading.missing():
            reading.add(names, client.hmget(keys.session_texts(owner, session_id), names))
    except _TextMissingError:
        return []
    return reading.messages()


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
