"""/sign-in/oidc: a browser signs in at the OpenID provider, by the authorization code flow with PKCE.

Outside /v1: the browser has no key yet, and comes back from another site. Whoever the provider names gets an expiring
API key that nobody sees, and a cookie that stands for it, so that listing, revoking, roles, the audit log and open
streams are those of keys. Failures lead to the page, with a code in the fragment.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlsplit

import anyio
from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse
from starlette.types import Scope

from rag_service.access.api_keys import ApiKey
from rag_service.access.oidc.attempt import LIFETIME_S, Attempt
from rag_service.access.oidc.provider import Provider
from rag_service.access.oidc.refusal import SignInRefused
from rag_service.access.oidc.rights import Rights, rights_of
from rag_service.answering.pipeline import Pipeline
from rag_service.api.deps import SharedPipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.sign_in_cookie import ATTEMPT, SIGN_IN
from rag_service.errors import NotFound
from rag_service.oidc_settings import Oidc

log = logging.getLogger(__name__)

router = APIRouter(prefix="/sign-in/oidc", tags=["single sign-on"])

_CALLBACK = "/sign-in/oidc/callback"
_HEADERS = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
_REDIRECT: dict[str, Any] = {
    "status_code": 303,
    "response_class": RedirectResponse,
    "responses": error_responses(404, 503),
}


@router.get("", response_description="To the provider, or to the page", **_REDIRECT)
async def begin(request: Request, pipeline: SharedPipelineDep) -> Response:
    """Send a browser to the OpenID provider of `RAG_OIDC__ISSUER` to sign in; no key is needed.

    404 without one. A link of another site leads to the page instead, so that no site signs anybody in unasked.
    """
    provider = _provider(pipeline)
    page = _to_page("../")
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site"):
        return page
    attempt = Attempt.new()
    try:
        url = await provider.authorization_url(attempt, _redirect_uri(request, provider.settings))
    except SignInRefused as refusal:
        return _refused(refusal, "../")
    response = RedirectResponse(url, 303, _HEADERS)
    ATTEMPT.set_on(response, _public(request, provider.settings), attempt.cookie, LIFETIME_S)
    return response


@router.get("/callback", response_description="To the page", **_REDIRECT)
async def callback(
    request: Request,
    pipeline: SharedPipelineDep,
    code: Annotated[str | None, Query(description="What the provider gives tokens for.")] = None,
    state: Annotated[str | None, Query(description="That of the attempt, which this browser began.")] = None,
    iss: Annotated[str | None, Query(description="The provider (RFC 9207).")] = None,
    error: Annotated[str | None, Query(description="Why there is no code.")] = None,
) -> Response:
    """Sign the browser in that comes back from the provider, and lead it to the page; no key is needed.

    The response sets the cookie of `POST /v1/sign-in`, which lasts `RAG_OIDC__HOURS`. If nobody is signed in, the
    fragment of the address says why: `#sign-in=` and `cancelled`, `clocks_differ`, `invalid_reply`, `not_admitted`,
    `not_begun_here`, `refused` or `unreachable`. The service's log has the details.
    """
    provider = _provider(pipeline)
    scope = _public(request, provider.settings)
    try:
        attempt = Attempt.returned(ATTEMPT.value(scope), state)
        await provider.check_issuer(iss)
        if error is not None or not code:
            raise _without_code(error)
        claims = await provider.claims(code, attempt, _redirect_uri(request, provider.settings))
        rights = rights_of(claims, provider.settings)
        if not await pipeline.sign_ins.is_first(rights.tenant, attempt.nonce, 2 * LIFETIME_S):
            raise SignInRefused("not_begun_here", f"the sign-in of {rights.person} was sent a second time")
        response = await _signed_in(rights, provider, pipeline, scope)
    except SignInRefused as refusal:
        response = _refused(refusal, "../../")
    ATTEMPT.delete_on(response, scope)
    return response


@router.get("/sign-out", response_description="To the provider, or to the page", **_REDIRECT)
async def sign_out(pipeline: SharedPipelineDep) -> Response:
    """Lead a browser, which `DELETE /v1/sign-in` has signed out here, to where it signs out at the provider.

    It is led to the page if the provider has no such place (`end_session_endpoint`) or cannot be reached. Needs no key.
    """
    try:
        url = await _provider(pipeline).sign_out_url()
    except SignInRefused as refusal:
        log.warning("Nobody was signed out at the provider: %s.", refusal.detail)
        return _to_page("../../#sign-in=unreachable")
    return _to_page("../../") if url is None else RedirectResponse(url, 303, _HEADERS)


async def _signed_in(rights: Rights, provider: Provider, pipeline: Pipeline, scope: Scope) -> Response:
    """The way to the page, with the cookie of a person."""
    seconds = max(1, int(3600 * provider.settings.hours))
    record = await anyio.to_thread.run_sync(partial(_added, rights, provider.issuer, seconds, pipeline))
    token = await pipeline.sign_ins.begin(record.principal, scope["app"].state.local_key, seconds)
    response = _to_page("../../")
    SIGN_IN.set_on(response, scope, token, seconds)
    return response


def _added(rights: Rights, issuer: str, seconds: int, pipeline: Pipeline) -> ApiKey:
    """The record of a new key with these rights. The key itself is forgotten."""
    record, key = pipeline.api_keys.prepared(
        rights.name,
        rights.tenant,
        person=rights.person,
        role=rights.role,
        collections=rights.collections,
        expires=time.time() + seconds,
        issuer=issuer,
    )
    with pipeline.audit.recording(record.principal, "person.sign_in", key_id=record.id, name=record.name):
        pipeline.api_keys.add(record, key)
    return record


def _provider(pipeline: Pipeline) -> Provider:
    if pipeline.provider is None:
        raise NotFound("This service has no OpenID provider: set RAG_OIDC__ISSUER, or sign in with an API key.")
    return pipeline.provider


def _redirect_uri(request: Request, settings: Oidc) -> str:
    return (settings.public_url or str(request.base_url).rstrip("/")) + _CALLBACK


def _public(request: Request, settings: Oidc) -> Scope:
    """The request's scope, with the scheme that its browser uses."""
    scheme = urlsplit(settings.public_url).scheme if settings.public_url else request.scope["scheme"]
    return {**request.scope, "scheme": scheme}


def _to_page(address: str) -> Response:
    """The way to the page. The address is relative: it leads nowhere else, also below a path of a proxy."""
    return RedirectResponse(address, 303, _HEADERS)


def _refused(refusal: SignInRefused, page: str) -> Response:
    log.warning("Nobody was signed in: %s.", refusal.detail)
    return _to_page(f"{page}#sign-in={refusal.reason}")


def _without_code(error: str | None) -> SignInRefused:
    said = repr(error[:80]) if error else "nothing"
    if error in ("access_denied", "login_required", "interaction_required", "consent_required"):
        return SignInRefused("cancelled", f"the provider gave no code and says {said}")
    if error in ("temporarily_unavailable", "server_error"):
        return SignInRefused("unreachable", f"the provider gave no code and says {said}")
    return SignInRefused("refused", f"the provider gave no code and says {said}: check the client's settings there")
