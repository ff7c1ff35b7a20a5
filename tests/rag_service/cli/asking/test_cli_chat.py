"""`rag chat`, `rag edit`, `rag keys` and API keys on the command line."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from rag_service.cli.api import Api, ServerEvent
from rag_service.cli.commands.asking import chat
from rag_service.client.calls import Call
from retriever import Library, SourceDocument
from tests.support.command_line import rag
from tests.support.hash_embedder import HashEmbedder

pytestmark = pytest.mark.usefixtures("own_folder")

EDITED = "The quick brown fox jumps over the lazy dog every morning before breakfast. Then it rests."


def ask(api_url: str, *more: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(rag("ask", "What?", "-c", "animals", "--json", "--url", api_url, *more).stdout)
    return answer


def test_a_conversation(api_url: str, world: Any) -> None:
    said = "/help\n/stats\nWhat jumps?\n\n/sources\n/edit Say that it rests.\n/stats\n/edit\n/dance\n/reset\n/stats\n"
    result = rag("chat", "-c", "animals", "--url", api_url, said=said)
    assert result.exit_code == 1, "there is no command /dance"
    assert result.stdout.startswith(f"> /help\n{chat.HELP}\n> /stats\n")
    assert result.stdout.splitlines().count(world.stage.text) == 2
    assert "copied “The quick brown fox" in result.stdout
    assert re.search(r"^\[1\] \w", result.stdout, re.MULTILINE), "what it cites, without /sources"
    assert "version 2, an edit of" in result.stdout
    if world.engine == "decoder":  # a model server may say nothing of what it took
        assert "of the text under edit: accepted" in result.stdout
    for complaint in ("There is no answer yet", "Say what to change", "There is no command /dance"):
        assert complaint in result.stderr
    assert result.stderr.count("There is no answer yet") == 2, "after /reset there is none again"
    assert "Traceback" not in result.output


def test_a_command_that_fails_is_a_failure_of_what_comes_from_a_pipe(api_url: str) -> None:
    for said, status in (("/dance\nWhat jumps?\n", 1), ("/sources\n", 1), ("/help\nWhat jumps?\n/sources\n", 0)):
        assert rag("chat", "-c", "animals", "--url", api_url, said=said).exit_code == status, said
    assert rag("chat", "-c", "animals", "--json", "--url", api_url, said="/dance\n").exit_code == 1


def test_options_of_questions_are_not_sent_with_edits(api_url: str) -> None:
    said = "What jumps in Lisbon?\nAnd in Porto?\n/edit Shorter.\n"
    options = ("--abstain", "refuse", "--no-rewrite", "--json", "--url", api_url)
    lines = [json.loads(line) for line in rag("chat", "-c", "animals", *options, said=said).stdout.splitlines()]
    assert [line["retrieval_query"] for line in lines[:2]] == ["What jumps in Lisbon?", "And in Porto?"]
    assert lines[2]["version"] == 2


def test_programs_talk_in_json_lines(api_url: str, world: Any) -> None:
    said = "What jumps?\nWhen?\n/edit Shorter.\n/reset\nWhat jumps?\n/stats\n"
    result = rag("chat", "-c", "animals", "--json", "--url", api_url, said=said)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    assert [line.get("turn") for line in lines] == [1, 2, 3, 1, None]
    assert lines[2]["base"] == lines[1]["answer_id"]
    assert lines[3]["session_id"] != lines[2]["session_id"]
    assert "no command /stats with --json" in lines[4]["error"]
    refused = rag("chat", "-c", "none", "--json", "--url", api_url, said="What?\nWhen?\n/quit\nWhy?\n")
    assert [json.loads(line)["code"] for line in refused.stdout.splitlines()] == ["unknown_collection"] * 2
    assert refused.exit_code == 1


def test_a_conversation_that_cannot_be_ends_before_the_first_question(api_url: str) -> None:
    wrong = rag("chat", "-c", "animal", "--url", api_url, said="What?\n")
    assert wrong.exit_code == 1
    assert "no collection 'animal' (did you mean 'animals'?); `rag ingest PATH… -c NAME` makes one" in wrong.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nowhere = f"http://127.0.0.1:{free.getsockname()[1]}"
        for more in ((), ("-c", "animals"), ("-s", "one")):
            away = rag("chat", *more, "--url", nowhere, said="What?\n")
            assert away.exit_code == 3
            assert "--url or RAG_URL" in away.stderr
            assert "Ask, or /help" not in away.output
        talked = rag("chat", "--json", "--url", nowhere, said="What?\n")
    assert "rag up" in json.loads(talked.stdout)["error"]
    assert talked.exit_code == 3


def test_lines_from_a_pipe_stand_before_their_answers(api_url: str, world: Any) -> None:
    result = rag(
        "chat", "-c", "animals", "--url", api_url, said="What [b]jumps[/b]?\n\n  When?  \n/edit Shorter.\n/quit\n"
    )
    answer = world.stage.text
    kept = [line for line in result.stdout.splitlines() if line == answer or line.startswith(">")]
    assert kept == ["> What [b]jumps[/b]?", answer, "> When?", answer, "> /edit Shorter.", answer]


@pytest.mark.parametrize("word", ["/quit", "/exit", "quit", "exit"])
def test_a_conversation_is_left(api_url: str, word: str, world: Any) -> None:
    result = rag("chat", "-c", "animals", "--url", api_url, said=f"{word}\nWhat?\n")
    assert result.exit_code == 0
    assert not world.stage.prompts, "neither the word nor what follows is a question"


def test_an_answer_that_was_cut_says_so(api_url: str) -> None:
    cut = "cut at 3 tokens; --max-tokens gives more"
    asked = ("-c", "animals", "--max-tokens", "3", "--url", api_url)
    assert cut in rag("ask", "What jumps?", *asked).stdout
    assert cut in rag("chat", *asked, said="What jumps?\n").stdout
    assert "cut at" not in rag("ask", "What jumps?", "-c", "animals", "--url", api_url).stdout


def test_a_conversation_goes_on_where_a_session_was(api_url: str) -> None:
    first = ask(api_url, "-s", "chat-on")
    result = rag("chat", "-s", "chat-on", "--json", "--url", api_url, said="/edit Shorter.\nAnd?\n")
    edited, second = (json.loads(line) for line in result.stdout.splitlines())
    assert edited["base"] == first["answer_id"]
    assert (second["turn"], second["session_id"]) == (3, "chat-on")
    fresh = rag("chat", "-s", "chat-new", "-c", "animals", "--json", "--url", api_url, said="What?\n")
    assert json.loads(fresh.stdout)["session_id"] == "chat-new"


def test_ctrl_c_cancels_the_answer_and_the_conversation_goes_on(api_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    resumed, deleted = Api.resumed, []

    def interrupted(self: Api, call: Call[Any]) -> Iterator[ServerEvent]:
        for event in resumed(self, call):
            yield event
            if event.name == "passages" and call.json["question"] == "Long?":
                deleted.append(event.data["answer_id"])
                raise KeyboardInterrupt

    request = Api.request
    asked: list[tuple[str, str]] = []

    def noted(self: Api, method: str, path: str, **options: Any) -> Any:
        asked.append((method, path))
        return request(self, method, path, **options)

    monkeypatch.setattr(Api, "resumed", interrupted)
    monkeypatch.setattr(Api, "request", noted)
    result = rag("chat", "-c", "animals", "--json", "--url", api_url, said="Long?\nShort?\n")
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["question"] for line in result.stdout.splitlines()] == ["Short?"]
    assert asked == [("DELETE", f"/v1/answers/{deleted[0]}")]
    once = rag("chat", "-c", "animals", "--url", api_url, said="Long?\n")
    assert "Cancelled" in once.stderr


def test_ctrl_c_while_typing_drops_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    typed: list[Any] = [KeyboardInterrupt, "next", EOFError, KeyboardInterrupt, KeyboardInterrupt, "too late"]

    def read(prompt: str) -> str:
        item = typed.pop(0)
        if isinstance(item, str):
            return item
        raise item

    monkeypatch.setattr("builtins.input", read)
    assert chat._read("> ") == "next"
    assert chat._read("> ") is None
    assert chat._read("> ") is None, "twice in a row leaves"
    assert typed == ["too late"]


def test_collections_may_be_named_one_by_one(api_url: str, world: Any) -> None:
    library = Library(world.data_dir, HashEmbedder())
    library.create("gates").ingest([SourceDocument(name="a.md", text="The fox has a blue gate.")])
    library.close()
    answers = [
        json.loads(rag("ask", "Which fox?", *named, "--json", "--url", api_url).stdout)
        for named in (("-c", "animals", "-c", "gates"), ("-c", "animals,gates"))
    ]
    assert [answer["collection"] for answer in answers] == ["animals,gates"] * 2
    assert {passage["collection"] for passage in answers[0]["passages"]} == {"animals", "gates"}


@pytest.mark.decoder_only("a model server decodes in its own way: `exact` is refused")
def test_edit_makes_a_new_version(api_url: str, world: Any) -> None:
    first = ask(api_url)
    world.stage.text = EDITED
    result = rag("edit", first["answer_id"], "Say that it rests.", "--url", api_url)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[0] == EDITED
    assert f"version 2, an edit of {first['answer_id']}" in result.stdout
    made = json.loads(rag("edit", first["answer_id"], "Again.", "--exact", "strict", "--json", "--url", api_url).stdout)
    assert (made["version"], made["instruction"]) == (3, "Again.")
    for arguments, said in (
        (("nothing", "x"), "no answer 'nothing'"),
        ((first["answer_id"], " "), "instruction is empty"),
    ):
        refused = rag("edit", *arguments, "--url", api_url)
        assert refused.exit_code == (2 if "empty" in said else 1)
        assert said in refused.stderr


@pytest.mark.decoder_only("a model server decodes in its own way: `exact` is refused")
def test_ask_takes_exact(api_url: str) -> None:
    assert "near_ties" in ask(api_url, "--exact", "strict")["speculation"]
    wrong = rag("ask", "x", "-c", "animals", "--exact", "mostly", "--url", api_url)
    assert wrong.exit_code == 2
    assert "Invalid value for '--exact': 'mostly' is not one of" in wrong.stderr


def test_keys_are_made_listed_and_revoked(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", world.redis_url)
    made = rag("keys", "create", "the web page", "--tenant", "acme")
    assert made.exit_code == 0, made.output
    key = made.stdout.strip()
    key_id = key.split("_")[1]
    assert f"Key {key_id} of tenant 'acme'" in made.stderr
    listed = rag("keys", "list").stdout
    assert any(key_id in line and "acme" in line and "the web page" in line for line in listed.splitlines())
    assert key not in listed
    (found,) = [one for one in json.loads(rag("keys", "list", "--json").stdout) if one["id"] == key_id]
    assert set(found) == {"id", "name", "tenant", "created", "person", "role", "collections", "expires", "issuer"}
    assert (found["person"], found["role"], found["collections"]) == ("the-web-page", "editor", None)
    assert (found["expires"], found["issuer"]) == (None, None), "nobody signed in for it"
    again = json.loads(rag("keys", "create", "x", "--json").stdout)
    assert again["key"].startswith(f"rag_{again['id']}_")
    assert again["tenant"] == "default"
    assert rag("keys", "revoke", key_id).exit_code == 0
    gone = rag("keys", "revoke", key_id)
    assert gone.exit_code == 1
    assert "rag keys list" in gone.stderr
    assert rag("keys", "revoke", again["id"]).exit_code == 0
    assert rag("keys", "create", "x", "--tenant", "a/b").exit_code == 2


def test_keys_need_a_redis(monkeypatch: pytest.MonkeyPatch) -> None:
    for url in (None, "unix:///nowhere/redis.sock"):
        if url:
            monkeypatch.setenv("RAG_REDIS_URL", url)
        result = rag("keys", "list")
        assert result.exit_code == 3
        assert result.stderr.startswith("Error: ")


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_commands_send_the_key(api_url: str, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", world.redis_url)
    made = json.loads(rag("keys", "create", "x", "--tenant", "cli-tenant", "--json").stdout)
    question = ("ask", "What?", "-c", "animals", "--url", api_url)
    assert rag(*question).exit_code == 0
    assert "no collection 'animals'" in rag(*question, "--api-key", made["key"]).stderr, "another tenant's"
    monkeypatch.setenv("RAG_API_KEY", made["key"])
    for arguments in (("ask", "What?"), ("search", "What?"), ("verify", "What?"), ("chat", "--json")):
        result = rag(*arguments, "-c", "animals", "--url", api_url, said="What?\n")
        assert "no collection 'animals'" in result.output
    assert made["key"] not in rag("config", "show").stdout
    rag("keys", "revoke", made["id"])
    refused = rag(*question)
    assert refused.exit_code == 1
    assert "--api-key" in refused.stderr
    assert rag(*question, "--api-key", "schlüssel").exit_code == 1
