"""The LangChain examples, run against a live service."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

EXAMPLES = Path(__file__).parents[3] / "examples"


@pytest.fixture(autouse=True)
def _live(live_url: str, own_folder: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_URL", live_url)


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_chains_answer_with_sources_and_with_a_prompt_of_their_own(world: Any) -> None:
    chain = example("langchain_chain")
    told = chain.cited_chain("animals").invoke({"question": "What jumps?"})
    assert told["answer"] == world.stage.text
    (source, *_) = [source for source in told["sources"] if source["kind"] == "copied"]
    assert source["document"] == "foxes"
    assert source["words"] in world.stage.text
    world.stage.prompts.clear()
    assert "".join(chain.own_prompt_chain("animals").stream("What jumps?")) == world.stage.text
    (prompt,) = map(world.tokens.decode, world.stage.prompts)
    assert "[1] Foxes\n" in prompt
    assert "Question: What jumps?" in prompt


def test_the_chain_is_a_program(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["langchain_chain.py", "What jumps?", "--collection", "animals"])
    example("langchain_chain").main()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == lines[-1] == world.stage.text
    assert any(line.startswith("  copied: ") and "(foxes, characters (9, 84))" in line for line in lines)


def test_follow_ups_are_rewritten_and_looked_for(
    world: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    chain = example("langchain_history").history_chain("animals")
    first = chain.invoke({"history": [], "question": "What jumps?"})
    assert first.text == world.stage.text
    assert len(world.stage.prompts) == 1, "a first question is not rewritten"
    world.stage.prompts.clear()
    history = [HumanMessage("What jumps?"), first]
    second = chain.invoke({"history": history, "question": "And then?"})
    rewriting, answering = map(world.tokens.decode, world.stage.prompts)
    assert "Rewrite the last question" in rewriting
    assert "And then?" in rewriting
    assert "And then?" not in answering, "it was rewritten"
    assert answering.count(world.stage.text) >= 2, "the history, and the question that was rewritten"
    assert second.response_metadata["passages"]
    said: Iterator[str] = iter(["What jumps?", "And then?", ""])
    monkeypatch.setattr("builtins.input", lambda _: next(said))
    monkeypatch.setattr(sys, "argv", ["langchain_history.py", "--collection", "animals"])
    example("langchain_history").main()
    assert capsys.readouterr().out == f"{world.stage.text}\n" * 2


class Scripted(GenericFakeChatModel):
    """A model that calls tools as it is told."""

    def bind_tools(self, tools: Sequence[Any], **_: Any) -> Any:
        assert [tool.name for tool in tools] == ["search_animals"]
        return self


def test_an_agent_searches_the_collection() -> None:
    call = {"name": "search_animals", "args": {"query": "quick brown fox"}, "id": "1"}
    model = Scripted(messages=iter([AIMessage("", tool_calls=[call]), AIMessage("A fox [foxes].")]))
    told = example("langchain_agent").agent(model, "animals", "about animals").invoke({"messages": [("human", "Who?")]})
    (found,) = [message for message in told["messages"] if isinstance(message, ToolMessage)]
    assert "The quick brown fox jumps" in str(found.content)
    assert "[foxes, characters " in str(found.content)
    assert told["messages"][-1].text == "A fox [foxes]."


@pytest.mark.decoder_only("a model server has its own template for tools")
def test_the_agent_says_what_it_needs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("AGENT_MODEL", raising=False)
    monkeypatch.setattr(sys, "argv", ["langchain_agent.py", "Who?", "--collection", "animals"])
    with pytest.raises(SystemExit):
        example("langchain_agent").main()
    said = capsys.readouterr().err
    assert "chat template has no tools" in said
    assert "AGENT_MODEL" in said
