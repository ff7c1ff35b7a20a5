"""rag-service for LlamaIndex: a retriever. It needs llama-index-core (`pip install -e '.[llamaindex]'`).

    from rag_service.llamaindex import RagServiceRetriever

    for found in RagServiceRetriever("handbook").retrieve("How much is the hotel limit?"):
        print(found.node.metadata["title"], found.get_content())

It uses a running service (RAG_URL, RAG_API_KEY) through `rag_service.client` and loads no model. Answers come from the
service's endpoints for OpenAI's clients, through LlamaIndex's own `OpenAILike` (docs/llamaindex.md).
"""

try:
    from rag_service.llamaindex.retriever import RagServiceRetriever
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "llama_index":
        raise
    raise ModuleNotFoundError(
        "rag_service.llamaindex needs llama-index-core: run pip install -e '.[llamaindex]' in the project's folder.",
        name=error.name,
    ) from None

__all__ = ["RagServiceRetriever"]
