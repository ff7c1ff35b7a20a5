"""An agent with a collection as a tool: it decides when to search.

    rag up                                              # in another terminal
    rag ingest examples/documents --collection handbook
    python examples/langchain_agent.py "Who may approve a flight?"

The agent's model must call tools. The served model can if its chat template has tools (Qwen2.5's does, SmolLM2's does
not). To use another model, set AGENT_MODEL to a name for `init_chat_model`, such as openai:gpt-5-mini (it needs
langchain-openai). The passages come from rag-service either way.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

from langchain.agents import create_agent
from langchain.chat_models import init_chat_model
from langchain_core.language_models import BaseChatModel
from langchain_core.prompts import PromptTemplate
from langchain_core.tools import BaseTool, create_retriever_tool

from rag_service.client import InvalidRequest
from rag_service.langchain import ChatRagService, RagServiceRetriever

PASSAGE = PromptTemplate.from_template("[{document_id}, characters {source_start} to {source_end}]\n{page_content}")


def search_tool(collection: str, about: str, k: int = 3) -> BaseTool:
    """The collection as a tool. Each passage names its document and characters."""
    retriever = RagServiceRetriever(collection=collection, k=k)
    return create_retriever_tool(retriever, f"search_{collection}", f"Finds passages {about}.", document_prompt=PASSAGE)


def agent(model: BaseChatModel, collection: str, about: str) -> Any:
    """An agent that answers from the collection and names its sources."""
    return create_agent(
        model,
        [search_tool(collection, about)],
        system_prompt="Search before you answer, and name the documents that you use.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--collection", default="handbook")
    arguments = parser.parse_args()
    name = os.environ.get("AGENT_MODEL")
    model = init_chat_model(name) if name else ChatRagService(max_tokens=256)
    answering = agent(model, arguments.collection, "of the company's handbook")
    try:
        result = answering.invoke({"messages": [("human", arguments.question)]})
    except InvalidRequest as error:
        parser.exit(1, f"{error} Or set AGENT_MODEL.\n")
    for message in result["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main()
