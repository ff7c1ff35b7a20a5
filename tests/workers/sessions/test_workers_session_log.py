"""What Redis keeps of a session: its tokens, how much they take, and that all of it goes."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

import pytest

from decoder import Engine
from tests.support.fake_workers import make_worker_context, running_worker
from tests.support.tiny_models import tiny_target
from workers.broker import keys
from workers.broker.messages import DoneEvent, ErrorEvent, GenerateJob, Sampling, Segment, Speculation, TurnRecord
from workers.sessions.queue import Queue
from workers.sessions.sessions import Sessions
from workers.sessions.streams import AnswerStream
from workers.sessions.token_log import SessionLog, pack, read_log, unpack
from workers.tokens.tokenizer import Tokens

WAIT_MS = 20_000
DONE = DoneEvent(text="yes", ids=[1, 2], finish_reason="stop", usage={}, speculation={}, timings={})


@pytest.fixture
def end(queue: Queue, client: Any) -> Callable[..., bool]:
    """Ends an answer of a session with a log, without a worker; says whether its turn was appended."""

    def finish(answer_id: str, log: SessionLog, session_id: str = "s", turn: int | None = None) -> bool:
        segments = [Segment(kind="question", key="q", text="why?")]
        job = GenerateJob(
            answer_id=answer_id,
            session_id=session_id,
            question="why?",
            segments=segments,
            sampling=Sampling(seed=7),
            created=1.0,
        )
        queue.enqueue_generate(job)
        answer = Segment(kind="answer", key=answer_id, text="yes")
        record = TurnRecord(
            answer_id=answer_id, question="why?", segments=[*segments, answer], passages=[], created=1.0
        )
        stream = AnswerStream(client, "default", answer_id, session_ttl_s=1000)
        return stream.finish(DONE, session_id=session_id, turn=record, turns_before=turn, log=log)

    return finish


FIRST = [("question", "q1", 3), ("answer", "a1", 2)]
SECOND = [*FIRST, ("question", "q2", 1), ("answer", "a2", 3)]
IDS = [5, 151_000, 7, 1, 2, 9, 4, 4, 2**31 - 1]


def test_ids_take_four_bytes() -> None:
    assert unpack(pack(IDS)) == IDS
    assert len(pack(IDS)) == 4 * len(IDS)
    assert pack([]) == b""


def test_turns_append_to_the_log(client: Any, end: Any) -> None:
    end("a1", SessionLog("t", IDS[:5], FIRST))
    assert read_log(client, "default", "s") == SessionLog("t", IDS[:5], FIRST, epoch=1)
    end("a2", SessionLog("t", IDS, SECOND, first=2))
    log = read_log(client, "default", "s")
    assert log == SessionLog("t", IDS, SECOND, epoch=1)
    assert log.answers() == {"a1": [1, 2], "a2": [4, 4, 2**31 - 1]}
    turns = Sessions(client).turns("default", "s", "t")
    assert [turn.segments[-1].ids for turn in turns] == [[1, 2], [4, 4, 2**31 - 1]]
    assert Sessions(client).size("default", "s") == len(IDS)


@pytest.mark.parametrize(
    "log",
    [
        SessionLog("t", [7, 1, 2, 9, 4, 4, 8], [("question", "q1", 1), *SECOND[1:]], first=2),
        SessionLog("other", IDS, SECOND, first=2),
        SessionLog("t", IDS, [("system", "y", 0), *SECOND], first=3),
    ],
    ids=["a passage left", "another tokenizer", "other segments"],
)
def test_a_prompt_that_does_not_continue_begins_an_epoch(client: Any, end: Any, log: SessionLog) -> None:
    end("a1", SessionLog("t", IDS[:5], FIRST))
    end("a2", log)
    assert read_log(client, "default", "s") == SessionLog(log.tokenizer, log.ids, list(log.parts), epoch=2)
    turns = Sessions(client).turns("default", "s", log.tokenizer)
    assert turns[0].segments[-1].ids == [1, 2]


def test_an_edit_of_an_old_answer_is_added_and_the_conversation_goes_on_from_all(client: Any, end: Any) -> None:
    end("a1", SessionLog("t", IDS[:5], FIRST))
    end("a2", SessionLog("t", IDS, SECOND, first=2))
    edited = [("instruction", "i3", 2), ("answer", "a3", 1)]
    end("a3", SessionLog("t", [*IDS[:5], 6, 6, 3], [*FIRST, *edited], first=2).added())
    log = read_log(client, "default", "s")
    assert log == SessionLog("t", [*IDS, 6, 6, 3], [*SECOND, *edited], epoch=1)
    assert log.answers() == {"a1": [1, 2], "a2": [4, 4, 2**31 - 1], "a3": [3]}
    end("a4", SessionLog("t", [*log.ids, 8], [*log.parts, ("answer", "a4", 1)], first=6))
    log = read_log(client, "default", "s")
    assert log is not None
    assert (log.epoch, list(log.ids)) == (1, [*IDS, 6, 6, 3, 8])


def test_an_edit_by_another_tokenizer_leaves_no_ids_of_the_first(client: Any, end: Any) -> None:
    end("a1", SessionLog("t", IDS[:5], FIRST))
    end("a2", SessionLog("other", IDS, SECOND, first=2).added())
    assert read_log(client, "default", "s") == SessionLog("other", IDS[5:], SECOND[2:], epoch=2)


def test_ids_of_another_tokenizer_are_not_used(client: Any, end: Any) -> None:
    end("a1", SessionLog("t", IDS[:5], FIRST))
    (turn,) = Sessions(client).turns("default", "s", "other")
    assert (turn.segments[-1].ids, turn.segments[-1].text) == (None, "yes")
    client.delete(keys.session_ids("default", "s"))
    (turn,) = Sessions(client).turns("default", "s", "t")
    assert turn.segments[-1].ids is None


def test_a_turn_that_stays_apart_leaves_no_tokens(client: Any, end: Any) -> None:
    assert end("a1", SessionLog("t", IDS[:5], FIRST), turn=0)
    assert not end("a2", SessionLog("t", IDS, SECOND, first=2), turn=0)
    assert read_log(client, "default", "s") == SessionLog("t", IDS[:5], FIRST, epoch=1)


def test_everything_expires_and_everything_is_erased(client: Any, end: Any) -> None:
    for number in range(2):
        end(f"a{number}", SessionLog("t", IDS[:5], FIRST), session_id=f"s{number}")
    names = [name for name in client.keys("rag:default:*") if ":session:s0" in name]
    assert len(names) == 5
    assert all(0 < client.ttl(name) <= 1000 for name in names)
    assert Sessions(client).erase("default", "s0")
    assert [name for name in client.keys("*") if "s0" in name or "a0" in name] == []
    assert read_log(client, "default", "s1") is not None
    assert read_log(client, "other", "s1") is None
    assert Sessions(client).size("other", "s1") == 0


def test_all_of_a_person_is_erased_and_nothing_of_others(client: Any, queue: Queue) -> None:
    """Sessions, answers outside sessions, rewritten questions; the tenant, another person and another tenant stay."""
    owners = ("default@ann", "default@bob", "default", "other")
    for owner in owners:
        tenant, _, person = owner.partition("@")
        for answer, session in (("loose", ""), ("held", "talk")):
            segments = [Segment(kind="question", key="q", text="What?")]
            queue.enqueue_generate(
                GenerateJob(
                    answer_id=answer, tenant=tenant, person=person, session_id=session, question="What?",
                    segments=segments, sampling=Sampling(seed=1), created=0.0,
                )
            )  # fmt: skip
        client.set(keys.rewrite(owner, "digest"), "rewritten")
    before = {owner: set(client.keys(f"rag:{owner}:*")) for owner in owners}
    assert all(len(names) >= 5 for names in before.values())
    assert Sessions(client).erase_all("default@ann") == 1
    assert client.keys("rag:default@ann:*") == []
    assert Sessions(client).erase_all("default@ann") == 0
    for owner in owners[1:]:
        assert set(client.keys(f"rag:{owner}:*")) == before[owner]
    assert Sessions(client).erase_all("default") == 1
    assert client.keys("rag:default:*") == []
    for owner in ("default@bob", "other"):
        assert set(client.keys(f"rag:{owner}:*")) == before[owner]


@pytest.mark.parametrize("count", [50, pytest.param(1000, marks=pytest.mark.full)])
def test_a_token_takes_at_most_sixteen_bytes(client: Any, end: Any, count: int) -> None:
    """Sessions of 4,000 tokens, in four turns of ten segments, as Redis itself counts them."""
    sessions, budget = Sessions(client), 16 * 4000
    used = client.info("memory")["used_memory"]
    ids_bytes = everything = 0
    for number in range(count):
        for turn in range(4):
            parts = [("passage", f"{part:032x}", 100) for part in range(10 * (turn + 1))]
            log = SessionLog("t" * 32, list(range(1000 * (turn + 1))), parts, first=10 * turn)
            end(f"a{number}-{turn}", log, session_id=f"s{number}")
        memory = sessions.memory("default", f"s{number}")
        names = keys.session_ids("default", f"s{number}"), keys.session_parts("default", f"s{number}")
        assert (memory["tokens"], memory["epoch"]) == (4000, 1)
        assert memory["ids_bytes"] == sum(client.memory_usage(name, samples=0) for name in names)
        assert 4 * 4000 < memory["ids_bytes"] <= budget
        assert memory["turns_bytes"] > 0
        ids_bytes += memory["ids_bytes"]
        everything += memory["ids_bytes"] + memory["turns_bytes"] + memory["answers_bytes"]
    client.delete("generate")
    grown = client.info("memory")["used_memory"] - used
    assert ids_bytes <= count * budget
    assert 0.8 * grown < everything < 1.2 * grown, "what is reported is what Redis takes"
    removed = [name for name in client.keys("rag:*") if name.endswith((":ids", ":parts"))]
    assert len(removed) == 2 * count
    before = client.info("memory")["used_memory"]
    client.delete(*removed)
    freed = before - client.info("memory")["used_memory"]
    assert 0.8 * freed < ids_bytes < 1.2 * freed, "and so of the ids alone"


def test_a_session_goes_on_from_its_tokens(queue: Queue, client: Any, redis_url: str, tokens: Tokens) -> None:
    """What a worker leaves is the next prompt's beginning, token by token."""
    letters = {tokens.encode_content(letter).ids[0] for letter in string.ascii_uppercase}
    bias = {token: -100.0 for token in range(tokens.vocab_size) if token not in letters}
    place = make_worker_context(redis_url, tokens, Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"))
    segments: list[Segment] = []
    with running_worker(redis_url, place):
        for turn in range(3):
            first = len(segments)
            segments.append(Segment(kind="question", key=f"q{turn}", text=f"The fox {turn}? "))
            job = GenerateJob(
                answer_id=f"a{turn}",
                session_id="s",
                question="?",
                segments=segments,
                new_from=first,
                turn=turn,
                sampling=Sampling(max_tokens=9, seed=1, logit_bias=bias),
                created=0.0,
            )
            queue.enqueue_generate(job)
            stream = AnswerStream(client, "default", job.answer_id)
            while (record := stream.record()) is None or record["status"] in ("queued", "running"):
                pass
            assert not isinstance(record["error"], ErrorEvent)
            assert record["result"] is not None
            turns = Sessions(client).turns("default", "s", tokens.hash)
            assert turns[-1].segments[-1].ids == record["result"].ids
            segments = [segment for one in turns for segment in one.segments]
            log = read_log(client, "default", "s")
            assert log is not None
            assert (log.epoch, log.tokenizer) == (1, tokens.hash)
            expected = [i for s in segments for i in (s.ids or tokens.encode_content(s.text).ids)]
            assert list(log.ids) == expected


def test_an_edit_of_an_old_answer_is_the_same_with_and_without_drafts(
    queue: Queue, client: Any, redis_url: str, tokens: Tokens
) -> None:
    """Its prompt begins like the last one and ends sooner; the next question's has everything again."""
    letters = {tokens.encode_content(letter).ids[0] for letter in string.ascii_uppercase}
    bias = {token: -100.0 for token in range(tokens.vocab_size) if token not in letters}
    place = make_worker_context(redis_url, tokens, Engine(tiny_target(vocab_size=tokens.vocab_size), "auto"))
    written: dict[str, list[list[int]]] = {"auto": [], "off": []}
    with running_worker(redis_url, place):
        for how, answers in written.items():
            for number, later in enumerate((0, 0, 1, 0)):
                turns = Sessions(client).turns("default", how, tokens.hash)
                before = [s for turn in turns[: number - later] for s in turn.segments]
                new = [Segment(kind="question", key=f"q{number}", text=f"The quick fox {number} jumps? ")]
                if later:
                    edited = turns[0].segments[-1].model_copy(update={"kind": "edited"})
                    new.insert(0, edited)
                job = GenerateJob(
                    answer_id=f"{how}{number}",
                    session_id=how,
                    question="?",
                    segments=[*before, *new],
                    new_from=len(before),
                    turn=number,
                    speculation=Speculation(drafter=how),
                    sampling=Sampling(max_tokens=24, seed=1, logit_bias=bias),
                    created=0.0,
                )
                queue.enqueue_generate(job)
                stream = AnswerStream(client, "default", job.answer_id)
                while (record := stream.record()) is None or record["status"] in ("queued", "running"):
                    pass
                assert record["result"] is not None
                answers.append(record["result"].ids)
            log = read_log(client, "default", how)
            assert log is not None
            assert log.epoch == 1
            assert [part for part in log.parts if part[0] == "answer"] == [
                ("answer", f"{how}{number}", len(ids)) for number, ids in enumerate(answers)
            ]
            assert list(log.answers().values()) == answers
    assert written["auto"] == written["off"]
