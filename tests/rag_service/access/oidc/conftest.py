"""An API with keys required, an OpenID provider behind it, and browsers that go to and fro."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urljoin

import httpx
import pytest

from tests.support.peers.openid_provider import CLIENT_ID, SECRET, OpenIdProvider, openid_provider
from workers.broker import keys

ADDRESS = "http://127.0.0.1:8080"
CALLBACK = f"{ADDRESS}/sign-in/oidc/callback"
TENANT = "staff"
ANN: dict[str, Any] = {"name": "Ann Example", "email": "ann@example.org", "groups": ["rag-editors", "everyone"]}


@pytest.fixture(scope="session")
def _provider() -> Iterator[OpenIdProvider]:
    with openid_provider() as provider:
        yield provider


@pytest.fixture
def provider(_provider: OpenIdProvider) -> OpenIdProvider:
    """With `ann`, who is an editor, `bob`, who is a reader, and `eve`, who is in no group."""
    fresh = OpenIdProvider(key=_provider.key, issuer=_provider.issuer)
    fresh.people = {
        "ann": dict(ANN),
        "bob": {"preferred_username": "bob", "groups": "everyone"},
        "eve": {"email": "eve@example.org", "groups": ["guests"]},
    }
    fresh.client.redirect_uris.append(CALLBACK)
    vars(_provider).update(vars(fresh))
    return _provider


@dataclass
class Browser:
    """A browser with cookies of its own, which follows no redirect by itself."""

    client: httpx.AsyncClient
    """Of the service."""
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, url: str, **headers: str) -> httpx.Response:
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items()), **headers}
        response = await self.client.get(url, headers={name: value for name, value in sent.items() if value})
        for header in response.headers.get_list("set-cookie"):
            name, _, value = header.partition(";")[0].partition("=")
            self.cookies.pop(name, None)
            if "Max-Age=0" not in header:
                self.cookies[name] = value
        self.client.cookies.clear()
        return response

    async def begin(self) -> str:
        """Where the provider asks who they are."""
        response = await self.get("/sign-in/oidc")
        assert response.status_code == 303, response.text
        return str(response.headers["location"])

    async def at_provider(self, url: str, person: str | None) -> str:
        """Where the provider sends them back to; None denies."""
        async with httpx.AsyncClient() as client:
            response = await client.post(url, data={} if person is None else {"sub": person})
        assert response.status_code == 302, response.text
        return str(response.headers["location"])

    async def come_back(self, url: str) -> str:
        """Where the service sends them after the provider."""
        assert url.startswith(ADDRESS), url
        response = await self.get(url.removeprefix(ADDRESS), **{"Sec-Fetch-Site": "cross-site"})
        assert response.status_code == 303, response.text
        return urljoin(url, response.headers["location"])

    async def sign_in(self, person: str = "ann") -> str:
        """All of it; the address of the page afterwards."""
        return await self.come_back(await self.at_provider(await self.begin(), person))

    async def who(self) -> dict[str, Any]:
        response = await self.get("/v1/sign-in")
        body: dict[str, Any] = response.json()
        return body


class MakeService(Protocol):
    def __call__(self, **oidc: Any) -> AbstractAsyncContextManager[httpx.AsyncClient]: ...


@pytest.fixture
def service(world: Any, make_client: Any, provider: OpenIdProvider) -> MakeService:
    """`async with service(**settings of RAG_OIDC__) as client`."""

    @asynccontextmanager
    async def made(**changes: Any) -> AsyncIterator[httpx.AsyncClient]:
        settings = {
            "issuer": provider.issuer,
            "client_id": CLIENT_ID,
            "client_secret": SECRET,
            "name": "Example SSO",
            "tenant": TENANT,
            "roles": {"rag-admins": "admin", "rag-editors": "editor", "everyone": "reader"},
            **changes,
        }
        async with make_client(world.redis_url, world.data_dir, open_without_key=False, oidc=settings) as client:
            client.headers["Host"] = ADDRESS.removeprefix("http://")
            redis = client.pipeline.redis
            redis.delete(keys.API_KEYS, *redis.keys(f"rag:{TENANT}:*"))
            yield client
            redis.delete(keys.API_KEYS)

    return made


@pytest.fixture
async def browser(service: MakeService) -> AsyncIterator[Browser]:
    """Of a service with the usual settings."""
    async with service() as client:
        yield Browser(client)
