"""Hosts and origins: under which names the service is asked, and that no foreign page may ask."""

from __future__ import annotations

import http.client
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from rag_service.errors import InvalidSettings
from rag_service.settings import load_settings

Ask = Callable[..., tuple[int, dict[str, str], str]]


@pytest.fixture(scope="module")
def address(_working: Any, serve: Callable[..., AbstractContextManager[str]]) -> Iterator[str]:
    """Host and port of an API that is open to all, and has names of its own."""
    names = {"host": "box.example.org", "allowed_hosts": "rag.example.com, *.example.net"}
    with serve(_working, **names) as url:
        yield url.removeprefix("http://")


@pytest.fixture
def ask(address: str) -> Ask:
    """`ask(headers, path, method)`: status, headers and body of what is asked with these very headers."""

    def asked(headers: list[tuple[str, str]], path: str = "/v1/collections", method: str = "GET") -> Any:
        connection = http.client.HTTPConnection(address, timeout=30)
        connection.putrequest(method, path, skip_host=True)
        for name, value in headers:
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        body = response.read().decode()
        connection.close()
        return response.status, {name.lower(): value for name, value in response.getheaders()}, body

    return asked


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.0.0.1:8080",
        "10.1.2.3:80",
        "[::1]:8080",
        "[fe80::1]",
        "localhost",
        "LocalHost:1",
        "rag.localhost:8080",
        "api",
        "rag-api_1:8080",
        "box.example.org",
        "BOX.example.org:8080",
        "rag.example.com",
        "a.example.net",
        "a.b.example.net:443",
    ],
)
def test_names_that_are_its_own(host: str, ask: Ask) -> None:
    assert ask([("Host", host)])[0] == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "example.net",
        "badexample.net",
        "x.rag.example.com",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.",
        "localhost.",
        "xlocalhost.example",
        "1.2.3.4.5",
    ],
)
@pytest.mark.parametrize("path", ["/v1/collections", "/", "/docs", "/metrics", "/openapi.json"])
def test_names_that_are_not(host: str, path: str, ask: Ask) -> None:
    """As of a page whose name was made to point here."""
    status, headers, body = ask([("Host", host)], path)
    assert (status, headers["content-type"]) == (421, "application/problem+json")
    assert '"unknown_host"' in body
    assert "RAG_ALLOWED_HOSTS" in body


@pytest.mark.parametrize(
    "hosts",
    [
        [],
        [""],
        ["127.0.0.1", "127.0.0.1"],
        ["127.0.0.1", "evil.example"],
        ["evil@127.0.0.1"],
        ["127.0.0.1:x"],
        ["127.0.0.1:99999"],
        ["127.0.0.1/x"],
        ["[::1"],
        ["[::x]"],
        ["[1.2.3.4]:"],
        ["a b"],
        ["a,b"],
        ["ä"],
    ],
)
def test_no_host_or_none_that_can_be_one(hosts: list[str], ask: Ask) -> None:
    assert ask([("Host", host) for host in hosts])[0] == 400


def test_probes_come_under_any_name(ask: Ask) -> None:
    for path in ("/healthz", "/readyz"):
        for headers in ([("Host", "10-0-0-7.pods.example")], [("Host", "a/b")]):
            assert ask(headers, path)[0] == 200


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("rag.example.com", "https://rag.example.com"),
        ("rag.example.com:80", "http://rag.example.com"),
        ("RAG.example.com", "https://rag.EXAMPLE.com:443"),
        ("[::1]:8080", "http://[::1]:8080"),
    ],
)
def test_its_own_page_asks(host: str, origin: str, ask: Ask) -> None:
    assert ask([("Host", host), ("Origin", origin), ("Sec-Fetch-Site", "same-origin")])[0] == 200
    assert ask([("Host", host), ("Sec-Fetch-Site", "none")])[0] == 200


@pytest.mark.parametrize(
    "headers",
    [
        [("Origin", "https://evil.example")],
        [("Origin", "null")],
        [("Origin", "")],
        [("Origin", "http://127.0.0.1")],
        [("Origin", "http://127.0.0.1:8081")],
        [("Origin", "http://localhost:8080")],
        [("Origin", "http://127.0.0.1:8080.evil.example")],
        [("Origin", "http://127.0.0.1:8080@evil.example")],
        [("Origin", "file://127.0.0.1:8080")],
        [("Origin", "http://127.0.0.1:8080"), ("Origin", "https://evil.example")],
        [("Sec-Fetch-Site", "cross-site")],
        [("Sec-Fetch-Site", "same-site")],
        [("Origin", "http://127.0.0.1:8080"), ("Sec-Fetch-Site", "Cross-Site")],
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS"])
def test_a_foreign_page_asks_for_nothing(headers: list[tuple[str, str]], method: str, ask: Ask) -> None:
    status, sent, body = ask([("Host", "127.0.0.1:8080"), *headers], "/v1/collections", method)
    assert (status, '"foreign_origin"' in body) == (403, True)
    assert not [name for name in sent if name.startswith("access-control")]


def test_the_page_opens_from_anywhere(ask: Ask) -> None:
    """A link to it is no harm."""
    assert ask([("Host", "127.0.0.1:8080"), ("Sec-Fetch-Site", "cross-site")], "/")[0] == 200


def test_openai_clients_get_an_error_they_know(ask: Ask) -> None:
    status, _, body = ask([("Host", "evil.example")], "/v1/models")
    assert (status, '"error"' in body) == (421, True)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("a.example", ("a.example",)),
        ("A.example, *.b.example,", ("a.example", "*.b.example")),
        ('["a.example", "b.example"]', ("a.example", "b.example")),
    ],
)
def test_allowed_hosts_are_a_list(
    text: str, names: tuple[str, ...], own_folder: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_ALLOWED_HOSTS", text)
    assert load_settings().allowed_hosts == names


@pytest.mark.parametrize("text", ["*", "https://a.example", "a.example:80", "*.", "a.*", "[a", '["a b"]', "[1]"])
def test_what_is_no_host_is_told(text: str, own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_ALLOWED_HOSTS", text)
    with pytest.raises(InvalidSettings, match="RAG_ALLOWED_HOSTS"):
        load_settings()
