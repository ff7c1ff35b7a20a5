"""/v1/collections/{c}/documents: add by upload or as JSON, list, read, delete."""

from __future__ import annotations

import hashlib
import json
import shutil
import time
import uuid
from pathlib import Path
from typing import Annotated, Any

import anyio
from fastapi import APIRouter, Query, Request
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.datastructures import UploadFile

from rag_service.client.file_names import sendable
from rag_service.deps import EDITOR, READER, CollectionDep, PipelineDep
from rag_service.errors import BadRequest, InvalidRequest, TooLarge
from rag_service.pipeline import Pipeline
from rag_service.refusals import refusals
from rag_service.schemas import AddDocuments, DocumentInfo, DocumentList, DocumentOut, JobAccepted
from retriever.types import DocumentInfo as StoredInfo
from workers.messages import IngestFile, IngestJob

router = APIRouter(prefix="/v1/collections/{collection}/documents", tags=["documents"], dependencies=[READER])


def _inlined() -> dict[str, Any]:
    """The schema of a JSON body: references to `$defs` would point nowhere in an OpenAPI document."""
    schema = AddDocuments.model_json_schema()
    schema["properties"]["documents"]["items"] = schema.pop("$defs")["TextDocument"]
    return schema


_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1}
                    },
                    "required": ["files"],
                }
            },
            "application/json": {"schema": _inlined()},
        },
    }
}


@router.post(
    "", status_code=202, dependencies=[EDITOR], openapi_extra=_UPLOAD, responses=refusals(400, 404, 409, 413, 422, 429)
)
async def add(request: Request, collection: CollectionDep, pipeline: PipelineDep) -> JobAccepted:
    """Ingest files (multipart) or texts (JSON). The job's progress is at `GET /v1/jobs/{id}`.

    Files that cannot be read are named in the job's `failures` with a reason; the rest go in.
    """
    await anyio.to_thread.run_sync(pipeline.admission.check_ingests, pipeline.principal.tenant)
    job_id = uuid.uuid4().hex
    folder = pipeline.settings.uploads_folder / job_id
    try:
        if request.headers.get("content-type", "").startswith("multipart/"):
            files = await _uploads(request, pipeline, folder)
        else:
            files = _texts(await request.body(), pipeline)
        job = IngestJob(
            job_id=job_id,
            tenant=pipeline.principal.tenant,
            collection=collection.name,
            files=files,
            created=time.time(),
        )
        await anyio.to_thread.run_sync(pipeline.ingests.enqueue, job)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return JobAccepted(job_id=job_id)


@router.get("", responses=refusals(404, 409, 422))
def list_documents(
    collection: CollectionDep, limit: Annotated[int, Query(ge=1, le=1000)] = 100, after: str = ""
) -> DocumentList:
    """Documents in order of their ids, in pages."""
    found = collection.documents(limit=limit, after=after)
    more = found[-1].id if len(found) == limit else None
    return DocumentList(documents=[DocumentInfo(**_info(document)) for document in found], next=more)


@router.get("/{document_id:path}", responses=refusals(404, 409, 422))
def read(document_id: str, collection: CollectionDep) -> DocumentOut:
    """A document with its text, into which the offsets of passages and citations point."""
    document = collection.get(document_id)
    return DocumentOut(**_info(document), text=document.text)


@router.delete("/{document_id:path}", status_code=204, dependencies=[EDITOR], responses=refusals(404, 409, 422))
def delete(document_id: str, collection: CollectionDep, pipeline: PipelineDep) -> None:
    """Delete a document. Answers that cite it keep the passages they were given."""
    collection.delete(document_id)
    pipeline.forget_passages()


def _info(document: StoredInfo) -> dict[str, Any]:
    return {
        "document_id": document.id,
        "name": document.name,
        "title": document.title,
        "chunks": document.chunks,
        "bytes": document.bytes,
        "content_hash": document.content_hash,
        "metadata": document.metadata,
        "updated": document.updated,
    }


async def _uploads(request: Request, pipeline: Pipeline, folder: Path) -> list[IngestFile]:
    """Keep the uploaded files in `folder`, from where the worker reads and deletes them."""
    most = pipeline.settings.limits.upload_files
    async with request.form(max_files=most + 1, max_fields=100) as form:
        parts = [part for _, part in form.multi_items() if isinstance(part, UploadFile)]
        _check_count(len(parts), pipeline, "send at least one file, in the form field `files`")
        files = []
        await anyio.to_thread.run_sync(lambda: folder.mkdir(parents=True))
        for number, part in enumerate(parts):
            name = sendable(part.filename or f"file {number + 1}")  # the worker refuses one that will not do
            path = folder / str(number)
            await anyio.to_thread.run_sync(_keep, part, path)
            files.append(IngestFile(name=name, path=str(path)))
    return files


def _keep(part: UploadFile, path: Path) -> None:
    with path.open("wb") as file:
        shutil.copyfileobj(part.file, file, 1 << 20)


def _texts(body: bytes, pipeline: Pipeline) -> list[IngestFile]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"The body is not valid JSON ({str(error)[:100]}); correct it.", "invalid_json") from None
    try:
        request = AddDocuments.model_validate(value)
    except ValidationError as error:
        found = [{**e, "loc": ("body", *e["loc"])} for e in error.errors()]
        raise RequestValidationError(found) from None
    _check_count(len(request.documents), pipeline, "send at least one document")
    return [
        IngestFile(
            name=document.title or document.id or f"document {number}",
            text=document.text,
            document_id=document.id or f"text-{hashlib.sha256(document.text.encode()).hexdigest()[:16]}",
            title=document.title,
            metadata=document.metadata,
        )
        for number, document in enumerate(request.documents, start=1)
    ]


def _check_count(count: int, pipeline: Pipeline, none: str) -> None:
    most = pipeline.settings.limits.upload_files
    if count == 0:
        raise InvalidRequest(f"There is nothing to ingest: {none}.")
    if count > most:
        raise TooLarge(f"{count} documents in one request; send at most {most} at a time.", "too_many_documents")
