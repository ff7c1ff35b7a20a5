"""Requests of the commands to the service: what is sent again, and who is said not to answer."""

from __future__ import annotations

import os
from pathlib import Path

import httpx
import pytest
from pydantic import SecretStr

from rag_service.access import local_key, running
from rag_service.cli.api import Api
from rag_service.cli.console import CliError
from rag_service.cli.stack.connect import key_from
from rag_service.cli.stack.data_folder import only_one
from rag_service.settings import Settings
from tests.support.command_line import nowhere, rag_in


def test_a_broken_stream_is_resumed_where_it_broke_off() -> None:
    asked: list[tuple[str, str | None]] = []
    headers = {"Content-Type": "text/event-stream"}

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.path, request.headers.get("Last-Event-ID")))
        if request.method == "POST":
            return httpx.Response(
                200, headers=headers, text='id: 1-0\nevent: passages\ndata: {"answer_id": "a"}\n\n: still here\n\n'
            )
        if len(asked) == 2:
            return httpx.Response(503, json={"code": "redis_unavailable", "detail": "Away."})
        return httpx.Response(
            200,
            headers=headers,
            text='id: 2-0\nevent: token\ndata: {"text": "x"}\n\nid: 3-0\nevent: done\ndata: {}\n\n',
        )

    with Api("http://rag", transport=httpx.MockTransport(answer)) as api:
        events = [event.name for event in api.events("/v1/query", {})]
    assert events == ["passages", "token", "done"]
    assert asked == [("/v1/query", None), ("/v1/answers/a/events", "1-0"), ("/v1/answers/a/events", "1-0")]


def test_requests_refused_as_too_early_are_sent_again() -> None:
    replies = [httpx.Response(503, headers={"Retry-After": "0"}, json={"detail": "Wait."}), httpx.Response(200, json=1)]
    with Api("http://rag", patience=30, transport=httpx.MockTransport(lambda _: replies.pop(0))) as api:
        assert api.request("GET", "/x") == 1


def test_patience_is_not_for_a_service_that_is_not_there() -> None:
    asked = []

    def nobody(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise httpx.ConnectError("refused")

    with Api("http://rag", 60.0, httpx.MockTransport(nobody)) as api, pytest.raises(CliError, match="rag up") as away:
        api.request("GET", "/x")
    assert away.value.status == 3
    assert len(asked) == 1


def test_a_service_that_takes_too_long_is_not_said_to_be_away() -> None:
    def never(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    with Api("http://rag", transport=httpx.MockTransport(never)) as api, pytest.raises(CliError, match="busy") as slow:
        next(api.events("/v1/query", {}))
    assert slow.value.status == 3


def test_a_server_of_another_kind_is_told_from_the_service() -> None:
    replies = {
        "GET": httpx.Response(404, text="Not found"),
        "POST": httpx.Response(501, text="<html>"),
        "PUT": httpx.Response(200, text="<html>"),
        "HEAD": httpx.Response(404, json={"detail": "Not Found"}),
    }
    with Api("http://rag:81/x", transport=httpx.MockTransport(lambda asked: replies[asked.method])) as api:
        for method, reply in replies.items():
            with pytest.raises(CliError, match="Another program answers at http://rag:81 ") as wrong:
                api.request(method, "/v1/collections")
            assert f"(status {reply.status_code})" in str(wrong.value)
            assert "--url or RAG_URL" in str(wrong.value)
            assert wrong.value.status == 3
    proxy = httpx.MockTransport(lambda asked: httpx.Response(502, text="<html>"))
    with Api("http://rag", transport=proxy) as api, pytest.raises(CliError, match="answered with status 502"):
        api.request("GET", "/v1/collections")


def test_in_another_folder_the_data_folder_without_a_service_is_named(tmp_path: Path) -> None:
    address = nowhere()
    guess = {"RAG_PORT": address.rpartition(":")[2]}
    ask = ("search", "What?", "-c", "animals")
    told = f"No running service was found in the data folder {tmp_path / '.rag'}: run this command in the folder where"
    for command in (ask, ("chat",), ("docs", "list", "-c", "animals")):
        away = rag_in(tmp_path, guess, *command)
        assert away.exit_code == 3
        assert f"Nothing answers at {address} " in away.stderr
        assert told in away.stderr
    (tmp_path / "early").mkdir()
    with only_one(tmp_path / "early"):
        early = rag_in(tmp_path, {**guess, "RAG_DATA_DIR": "early"}, *ask)
    assert early.exit_code == 3
    assert f"`rag up` is still starting in the data folder {tmp_path / 'early'}" in early.stderr
    assert "Start the service" not in early.stderr
    other = rag_in(tmp_path, {**guess, "RAG_DATA_DIR": "other"}, *ask)
    assert f"the data folder {tmp_path / 'other'}: " in other.stderr
    (tmp_path / "other").mkdir(exist_ok=True)
    running.write(tmp_path / "other", running.Running(os.getpid(), address, "redis://b"))
    for settings, options in (
        ({"RAG_URL": address}, ()),
        (guess, ("--url", address)),
        ({"RAG_DATA_DIR": "other"}, ()),
    ):
        known = rag_in(tmp_path, settings, *ask, *options)
        assert f"Nothing answers at {address} " in known.stderr
        assert "data folder" not in known.stderr


@pytest.mark.parametrize(
    ("url", "option", "setting", "file", "said"),
    [
        (
            "http://127.0.0.1:1",
            None,
            None,
            False,
            "No key was found: neither --api-key nor RAG_API_KEY is set, and there",
        ),
        ("http://127.0.0.1:1", None, None, True, "The key is the local key {folder}/key; if the service has another"),
        ("http://rag:1", None, None, True, "is sent to this machine alone. Set RAG_API_KEY"),
        ("http://rag:1", None, "rag_a", True, "The key is that of RAG_API_KEY."),
        ("http://rag:1", "rag_b", "rag_a", True, "The key is that of --api-key."),
        ("http://127.0.0.1:1", "", "rag_a", True, "No key was sent: that of --api-key is empty. Set RAG_API_KEY"),
        ("http://127.0.0.1:1", None, "", True, "No key was sent: RAG_API_KEY is empty. Set RAG_API_KEY"),
    ],
)
def test_who_is_refused_reads_where_the_key_was_looked_for(
    url: str, option: str | None, setting: str | None, file: bool, said: str, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, api_key=None if setting is None else SecretStr(setting))
    if file:
        local_key.ensure(tmp_path)
    refused = httpx.MockTransport(lambda _: httpx.Response(401, json={"code": "unauthorized", "detail": "A key!"}))
    with Api(url, transport=refused, key_from=key_from(url, option, settings)) as api, pytest.raises(CliError) as error:
        api.request("GET", "/x")
    assert said.format(folder=tmp_path) in str(error.value)
    assert ("{folder}" in said or not file) == (str(tmp_path / "key") in str(error.value))
    assert "  " not in str(error.value)


@pytest.mark.parametrize(("option", "setting"), [("rag_b", None), (None, "rag_a"), (None, None)])
def test_who_gave_a_key_is_not_told_to_give_one(
    live_url: str, option: str | None, setting: str | None, tmp_path: Path
) -> None:
    settings = Settings(data_dir=tmp_path, api_key=None if setting is None else SecretStr(setting))
    key = option or setting or local_key.ensure(tmp_path)
    source = {"rag_b": "that of --api-key.", "rag_a": "that of RAG_API_KEY."}.get(key, f"the local key {tmp_path}/key;")
    wrong = Api(live_url, api_key=key, key_from=key_from(live_url, option, settings))
    with wrong as api, pytest.raises(CliError) as error:
        api.request("GET", "/v1/collections")
    said = str(error.value)
    assert said.startswith("This API key is not valid: it is misspelt, was revoked or has expired. Give another one ")
    assert f"`rag keys create NAME` creates it. The key is {source}" in said
    assert "Set RAG_API_KEY" not in said
