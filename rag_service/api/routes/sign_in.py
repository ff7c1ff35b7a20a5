"""/v1/sign-in: a browser signs in with a key and gets a cookie for it."""

from __future__ import annotations

from typing import Any

import anyio
from fastapi import APIRouter, Request, Response

from rag_service.access.principal import Principal
from rag_service.answering.pipeline import Pipeline
from rag_service.api.authentication import invalid_key, principal_of_key
from rag_service.api.deps import READER, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.api.sign_in_cookie import SIGN_IN
from rag_service.contract.sign_in import SignedIn, SignIn

router = APIRouter(prefix="/v1/sign-in", tags=["sign-in"], route_class=JsonRoute, dependencies=[READER])
_WITHOUT_KEY: dict[str, Any] = {"security": [{}]}


@router.post("", responses=error_responses(400, 413, 415, 422), openapi_extra=_WITHOUT_KEY)
async def begin(body: SignIn, request: Request, response: Response, pipeline: PipelineDep) -> SignedIn:
    """Sign a browser in with the key in the body; no other key is needed.

    The response sets a cookie that stands for the key for `RAG_SIGN_IN_DAYS`, on this host and port. Scripts cannot
    read it, and pages of other sites cannot use it. It ends with the key. `Authorization` wins over the cookie.
    """
    principal = await principal_of_key(request.scope, body.key)
    if principal is None:
        raise invalid_key()
    token = await pipeline.sign_ins.begin(principal, request.app.state.local_key)
    SIGN_IN.set_on(response, request.scope, token, pipeline.sign_ins.seconds)
    return await _who(principal, pipeline)


@router.get("")
async def read(pipeline: PipelineDep) -> SignedIn:
    """Read who sends this request, by its cookie or its key."""
    return await _who(pipeline.principal, pipeline)


@router.delete("", status_code=204, openapi_extra=_WITHOUT_KEY)
async def end(request: Request, response: Response, pipeline: PipelineDep) -> None:
    """Sign the browser out: its cookie is not valid any more. Without a cookie, nothing happens.

    The key that stands for a sign-in at the OpenID provider is deleted, too.
    """
    token = SIGN_IN.value(request.scope)
    if token is not None:
        await pipeline.sign_ins.end(token)
        await anyio.to_thread.run_sync(_forget, pipeline)
    SIGN_IN.delete_on(response, request.scope)


def _forget(pipeline: Pipeline) -> None:
    """Delete the key of the principal, if it stands for a sign-in at the provider."""
    principal = pipeline.principal
    record = pipeline.api_keys.get(principal.key) if principal.key else None
    if record is not None and record.issuer is not None:
        with pipeline.audit.recording(principal, "person.sign_out", key_id=record.id):
            pipeline.api_keys.revoke(record.id)


async def _who(principal: Principal, pipeline: Pipeline) -> SignedIn:
    record = await anyio.to_thread.run_sync(pipeline.api_keys.get, principal.key) if principal.key else None
    return SignedIn(
        tenant=principal.tenant,
        person=principal.person,
        role=principal.role,
        collections=None if principal.collections is None else sorted(principal.collections),
        key=principal.key,
        key_name=None if record is None else record.name,
        provider=None if record is None or record.issuer is None else pipeline.settings.oidc.name,
        keeps_originals=pipeline.settings.keep_originals,
    )
