"""A history-aware chain: it rewrites a follow-up to stand alone, then answers it with the history.

    rag up                                              # in another terminal
    rag ingest examples/documents --collection handbook
    python examples/langchain_history.py

The chain keeps the history and sends it every time. A session is simpler, because the service keeps the history and
rewrites follow-ups itself: `ChatRagService(collection=…, session_id=…)`.
"""

from __future__ import annotations

import argparse
from operator import itemgetter
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate, MessagesPlaceholder
from langchain_core.runnables import Runnable, RunnableBranch, RunnablePassthrough

from rag_service.langchain import ChatRagService

REWRITE = "Rewrite the last question so that it can be understood alone. Write the question and nothing else."


def history_chain(collection: str) -> Runnable[dict[str, Any], AIMessage]:
    """{history, question} -> the answer, with citations. `history` is a list of messages, empty at first."""
    history = MessagesPlaceholder("history")
    rewriting = ChatPromptTemplate.from_messages([("system", REWRITE), history, ("human", "{question}")])
    rewritten = rewriting | ChatRagService(max_tokens=48) | StrOutputParser()
    alone = RunnableBranch((itemgetter("history"), rewritten), itemgetter("question"))
    answering = ChatPromptTemplate.from_messages([history, ("human", "{alone}")])
    return RunnablePassthrough.assign(alone=alone) | answering | ChatRagService(collection=collection, max_tokens=128)


def next_question() -> str:
    """Read the next question. An empty line or Ctrl-D ends the conversation and returns an empty string."""
    try:
        return input("? ")
    except EOFError:
        print()
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--collection", default="handbook")
    chain = history_chain(parser.parse_args().collection)
    history: list[BaseMessage] = []
    while question := next_question():
        answer = chain.invoke({"history": history, "question": question})
        print(answer.text)
        history += [HumanMessage(question), answer]


if __name__ == "__main__":
    main()
