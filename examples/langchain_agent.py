"""An agent with a collection as a tool: it decides when to look something up.

    rag up                                              # in another terminal
    rag ingest examples/documents --collection handbook
    AGENT_MODEL=openai:gpt-5-mini python examples/langchain_agent.py "Who may approve a flight?"

The agent's model must call tools, which the small models that rag-service serves do not: AGENT_MODEL names one for
`init_chat_model` (its package, such as langchain-openai, has to be installed). The passages come from rag-service.
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

from rag_service.langchain import RagServiceRetriever

PASSAGE = PromptTemplate.from_template("[{document_id}, characters {source_start} to {source_end}]\n{page_content}")


def search_tool(collection: str, about: str, k: int = 3) -> BaseTool:
    """The collection as a tool; what it finds says where it stands."""
    retriever = RagServiceRetriever(collection=collection, k=k)
    return create_retriever_tool(retriever, f"search_{collection}", f"Finds passages {about}.", document_prompt=PASSAGE)


def agent(model: BaseChatModel, collection: str, about: str) -> Any:
    """An agent that answers from the collection and names its sources."""
    return create_agent(
        model,
        [search_tool(collection, about)],
        system_prompt="Look things up before you answer, and name the documents that you rest on.",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question")
    parser.add_argument("--collection", default="handbook")
    asked = parser.parse_args()
    name = os.environ.get("AGENT_MODEL")
    if not name:
        parser.error("set AGENT_MODEL to a model that calls tools, such as openai:gpt-5-mini")
    answering = agent(init_chat_model(name), asked.collection, "of the company's handbook")
    told = answering.invoke({"messages": [("human", asked.question)]})
    for message in told["messages"]:
        message.pretty_print()


if __name__ == "__main__":
    main()
