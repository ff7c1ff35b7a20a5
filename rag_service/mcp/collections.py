"""The tool `list_collections`, and which collection is meant where a call names none."""

from __future__ import annotations

from pydantic import BaseModel

from rag_service.answering.names import DEFAULT_COLLECTION
from rag_service.client import AsyncRagClient
from rag_service.mcp.tool import Arguments, Result, Running, Tool, ToolFailed

NO_COLLECTIONS = "There are no collections yet. Ask the user to add documents: `rag ingest PATH… -c NAME` makes one."
NAMED = 20
"""Most collections that a message names."""


class ListCollections(Arguments):
    """It takes none."""


class CollectionSize(BaseModel):
    name: str
    documents: int
    passages: int

    def shown(self) -> str:
        documents, passages = "s" * (self.documents != 1), "s" * (self.passages != 1)
        return f"{self.name}: {self.documents} document{documents}, {self.passages} passage{passages}"


class CollectionNames(Result):
    collections: list[CollectionSize]

    def text(self) -> str:
        if not self.collections:
            return NO_COLLECTIONS
        return "\n".join(one.shown() for one in self.collections)


async def list_collections(arguments: ListCollections, running: Running) -> CollectionNames:
    collections = await running.rag.collections()
    sizes = [CollectionSize(name=one.name, documents=one.documents, passages=one.chunks) for one in collections]
    return CollectionNames(collections=sizes)


async def chosen(rag: AsyncRagClient) -> str:
    """The collection of a call that names none: the only one, else `default`.

    Raises:
        ToolFailed: there are several, or none.
    """
    names = [one.name for one in await rag.collections()]
    if len(names) == 1:
        return names[0]
    if DEFAULT_COLLECTION in names:
        return DEFAULT_COLLECTION
    if not names:
        raise ToolFailed(NO_COLLECTIONS)
    more = ", …" if len(names) > NAMED else ""
    raise ToolFailed(f"Say which collection to search. There are {', '.join(names[:NAMED])}{more}.")


LIST_COLLECTIONS = Tool(
    name="list_collections",
    title="List collections",
    description=(
        "Lists the collections of the user's documents, with their sizes. Call it first if you do not know which "
        "collection to search."
    ),
    arguments=ListCollections,
    result=CollectionNames,
    run=list_collections,
)
