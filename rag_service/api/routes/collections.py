"""/v1/collections: create, list, read, delete and search."""

from __future__ import annotations

from dataclasses import asdict

from fastapi import APIRouter

from rag_service.answering.pipeline import Pipeline
from rag_service.api.deps import EDITOR, READER, CollectionDep, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JsonRoute
from rag_service.contract.answer import PassageOut
from rag_service.contract.responses import CollectionInfo, CollectionList, SearchResult
from rag_service.contract.schemas import CreateCollection, RenameCollection, SearchRequest
from rag_service.errors import Forbidden
from retriever.library import check_name
from retriever.search.around import around

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=JsonRoute, dependencies=[READER])


@router.post("", status_code=201, dependencies=[EDITOR], responses=error_responses(400, 409, 413, 415, 422, 507))
def create(body: CreateCollection, pipeline: PipelineDep) -> CollectionInfo:
    """Create an empty collection. 409 if a collection has the name already."""
    _check_new(body.name, pipeline, "create another one")
    with pipeline.audit.recording(pipeline.principal, "collection.create", collection=body.name):
        created = pipeline.library.create(body.name)
    return CollectionInfo(**asdict(created.stats()))


@router.get("")
def list_collections(pipeline: PipelineDep) -> CollectionList:
    """List all collections with their sizes."""
    return CollectionList(collections=[CollectionInfo(**asdict(stats)) for stats in pipeline.library.stats()])


@router.get("/{collection}", responses=error_responses(404, 422))
def stats(collection: CollectionDep) -> CollectionInfo:
    """Read the sizes and the embedder of a collection."""
    return CollectionInfo(**asdict(collection.stats()))


@router.patch("/{collection}", dependencies=[EDITOR], responses=error_responses(400, 404, 409, 413, 415, 422))
def rename(body: RenameCollection, collection: str, pipeline: PipelineDep) -> CollectionInfo:
    """Rename a collection, in one step. Its conversations go on under the new name.

    409 `collection_exists` if a collection has the new name already, and `collection_in_use` while an ingest of the
    collection is under way or its index is being built anew. Keys and settings that name it keep the old name.
    """
    pipeline.library.collection(collection)
    _check_new(body.name, pipeline, "give one another name")
    with pipeline.audit.recording(pipeline.principal, "collection.rename", collection=collection, name=body.name):
        renamed = pipeline.rename_collection(collection, body.name)
    return CollectionInfo(**asdict(renamed.stats()))


@router.delete("/{collection}", status_code=204, dependencies=[EDITOR], responses=error_responses(404, 422))
def delete(collection: str, pipeline: PipelineDep) -> None:
    """Delete a collection with all its documents."""
    pipeline.library.collection(collection)
    with pipeline.audit.recording(pipeline.principal, "collection.delete", collection=collection):
        pipeline.delete_collection(collection)


@router.post("/{collection}/search", responses=error_responses(400, 404, 409, 413, 415, 422))
def search(body: SearchRequest, collection: CollectionDep, pipeline: PipelineDep) -> SearchResult:
    """Search for the best passages for a question, without an answer."""
    pipeline.admission.check_question(body.question)
    pipeline.admission.check_top_k(body.top_k)
    top_k = body.top_k or pipeline.settings.retrieval.top_k
    found = collection.search(body.question, top_k, body.mode, body.filter)
    passages = around(collection, found, body.neighbours, body.section)
    return SearchResult(passages=[PassageOut(**asdict(passage)) for passage in passages])


def _check_new(name: str, pipeline: Pipeline, change: str) -> None:
    """Raises Forbidden if the key is limited to other collections, and InvalidName."""
    if not pipeline.principal.sees(name):
        raise Forbidden(
            f"Your key is limited to the collections {', '.join(sorted(pipeline.principal.collections or ()))}, so "
            f"it cannot {change}. Use another key."
        )
    check_name(name)  # the log has no text that is no name
