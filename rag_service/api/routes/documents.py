"""/v1/collections/{collection}/documents: add by upload or as JSON, list, read, delete."""

from __future__ import annotations

import hashlib
import mimetypes
import shutil
import time
import uuid
from pathlib import Path, PurePath
from typing import Any
from urllib.parse import quote

import anyio
from fastapi import APIRouter, Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter

from rag_service.answering.pipeline import Pipeline
from rag_service.api.deps import EDITOR, READER, CollectionDep, PipelineDep
from rag_service.api.error_responses import error_responses
from rag_service.api.json_route import JSON, check_media_type, media_type, validated
from rag_service.api.uploads import MULTIPART, save_uploads
from rag_service.contract.file_names import sendable
from rag_service.contract.ids import After, DocumentPath, PageSize
from rag_service.contract.responses import DocumentInfo, DocumentList, DocumentOut, JobAccepted
from rag_service.contract.schemas import AddDocuments, UploadedDocument, UploadedDocuments
from rag_service.errors import InvalidRequest, NotFound, TooLarge
from retriever import StoreUnavailable, UnknownCollection
from retriever.types import DocumentInfo as StoredInfo
from workers.broker.ingest_messages import IngestFile, IngestJob

router = APIRouter(prefix="/v1/collections/{collection}/documents", tags=["documents"], dependencies=[READER])
_ADD_DOCUMENTS = TypeAdapter(AddDocuments)
_UPLOADED_DOCUMENTS = TypeAdapter(UploadedDocuments)


def _inlined() -> dict[str, Any]:
    """The schema of a JSON body without `$defs`, which an OpenAPI document cannot refer to."""
    schema = AddDocuments.model_json_schema()
    schema["properties"]["documents"]["items"] = schema.pop("$defs")["TextDocument"]
    return schema


_BINARY = {"type": "string", "format": "binary"}
_SAFE = frozenset(
    {"application/pdf", "application/json", "application/epub+zip", "text/plain", "text/markdown", "text/csv"}
)
_OFFICE = ("application/vnd.openxmlformats-officedocument.", "application/vnd.oasis.opendocument.")
_UPLOAD = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "files": {"type": "array", "items": {"type": "string", "format": "binary"}, "minItems": 1},
                        "documents": {
                            "type": "string",
                            "contentMediaType": "application/json",
                            "description": "A JSON list with an object `{id, title, metadata}` for each file, in the "
                            "order of the files; each field may be left out.",
                        },
                    },
                    "required": ["files"],
                }
            },
            "application/json": {"schema": _inlined()},
        },
    }
}


@router.post(
    "",
    status_code=202,
    dependencies=[EDITOR],
    openapi_extra=_UPLOAD,
    responses=error_responses(400, 404, 409, 413, 415, 422, 429, 507),
)
async def add(request: Request, collection: CollectionDep, pipeline: PipelineDep) -> JobAccepted:
    """Ingest files (multipart) or texts (JSON). `GET /v1/jobs/{id}` shows the job's progress.

    The job's `failures` list files that cannot be read, with reasons. All other files are ingested.
    """
    check_media_type(request, JSON, MULTIPART)
    await anyio.to_thread.run_sync(pipeline.admission.check_ingests, pipeline.principal.tenant)
    job_id = uuid.uuid4().hex
    folder = pipeline.settings.uploads_folder / job_id
    try:
        if media_type(request) == MULTIPART:
            files = await _uploads(request, pipeline, folder)
        else:
            files = await anyio.to_thread.run_sync(_texts, await request.body(), pipeline)
        job = IngestJob(
            job_id=job_id,
            tenant=pipeline.principal.tenant,
            collection=collection.name,
            files=files,
            created=time.time(),
        )
        await anyio.to_thread.run_sync(_accept, job, pipeline)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return JobAccepted(job_id=job_id)


@router.get("", responses=error_responses(404, 409, 422))
def list_documents(collection: CollectionDep, limit: PageSize = 100, after: After = "") -> DocumentList:
    """List documents, ordered by id, in pages."""
    page = collection.documents(limit=limit, after=after)
    next_after = page[-1].id if len(page) == limit else None
    return DocumentList(documents=[DocumentInfo(**_info(document)) for document in page], next=next_after)


@router.get(
    "/{document_id}/original",
    response_class=Response,
    responses={
        200: {"description": "The file's bytes.", "content": {"application/octet-stream": {"schema": _BINARY}}},
        **error_responses(404, 409, 422),
    },
)
def original(document_id: DocumentPath, collection: CollectionDep) -> StreamingResponse:
    """Read the file that a document was uploaded as. 404 `no_original` if it is not kept (`RAG_KEEP_ORIGINALS`)."""
    file = collection.original(document_id)
    if file is None:
        raise NotFound(
            "The file of this document is not kept: it came as text, or RAG_KEEP_ORIGINALS was off when it was "
            "uploaded. Upload it again with the setting on.",
            "no_original",
        )
    name = PurePath(collection.get(document_id).name).name or document_id
    headers = {
        "Content-Length": str(file.size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(name, safe='')}",
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox; default-src 'none'",
    }
    return StreamingResponse(file.pieces, media_type=_media_type(name), headers=headers)


@router.get("/{document_id}", responses=error_responses(404, 409, 422))
def read(document_id: DocumentPath, collection: CollectionDep) -> DocumentOut:
    """Read a document with its text, to which the offsets of passages and citations refer."""
    document = collection.get(document_id)
    return DocumentOut(**_info(document), text=document.text)


@router.delete("/{document_id}", status_code=204, dependencies=[EDITOR], responses=error_responses(404, 409, 422))
def delete(document_id: DocumentPath, collection: CollectionDep, pipeline: PipelineDep) -> None:
    """Delete a document, and its names in ingests that have ended. Answers that cite it keep their passages."""
    digest = hashlib.sha256(document_id.encode()).hexdigest()  # an id has the file's name, which is erased
    changed = {"collection": collection.name, "document_id": f"sha256:{digest[:16]}"}
    with pipeline.audit.recording(pipeline.principal, "document.delete", **changed):
        pipeline.delete_document(collection, document_id)


def _accept(job: IngestJob, pipeline: Pipeline) -> None:
    """Raises UnknownCollection if the collection was deleted or renamed during the upload: nothing goes in then."""
    ingested = {"collection": job.collection, "job_id": job.job_id}
    pipeline.library.collection(job.collection)
    with pipeline.audit.recording(pipeline.principal, "documents.ingest", **ingested):
        pipeline.ingests.enqueue(job)
        try:
            pipeline.library.collection(job.collection)
        except UnknownCollection:  # at this moment
            pipeline.ingests.cancel(job.tenant, job.job_id)
            raise
        except StoreUnavailable:
            pass  # the job waits for it, too


def _media_type(name: str) -> str:
    """The type of a file by its ending; of those that a browser would run, and of unknown ones, that of bytes."""
    guessed, encoding = mimetypes.guess_type(name)
    safe = guessed in _SAFE or (guessed or "").startswith(_OFFICE)
    return guessed if guessed is not None and safe and encoding is None else "application/octet-stream"


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
    """Write the uploaded files to `folder`; the worker reads and deletes them."""
    most = pipeline.settings.limits.upload_files
    await anyio.to_thread.run_sync(lambda: folder.mkdir(parents=True))
    uploads, details = await save_uploads(folder, request, most)
    _check_count(len(uploads), pipeline, "Send at least one file, in the form field `files`.")
    described = await anyio.to_thread.run_sync(_described, details, len(uploads))
    files = []
    for number, (upload, document) in enumerate(zip(uploads, described, strict=True), start=1):
        name = sendable(upload.name or f"file {number}")  # the worker skips a file whose name is too long
        files.append(
            IngestFile(
                name=name,
                path=str(upload.path),
                document_id=document.id,
                title=document.title,
                metadata=document.metadata,
            )
        )
    return files


def _described(details: bytes | None, count: int) -> list[UploadedDocument]:
    """What the form says of each of its `count` files. Raises InvalidRequest."""
    if details is None:
        return [UploadedDocument()] * count
    described = validated(b'{"documents": ' + details + b"}", _UPLOADED_DOCUMENTS).documents
    if len(described) != count:
        raise InvalidRequest(
            f"`documents` describes {len(described)} files, and the form has {count}. Send one object for each file, "
            "in the order of the files."
        )
    return described


def _texts(body: bytes, pipeline: Pipeline) -> list[IngestFile]:
    def check(value: Any) -> None:
        documents = value.get("documents") if isinstance(value, dict) else None
        if isinstance(documents, list):
            _check_count(len(documents), pipeline, "Send at least one document, in `documents`.")

    request = validated(body, _ADD_DOCUMENTS, check)
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


def _check_count(count: int, pipeline: Pipeline, advice: str) -> None:
    most = pipeline.settings.limits.upload_files
    if count == 0:
        raise InvalidRequest(f"The request has nothing to ingest. {advice}")
    if count > most:
        raise TooLarge(f"The request has {count} documents. Send at most {most} in one request.", "too_many_documents")
