"""Settings of model servers: which answers what, what is refused, and that no key is ever shown."""

from __future__ import annotations

import json

import pytest

from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, load_settings, setting_values
from workers.upstream.servers import SERVERS

KEY = "sk-very-secret"
URL = "http://127.0.0.1:8000/v1"


@pytest.fixture
def two_servers(monkeypatch: pytest.MonkeyPatch, own_folder: None) -> Settings:
    monkeypatch.setenv("RAG_ENGINE", "openai")
    monkeypatch.setenv("RAG_UPSTREAM__URL", URL + "/")
    monkeypatch.setenv("RAG_UPSTREAM__MODEL", "small")
    monkeypatch.setenv("RAG_UPSTREAM__API_KEY", KEY)
    large = {"url": "https://gpu.example.com/v1", "model": "big", "server": "vllm", "window": 32768, "api_key": KEY}
    monkeypatch.setenv("RAG_UPSTREAM__OTHERS", json.dumps({"large": large}))
    monkeypatch.setenv("RAG_UPSTREAM__COLLECTIONS", '{"laws": "large", "rules": "large", "notes": "default"}')
    return load_settings()


def test_every_server_is_an_endpoint_and_the_first_is_the_default(two_servers: Settings) -> None:
    first, large = two_servers.endpoints
    assert (first.name, first.url, first.model, first.server) == ("default", URL, "small", "openai")
    assert (first.api_key, first.window, first.first_token_s, first.silence_s, first.retry_s) == (
        KEY,
        8192,
        300,
        60,
        30,
    )
    assert (large.name, large.url, large.model, large.server) == ("large", "https://gpu.example.com/v1", "big", "vllm")
    assert large.window == 32768


def test_our_own_engine_has_no_endpoints(monkeypatch: pytest.MonkeyPatch, own_folder: None) -> None:
    monkeypatch.setenv("RAG_UPSTREAM__URL", URL)
    settings = load_settings()
    assert settings.endpoints == ()
    assert settings.upstream_of("laws") is None


@pytest.mark.parametrize(
    ("collection", "name"),
    [
        ("laws", "large"),
        ("notes", "default"),
        ("other", "default"),
        (None, "default"),
        ("laws,rules", "large"),
        ("laws,notes", "default"),
        ("laws,other", "default"),
    ],
)
def test_a_collection_chooses_its_server_and_several_must_agree(
    two_servers: Settings, collection: str | None, name: str
) -> None:
    assert two_servers.upstream_of(collection) == name


def test_keys_are_never_shown(two_servers: Settings) -> None:
    shown = json.dumps(setting_values(two_servers))
    assert "gpu.example.com" in shown
    assert '"RAG_UPSTREAM__COLLECTIONS": {"laws": "large"' in shown
    for text in (shown, repr(two_servers), str(two_servers), repr(two_servers.endpoints)):
        assert KEY not in text


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"RAG_ENGINE": "openai"}, "RAG_ENGINE=openai needs RAG_UPSTREAM__URL and RAG_UPSTREAM__MODEL"),
        ({"RAG_ENGINE": "openai", "RAG_UPSTREAM__URL": URL}, "RAG_ENGINE=openai needs RAG_UPSTREAM__MODEL"),
        ({"RAG_ENGINE": "vllm"}, "RAG_ENGINE: Input should be 'decoder' or 'openai'"),
        ({"RAG_UPSTREAM__URL": "gpu:8000/v1"}, "RAG_UPSTREAM__URL: .*must begin with http:// or https://"),
        ({"RAG_UPSTREAM__URL": "ftp://gpu/v1"}, "must begin with http:// or https://"),
        ({"RAG_UPSTREAM__URL": "http:///v1"}, "must begin with http:// or https:// and a host"),
        ({"RAG_UPSTREAM__URL": "http://gpu:port/v1"}, "is no address"),
        ({"RAG_UPSTREAM__URL": "http://gpu/v1?key=" + KEY}, "must not contain"),
        ({"RAG_UPSTREAM__URL": f"http://me:{KEY}@gpu/v1"}, "must not contain a user or a password"),
        ({"RAG_UPSTREAM__API_KEY": KEY + "\nX-Header: 1"}, "RAG_UPSTREAM__API_KEY: .*printable ASCII"),
        ({"RAG_UPSTREAM__SERVER": "vlm"}, "RAG_UPSTREAM__SERVER: .*no server 'vlm'; choose one of openai, llama.cpp"),
        ({"RAG_UPSTREAM__WINDOW": "0"}, "RAG_UPSTREAM__WINDOW"),
        ({"RAG_UPSTREAM__OTHERS": '{"large": {"url": "http://gpu/v1"}}'}, "'large' in others needs a url and a model"),
        (
            {"RAG_UPSTREAM__OTHERS": '{"default": {"url": "http://gpu/v1", "model": "m"}}'},
            "'default' in others is no name",
        ),
        ({"RAG_UPSTREAM__OTHERS": '{"large": {"key": "' + KEY + '"}}'}, "OTHERS__LARGE__KEY is not a setting"),
        ({"RAG_UPSTREAM__OTHERS": '{"large": "' + KEY}, "A setting that begins with RAG_UPSTREAM is not valid JSON"),
        ({"RAG_UPSTREAM__COLLECTIONS": '{"laws": "large"}'}, "sends 'laws' to 'large', and there is none; .*default"),
    ],
)
def test_what_cannot_be_used_is_refused_and_named(
    variables: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch, own_folder: None
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings, match=message) as refused:
        load_settings()
    assert KEY not in str(refused.value)


def test_every_kind_of_server_can_be_set() -> None:
    for server in SERVERS:
        upstream = {"url": URL, "model": "m", "server": server}
        (endpoint,) = Settings(engine="openai", upstream=upstream).endpoints  # type: ignore[arg-type]
        assert endpoint.server == server
