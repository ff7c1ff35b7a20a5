"""What is in Redis on its way through an archive: every kind of key, every type, and answers that are not finished."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest

from rag_service.backup import redis_kinds, redis_writing
from rag_service.backup.errors import BackupError
from rag_service.backup.manifest import Counts
from rag_service.backup.redis_entry import Entry, loads, parsed
from rag_service.backup.redis_reading import count, read_all, tenants_of
from tests.support.fake_workers import FakeEngine, make_worker_context, running_worker
from workers.broker import keys
from workers.broker.app import make_app, make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.broker.messages import DoneEvent, GenerateJob, Sampling, Segment, TokenEvent, TurnRecord
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.sessions.token_log import SessionLog
from workers.tokens.tokenizer import Tokens

NO_KEYS = {"owner", "tenant_of", "answer_task", "feedback_member"}
"""Functions of `workers.broker.keys` whose result is no key."""
PATIENCE_S = 60


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Two servers."""
    with (
        EmbeddedRedis(tmp_path_factory.mktemp("one")) as one,
        EmbeddedRedis(tmp_path_factory.mktemp("other")) as other,
    ):
        yield one.url, other.url


@pytest.fixture
def clients(servers: tuple[str, str]) -> Iterator[tuple[Any, Any]]:
    """Clients of both, with replies in bytes; the servers are empty."""
    with closing(make_redis(servers[0], decode=False)) as here, closing(make_redis(servers[1], decode=False)) as there:
        here.flushall()
        there.flushall()
        yield here, there


def carried(here: Any, there: Any) -> list[Entry]:
    """Carry everything from one server to the other, as lines of an archive."""
    entries = [loads(entry.dumps()) for entry in read_all(here)]
    redis_writing.take_names(there, redis_writing.stage(there, entries)[0])
    return entries


def kinds() -> dict[str, str]:
    """A key of each kind that `workers.broker.keys` defines, by the definition's name."""
    found = {}
    for name, value in vars(keys).items():
        if inspect.isfunction(value) and not name.startswith("_") and name not in NO_KEYS:
            found[name] = value(*(f"some{n}" for n, _ in enumerate(inspect.signature(value).parameters)))
        elif name.isupper() and isinstance(value, str) and name != "GENERATE_TASK":
            found[name] = value
    return found


def test_every_kind_of_key_is_carried_or_said_not_to_be(clients: tuple[Any, Any]) -> None:
    here, there = clients
    for key in kinds().values():
        if key == keys.session_answers("some0", "some1"):
            here.sadd(key, "some1")
        elif key in (keys.job("some0", "some1"), keys.answer("some0", "some1")):
            here.hset(key, "status", "succeeded")
        elif key == keys.API_KEYS:
            here.hset(key, "id", json.dumps({"tenant": "some0"}))
        else:
            here.set(key, "value")
    here.set("rag:some0:answer:some1:thumbs", "of a later version")
    here.set("rag:some0:session:some1:notes", "of a later version")
    here.set("rag:later", "of a later version")
    here.set("generate", "Celery's")
    read = {entry.key for entry in carried(here, there)}
    dropped = {key for names in redis_kinds.TRANSIENT.values() for key in names}
    named = {key.replace("some0", "any").replace("some1", "any"): key for key in kinds().values()}
    assert dropped <= named.keys(), "each that is not carried is still a kind of key"
    for definition, key in kinds().items():
        assert (key in read) != (key in {named[one] for one in dropped}), f"keys.{definition} is neither or both"
    assert read == {_.decode() for _ in there.keys("*")}
    later = {"rag:some0:answer:some1:thumbs", "rag:some0:session:some1:notes", "rag:later"}
    assert read == later | {key for key in kinds().values() if redis_kinds.is_carried(key)}


def test_every_type_arrives_as_it_was(clients: tuple[Any, Any]) -> None:
    here, there = clients
    binary = bytes(range(256))
    here.set("rag:t:string", binary)
    here.set("rag:t:empty", "")
    here.hset("rag:t:hash", mapping={b"\xff": binary, "ä": "ö", **{str(n): n for n in range(1200)}})
    here.rpush("rag:t:list", *(f"{n}" for n in range(1200)), binary)
    here.sadd("rag:t:set", *range(1200), binary)
    here.zadd("rag:t:zset", {binary: 0.1, "b": float("-inf"), "c": 1e300, "d": time.time()})
    for n in range(600):
        here.xadd("rag:t:stream", {"event": f"{n}", "other": binary})
    here.pexpire("rag:t:stream", 100_000_000)
    expires = here.pexpiretime("rag:t:stream")
    carried(here, there)
    assert there.get("rag:t:string") == binary
    assert there.get("rag:t:empty") == b""
    for name in ("rag:t:hash", "rag:t:list", "rag:t:set", "rag:t:zset", "rag:t:stream"):
        read = {b"hash": "hgetall", b"set": "smembers", b"stream": "xrange"}.get(here.type(name))
        if read is not None:
            assert getattr(there, read)(name) == getattr(here, read)(name)
    assert there.lrange("rag:t:list", 0, -1) == here.lrange("rag:t:list", 0, -1)
    assert there.zrange("rag:t:zset", 0, -1, withscores=True) == here.zrange("rag:t:zset", 0, -1, withscores=True)
    assert abs(there.pexpiretime("rag:t:stream") - expires) <= 2
    assert there.ttl("rag:t:hash") == -1
    assert there.xadd("rag:t:stream", {"event": "next"}) > here.xrevrange("rag:t:stream", count=1)[0][0]


def test_what_has_expired_stays_away(clients: tuple[Any, Any]) -> None:
    _, there = clients
    past = Entry("rag:t:old", "string", 1, b"x")
    future = Entry("rag:t:new", "string", int(1000 * time.time()) + 100_000, b"x")
    staged, expired = redis_writing.stage(there, [past, future])
    assert there.keys("rag:t:*") == []
    redis_writing.take_names(there, staged)
    assert (expired, there.keys("*")) == (1, [b"rag:t:new"])


@pytest.mark.parametrize(
    "line", ["{", "{}", '{"key":"rag:a","type":"string","expires_ms":null,"value":{"base64":"?"}}']
)
def test_a_line_that_is_no_key_is_refused(line: str) -> None:
    with pytest.raises(BackupError, match="cannot be read"):
        loads(line)


def test_a_key_of_another_owner_of_redis_is_refused(clients: tuple[Any, Any]) -> None:
    with pytest.raises(BackupError, match="no archive has"):
        redis_writing.stage(clients[1], [Entry("celery", "string", None, b"x")])


def test_leftovers_of_a_killed_restore_are_no_contents_and_go(clients: tuple[Any, Any]) -> None:
    _, there = clients
    redis_writing.stage(there, [Entry("rag:t:a", "string", None, b"x")])
    redis_writing.refuse_keys(there)
    redis_writing.take_names(there, redis_writing.stage(there, [Entry("rag:t:b", "string", None, b"y")])[0])
    assert there.keys("*") == [b"rag:t:b"]
    with pytest.raises(BackupError, match="rag:t:b"):
        redis_writing.refuse_keys(there)
    redis_writing.discard(there, ["rag:t:b"])
    there.zadd(keys.WORKERS, {"busy": there.time()[0]})
    redis_writing.refuse_keys(there)
    with pytest.raises(BackupError, match="Workers use this Redis"):
        redis_writing.refuse_workers(there)


def make_job(answer_id: str, session_id: str = "talk", text: str = "What jumps?") -> GenerateJob:
    segments = [Segment(kind="question", key="q", text=text)]
    return GenerateJob(
        answer_id=answer_id, session_id=session_id, question=text, segments=segments,
        sampling=Sampling(seed=1, max_tokens=100), created=0.0,
    )  # fmt: skip


def test_unfinished_answers_end_after_the_restore(
    clients: tuple[Any, Any], servers: tuple[str, str], tokens: Tokens
) -> None:
    here, there = clients
    text = "The quick brown fox jumps over the lazy dog."
    ids = tokens.encode_content(text).ids
    app = make_app(servers[0])
    with closing(make_redis(servers[0])) as client:
        queue = Queue(app, client)
        queue.enqueue_generate(make_job("waits", "one"))
        queue.enqueue_generate(make_job("runs", "two"))
        queue.enqueue_generate(make_job("stops", "three"))
        running = AnswerStream(client, "default", "runs")
        running.start("two")
        running.write(TokenEvent(t=0, ids=ids[:2], text=tokens.decode(ids[:2])))
        queue.cancel("default", "stops")
        client.hset(keys.RUNNING, keys.answer_task("default", "runs"), "a worker of the old service")
    app.close()
    counts = Counts()
    for entry in carried(here, there):
        count(entry, counts)
    assert (counts.answers, counts.unfinished_answers, counts.sessions) == (3, 3, 3)
    place = make_worker_context(servers[1], tokens, FakeEngine(tokens))
    with running_worker(servers[1], place), closing(make_redis(servers[1])) as client:
        for answer_id, session_id, status in (
            ("waits", "one", "succeeded"), ("runs", "two", "succeeded"), ("stops", "three", "cancelled"),
        ):  # fmt: skip
            stream = AnswerStream(client, "default", answer_id)
            deadline = time.monotonic() + PATIENCE_S
            while (record := stream.record()) is None or record["status"] in ("queued", "running"):
                assert time.monotonic() < deadline, record
                time.sleep(0.02)
            assert record["status"] == status
            if status == "succeeded":
                assert record["result"] is not None
                assert record["result"].text == text
                assert [id for event in stream.streamed() for id in event.ids] == record["result"].ids
                (turn,) = Sessions(client).turns("default", session_id)
                assert turn.answer_id == answer_id


def test_a_session_is_saved_as_it_was_at_one_moment(clients: tuple[Any, Any], servers: tuple[str, str]) -> None:
    """Turns are added while sessions are saved again and again; each saved session fits together."""
    here, _ = clients

    def converse() -> None:
        with closing(make_app(servers[0])) as app, closing(make_redis(servers[0])) as client:
            queue = Queue(app, client)
            for number in range(60):
                answer_id, session_id = f"a{number}", f"s{number % 3}"
                long = f"{answer_id} {'word ' * 30}"  # long enough to be stored apart from its record
                queue.enqueue_generate(make_job(answer_id, session_id, long))
                stream = AnswerStream(client, "default", answer_id)
                stream.start(session_id)
                add_turn(stream, client, session_id, long)

    with ThreadPoolExecutor(1) as pool:
        conversation = pool.submit(converse)
        while not conversation.done():
            check_dump({entry.key: entry for entry in read_all(here)})
        conversation.result()
    final = {entry.key: entry for entry in read_all(here)}
    assert sum(redis_kinds.is_answer(name) for name in final) == 60
    assert all(len(final[keys.session_turns("default", f"s{n}")].value) == 20 for n in range(3))


def add_turn(stream: AnswerStream, client: Any, session_id: str, text: str) -> None:
    before = int(client.llen(keys.session_turns("default", session_id)))
    segments = [
        Segment(kind="question", key=f"q{stream.answer_id}", text=text),
        Segment(kind="answer", key=stream.answer_id, text="yes", ids=[1, 2]),
    ]
    turn = TurnRecord(answer_id=stream.answer_id, question=text, segments=segments, passages=[], created=1.0)
    parts = [("answer", f"{n}", 2) for n in range(before + 1)]
    log = SessionLog("tokenizer", [1, 2] * (before + 1), parts, first=before)
    done = DoneEvent(text="yes", ids=[1, 2], finish_reason="stop", usage={}, speculation={}, timings={})
    assert stream.finish(done, session_id=session_id, turn=turn, turns_before=before, log=log)


def check_dump(found: dict[str, Entry]) -> None:
    for name in [name for name in found if redis_kinds.is_session(name)]:
        owner, session_id = redis_kinds.session_of(name) or ("", "")
        turns = members(found, keys.session_turns(owner, session_id))
        answers = members(found, keys.session_answers(owner, session_id))
        records = [found[keys.answer(owner, one.decode())].fields for one in answers]
        assert len(turns) == sum(record["status"] == "succeeded" for record in records)
        ids = found.get(keys.session_ids(owner, session_id))
        assert (0 if ids is None else len(ids.value) // 8) == len(turns)
        assert len(members(found, keys.session_parts(owner, session_id))) == len(turns)
        texts = {field.decode() for field, _ in members(found, keys.session_texts(owner, session_id))}
        wanted = [json.loads(turn) for turn in turns] + [json.loads(record["request"]) for record in records]
        assert {text for record in wanted for text in kept(record["segments"])} <= texts
        listed = members(found, keys.sessions(owner))
        assert session_id.encode() in {member for member, _ in listed}


def members(found: dict[str, Entry], name: str) -> Sequence[Any]:
    return found[name].value if name in found else []


def kept(segments: list[Any]) -> Iterator[str]:
    """Names of texts that a stored record refers to."""
    for segment in segments:
        if isinstance(segment, str):
            yield segment
        elif isinstance(segment.get("text"), dict):
            yield segment["text"]["kept"]


def test_tenants_are_known_from_keys(clients: tuple[Any, Any]) -> None:
    here, _ = clients
    here.hset(keys.API_KEYS, "id", json.dumps({"tenant": "research"}))
    here.set(keys.rewrite("acme@ann", "x"), "y")
    here.sadd(keys.USAGE_TENANTS, "spender")
    here.sadd(keys.AUDIT_TENANTS, "changed")
    found = {tenant for entry in read_all(here) for tenant in tenants_of(entry)}
    assert {"research", "acme", "spender", "changed"} <= found


def test_jobs_that_are_still_to_be_done_are_left_to_their_folders(clients: tuple[Any, Any]) -> None:
    here, _ = clients
    for name, fields in {
        "ended": {"status": "failed", "progress": "{}"},
        "waits": {"status": "queued"},
        "runs": {"status": "running", "worker": "w"},
        "stops": {"status": "running", "worker": "w", "cancel": "1", "progress": "{}", "collection": "c"},
        "old": {"progress": "{}", "request": "{}"},
    }.items():
        here.hset(keys.job("t", name), mapping=fields)
    found = {entry.key.rpartition(":")[2]: entry for entry in read_all(here)}
    assert found.keys() == {"ended", "stops", "old"}
    assert found["stops"].fields == {"progress": "{}", "collection": "c", "status": "cancelled"}
    assert found["stops"].expires_ms is not None


def test_a_type_that_the_service_does_not_use_is_refused() -> None:
    with pytest.raises(BackupError, match="has the type module"):
        parsed("rag:t:x", "module", None, False)
