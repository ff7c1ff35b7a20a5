"""rag-service for LangChain: a chat model, a language model and a retriever.

    from rag_service.langchain import ChatRagService, RagServiceRetriever

    message = ChatRagService(collection="handbook").invoke("How much is the hotel limit?")
    print(message.text, message.content_blocks[0].get("annotations"))

They use a running service (RAG_URL, RAG_API_KEY) through `rag_service.client` and load no model.
"""

from rag_service.langchain.chat_model import ChatRagService
from rag_service.langchain.llm import RagServiceLLM
from rag_service.langchain.retriever import RagServiceRetriever

__all__ = ["ChatRagService", "RagServiceLLM", "RagServiceRetriever"]
