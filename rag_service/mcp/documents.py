"""The tool `list_documents`: what is in a collection, a page at a time."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from rag_service.mcp.quoted import one_line
from rag_service.mcp.tool import Arguments, Result, Running, Tool


class ListDocuments(Arguments):
    collection: str = Field(min_length=1, description="Name of a collection; list_collections lists them.")
    limit: int = Field(default=50, ge=1, le=200, description="Most documents of one page.")
    after: str = Field(default="", description="`next` of the page before; leave it out for the first page.")


class ListedDocument(BaseModel):
    document_id: str
    title: str
    name: str = Field(description="Of the file.")
    date: str | None = Field(description="The document's own date, if it has one.")
    passages: int
    metadata: dict[str, Any] = Field(description="What a `filter` can name.")


class DocumentPage(Result):
    collection: str
    documents: list[ListedDocument]
    next: str | None = Field(description="`after` of the next page; null on the last page.")

    def text(self) -> str:
        if not self.documents:
            return f"There are no {'more ' if self.next is None else ''}documents in {self.collection}."
        lines = [
            f"- {one_line(one.title)} (document {one_line(one.document_id)}{f', {one.date}' if one.date else ''})"
            for one in self.documents
        ]
        if self.next is not None:
            lines.append(f"There are more: call list_documents with after={self.next!r}.")
        return "\n".join(lines)


async def list_documents(arguments: ListDocuments, running: Running) -> DocumentPage:
    page = await running.rag.documents(arguments.collection, limit=arguments.limit, after=arguments.after)
    documents = [
        ListedDocument(
            document_id=one.document_id,
            title=one.title,
            name=one.name,
            date=date if isinstance(date := one.metadata.get("date"), str) else None,
            passages=one.chunks,
            metadata=one.metadata,
        )
        for one in page.documents
    ]
    return DocumentPage(collection=arguments.collection, documents=documents, next=page.next)


LIST_DOCUMENTS = Tool(
    name="list_documents",
    title="List documents",
    description=(
        "Lists the documents of a collection with their ids, titles and metadata, ordered by id. To find what a "
        "document says, use search or ask instead."
    ),
    arguments=ListDocuments,
    result=DocumentPage,
    run=list_documents,
)
