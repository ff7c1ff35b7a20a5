"""/v1/keys: the API keys of a tenant, for its admins: list, create, revoke."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query

from rag_service.access.api_keys import ApiKey
from rag_service.access.delegation import check_person, granted, reaches
from rag_service.api.deps import ADMIN, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.contract.ids import KeyPath, unknown_key
from rag_service.contract.keys import CreatedKey, CreateKey, KeyInfo, KeyList
from rag_service.errors import Conflict, InvalidRequest
from workers.broker import keys

router = APIRouter(prefix="/v1/keys", tags=["keys"], route_class=JsonRoute, dependencies=[ADMIN])

Own = Annotated[bool, Query(alias="self", description="Whether the key that sends this request may revoke itself.")]


@router.get("")
def list_keys(pipeline: PipelineDep) -> KeyList:
    """List the tenant's keys, oldest first, without the keys themselves.

    An admin whose key is limited to collections sees those keys that are limited to the same collections or to some of
    them.
    """
    listed = pipeline.api_keys.list()
    return KeyList(keys=[KeyInfo(**_shown(key)) for key in listed if reaches(pipeline.principal, key)])


@router.post("", status_code=201, responses=error_responses(400, 413, 415, 422))
def create(body: CreateKey, pipeline: PipelineDep) -> CreatedKey:
    """Create a key of the own tenant. Only this response has the key itself: its hash alone is stored.

    403 if it would open collections that your own key does not open, or sessions of another person: only the operator
    creates a further key for a person who has some.
    """
    admin = pipeline.principal
    collections = granted(admin, body.collections)
    try:
        record, key = pipeline.api_keys.prepared(
            body.name, admin.tenant, person=body.person, role=body.role, collections=collections
        )
    except ValueError as error:
        raise InvalidRequest(f"No key was created: {error}.") from None
    owner = keys.owner(admin.tenant, record.person)
    check_person(admin, record.person, pipeline.api_keys.list(), lambda: bool(pipeline.sessions.list(owner, 1, 0)))
    with pipeline.audit.recording(admin, "key.create", key_id=record.id):
        pipeline.api_keys.add(record, key)
    return CreatedKey(**_shown(record), key=key)


@router.delete("/{key_id}", status_code=204, responses=error_responses(404, 409, 422))
def revoke(key_id: KeyPath, pipeline: PipelineDep, own: Own = False) -> None:
    """Revoke a key. The service then rejects it, and ends the responses that it still streams.

    409 `own_key` for the key that sends the request, unless `self=true`.
    """
    record = pipeline.api_keys.get(key_id)
    if record is None or not reaches(pipeline.principal, record):
        raise unknown_key(key_id)
    if key_id == pipeline.principal.key and not own:
        raise Conflict(
            "This is the key that you sent. Revoke it with another key, or send `?self=true` to lock it out.", "own_key"
        )
    with pipeline.audit.recording(pipeline.principal, "key.revoke", key_id=key_id):
        if not pipeline.api_keys.revoke(key_id):  # by another request, meanwhile
            raise unknown_key(key_id)


def _shown(key: ApiKey) -> dict[str, Any]:
    """The fields of `KeyInfo`."""
    fields = asdict(key)
    del fields["tenant"]
    return {**fields, "collections": None if key.collections is None else list(key.collections)}
