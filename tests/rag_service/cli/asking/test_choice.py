"""Which collection is asked by commands that name none."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from rag_service.access.api_keys import ApiKeys
from retriever import Library, SourceDocument
from tests.support.api_keys import add_key
from tests.support.command_line import rag
from tests.support.hash_embedder import HashEmbedder
from workers.broker import keys
from workers.broker.app import make_redis

pytestmark = pytest.mark.usefixtures("own_folder")
NOTE = "Searching 'animals', the only collection; -c names another.\n"


@pytest.fixture
def several(api_url: str, world: Any) -> Iterator[str]:
    """The address of an API with two collections, neither of them `default`."""
    library = Library(world.data_dir, HashEmbedder())
    library.create("unseen").ingest([SourceDocument(name="a.md", text="Nobody sees it.")])
    yield api_url
    library.delete("unseen")
    library.close()


@pytest.fixture
def one_key(several: str, world: Any) -> Iterator[Callable[..., tuple[str, ...]]]:
    """`one_key(collections=["animals"])`: options of a key of the same person."""
    redis = make_redis(world.redis_url)

    def options(**of_key: Any) -> tuple[str, ...]:
        return "--url", several, "--api-key", add_key(ApiKeys(redis), "one", "default", person="ann", **of_key)[1]

    yield options
    redis.delete(keys.API_KEYS)
    redis.close()


@pytest.fixture
def only(one_key: Callable[..., tuple[str, ...]]) -> tuple[str, ...]:
    """Options of a key that sees `animals` alone, though there are others."""
    return one_key(collections=["animals"])


def test_a_collection_without_documents_is_none_to_choose(one_key: Callable[..., tuple[str, ...]], world: Any) -> None:
    library = Library(world.data_dir, HashEmbedder())
    library.delete("unseen")
    library.create("unseen")
    asked = rag("ask", "What jumps?", "--json", *one_key(collections=["animals", "unseen"]))
    remark = "Searching 'animals', the only collection with documents; -c names another.\n"
    assert (asked.exit_code, asked.stderr) == (0, remark), "`rag collections list` shows two"
    library.close()


def test_the_only_collection_is_asked(only: tuple[str, ...]) -> None:
    asked = rag("ask", "What jumps?", "--json", *only)
    answer = json.loads(asked.stdout)
    assert (answer["collection"], asked.stderr) == ("animals", NOTE)
    assert answer["passages"]
    quiet = rag("ask", "What jumps?", "-c", "animals", "--json", *only)
    assert quiet.stderr == ""


def test_an_empty_question_is_refused_before_a_collection_is_chosen(only: tuple[str, ...]) -> None:
    refused = rag("ask", " ", *only)
    assert (refused.exit_code, "Searching" in refused.stderr) == (2, False)
    assert "question is empty" in refused.stderr


def test_a_new_session_takes_it_and_an_old_one_keeps_its_own(only: tuple[str, ...], one_key: Any) -> None:
    first = rag("ask", "What jumps?", "-s", "choosing", "--json", *only)
    assert (json.loads(first.stdout)["collection"], first.stderr) == ("animals", NOTE)
    again = rag("ask", "What else?", "-s", "choosing", "--json", *only)
    assert (json.loads(again.stdout)["collection"], again.stderr) == ("animals", "")
    rag("ask", "Hello?", "-s", "without", *one_key(collections=["none"]))
    after = rag("chat", "-s", "without", "--json", *only, said="And?\n")
    assert json.loads(after.stdout)["session_id"] == "without"
    assert NOTE not in after.stderr


@pytest.mark.parametrize("more", [(), ("--json",)])
def test_a_conversation_and_a_search_take_it_too(only: tuple[str, ...], more: tuple[str, ...]) -> None:
    talked = rag("chat", *more, *only, said="What jumps?\nWhen?\n/reset\nWhat jumps?\n")
    assert talked.exit_code == 0, talked.output
    assert talked.stderr.count(NOTE) == 1
    assert "does not rest on your documents" not in talked.output
    found = rag("search", "fox", *more, *only)
    assert "quick brown fox" in found.stdout
    assert found.stderr == NOTE


def test_its_documents_are_read_too(only: tuple[str, ...], several: str) -> None:
    note = NOTE.replace("Searching", "Reading")
    listed = rag("docs", "list", "--json", *only)
    assert listed.stderr == note
    told = json.loads(listed.stdout)
    assert told["collection"] == "animals"
    document = told["documents"][0]["document_id"]
    shown = rag("docs", "show", document, *only)
    assert (shown.exit_code, shown.stderr) == (0, note)
    assert shown.stdout == rag("docs", "show", document, "-c", "animals", *only).stdout
    kept = rag("docs", "delete", document, *only)
    assert "no collection 'default'" in kept.stderr, "what is deleted is named"
    which = rag("docs", "list", "--url", several)
    assert (which.exit_code, which.stdout) == (2, "")
    assert which.stderr.endswith("choose with -c.\n"), "of several at once no documents are listed"


@pytest.mark.decoder_only("`rag verify` compares its own decoding")
def test_verify_takes_it(only: tuple[str, ...]) -> None:
    verified = rag("verify", "What jumps?", "--json", *only)
    assert json.loads(verified.stdout)["collection"] == "animals"
    assert NOTE in verified.stderr


@pytest.mark.parametrize(
    "command", [("ask", "What jumps?"), ("ask", "What jumps?", "--json"), ("search", "fox"), ("verify", "What jumps?")]
)
def test_who_names_none_of_several_collections_is_told_which_there_are(several: str, command: tuple[str, ...]) -> None:
    asked = rag(*command, "--url", several)
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert re.search(r"none is called 'default'\. You have .*animals.*: choose with -c, or several: -c", asked.stderr)
    assert rag(*command, "-c", "animals", "--url", several).exit_code < 2


def test_a_conversation_among_several_collections_starts_with_one(several: str, world: Any) -> None:
    asked = rag("chat", "--url", several, said="What jumps?\n")
    assert (asked.exit_code, asked.stdout) == (2, "")
    assert "choose with -c" in asked.stderr
    chat = rag("chat", "-c", "animals", "--url", several, said="/quit\n").stderr
    assert "Model: smollm2-135m" in chat
    assert (", a small demo model for tests" in chat) == (world.engine == "decoder")


def test_a_session_without_documents_is_told_which_collections_there_are(several: str, one_key: Any) -> None:
    first = rag("ask", "What jumps?", "-s", "bare", "--json", *one_key(collections=["none"]))
    assert "There are no collections" in first.stderr
    plain = rag("ask", "What jumps?", *one_key(collections=["none"]))
    assert "There are no collections" in plain.stderr
    assert "No collection was searched" not in plain.output, "once is enough"
    again = rag("ask", "What jumps?", "-s", "bare", *one_key())
    assert again.exit_code == 0
    assert "No collection was searched" in again.stdout
    assert again.stderr.count("choose with -c") == 1


def test_a_conversation_changes_its_collection(several: str) -> None:
    said = "/collection\n/collection nothing\n/collection unseen\nWho sees it?\n/sources\n/collection\n/quit\n"
    talked = rag("chat", "-c", "animals", "--url", several, said=said)
    assert [line for line in talked.stderr.splitlines() if "next questions" in line] == [
        "The next questions search animals.",
        "The next questions search unseen.",
        "The next questions search unseen.",
    ]
    assert "There is no collection 'nothing'" in talked.stderr
    assert "a.md" in talked.stdout
