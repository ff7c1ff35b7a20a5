"""LCEL chains over a collection: the service retrieves and cites, or the chain retrieves and writes its own prompt.

rag up                                              # in another terminal
rag ingest examples/documents --collection handbook
python examples/langchain_chain.py "How much is the hotel limit?"
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from langchain_core.documents import Document
from langchain_core.messages import AIMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnablePassthrough

from rag_service.langchain import ChatRagService, RagServiceRetriever


def cited_chain(collection: str) -> Runnable[dict[str, Any], dict[str, Any]]:
    """{question} -> {answer, sources}: the service retrieves passages and cites the source of copied words."""
    prompt = ChatPromptTemplate.from_messages([("system", "Answer in one short paragraph."), ("human", "{question}")])
    return prompt | ChatRagService(collection=collection, max_tokens=128) | with_sources


def with_sources(message: AIMessage) -> dict[str, Any]:
    """The answer, and for each citation the words of the answer, the document and its characters."""
    sources = []
    for block in message.content_blocks:
        for annotation in block.get("annotations", []):
            place = annotation["extras"]
            sources.append(
                {
                    "words": message.text[annotation["start_index"] : annotation["end_index"]],
                    "document": place["document_id"],
                    "characters": (place["source_start"], place["source_end"]),
                    "kind": place["kind"],
                }
            )
    return {"answer": message.text, "sources": sources}


def own_prompt_chain(collection: str, k: int = 3) -> Runnable[str, str]:
    """question -> answer, with a prompt of the chain's own. Copies are as fast; the chain has to cite by itself."""
    prompt = ChatPromptTemplate.from_template(
        "Answer from these passages, quoting them.\n\n{passages}\n\nQuestion: {question}"
    )
    passages = RagServiceRetriever(collection=collection, k=k) | numbered
    model = ChatRagService(max_tokens=128)
    return {"passages": passages, "question": RunnablePassthrough()} | prompt | model | StrOutputParser()


def numbered(documents: Sequence[Document]) -> str:
    return "\n\n".join(
        f"[{document.metadata['rank']}] {document.metadata['title']}\n{document.page_content}" for document in documents
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--collection", default="handbook")
    arguments = parser.parse_args()
    result = cited_chain(arguments.collection).invoke({"question": arguments.question})
    print(result["answer"])
    for source in result["sources"]:
        print(f"  {source['kind']}: {source['words']!r} ({source['document']}, characters {source['characters']})")
    print("\nWith the chain's own prompt:")
    for piece in own_prompt_chain(arguments.collection).stream(arguments.question):
        print(piece, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
