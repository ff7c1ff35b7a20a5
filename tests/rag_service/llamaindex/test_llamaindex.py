"""The LlamaIndex retriever against the API and a real search."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from rag_service.client import NotFound, RagClient, RagConnectionError
from rag_service.contract.answer import PassageOut

pytest.importorskip("llama_index.core", reason="the extra `llamaindex` is not installed")

from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle, TextNode

from rag_service.llamaindex import RagServiceRetriever, retriever

pytestmark = pytest.mark.usefixtures("own_folder")

QUESTION = "What jumps over the lazy dog?"
TALES = "\n\n".join(
    f"# {name}\n\n" + " ".join(f"The {name.lower()} crosses field {number} before noon." for number in range(60))
    for name in ("Fox", "Heron", "Badger")
)
"""A document of several chunks."""


@pytest.fixture
def tales(live_url: str) -> Iterator[str]:
    """A collection with one long document."""
    with RagClient(live_url) as rag:
        rag.ingest("tales", texts=[{"id": "tales", "title": "Tales", "text": TALES}])
        yield "tales"
        rag.delete_collection("tales")


def places(found: list[NodeWithScore]) -> list[tuple[Any, ...]]:
    return [(one.node.node_id, one.get_content(), one.score) for one in found]


async def test_nodes_say_where_they_stand(live_url: str, tales: str) -> None:
    retriever = RagServiceRetriever(tales, base_url=live_url, k=2)
    found = retriever.retrieve("heron")
    assert places(await retriever.aretrieve(QueryBundle("heron"))) == places(found)
    with RagClient(live_url) as rag:
        passages = rag.search(tales, "heron", top_k=2)
    assert [(passage.chunk_id, passage.text, passage.score) for passage in passages] == places(found)
    assert len(found) == 2
    for passage, one in zip(passages, found, strict=True):
        known = one.node.metadata
        assert (known["collection"], known["document_id"], known["title"]) == ("tales", "tales", "Tales")
        assert (known["rank"], known["heading"]) == (passage.rank, passage.heading)
        assert TALES[known["source_start"] : known["source_end"]] == one.get_content()
        assert isinstance(one.node, TextNode)
        assert (one.node.start_char_idx, one.node.end_char_idx) == (passage.source_start, passage.source_end)
        assert one.node.ref_doc_id == "tales"
        assert "page" not in known, "a text has none"


def test_a_prompt_gets_titles_and_headings_but_no_numbers(live_url: str) -> None:
    (one,) = RagServiceRetriever("animals", base_url=live_url, k=1).retrieve(QUESTION)
    for mode in (MetadataMode.LLM, MetadataMode.EMBED):
        assert one.get_content(mode) == f"title: Foxes\nheading: Foxes / Bridges\n\n{one.get_content()}"


def test_a_query_engine_answers_from_the_nodes(live_url: str) -> None:
    animals = RagServiceRetriever("animals", base_url=live_url, k=1)
    response = RetrieverQueryEngine.from_args(animals, llm=MockLLM()).query(QUESTION)
    assert places(response.source_nodes) == places(animals.retrieve(QUESTION))
    assert "The quick brown fox jumps" in str(response), "the mock repeats its prompt"


def test_options_reach_the_search(live_url: str, tales: str) -> None:
    def found(**options: Any) -> list[dict[str, Any]]:
        nodes = RagServiceRetriever(tales, base_url=live_url, **options).retrieve("heron")
        return [one.node.metadata for one in nodes]

    assert found(filter={"no": "such"}) == []
    assert 0 < len(found(mode="lexical")) < len(found(mode="dense")), "other chunks have no such word"
    (narrow,), (wide,), (section,) = found(k=1), found(k=1, neighbours=1), found(k=1, section=True)
    assert wide["source_start"] < narrow["source_start"]
    assert narrow["source_end"] < wide["source_end"]
    assert TALES[section["source_start"] : section["source_end"]].count("# Heron") == 1
    assert section["source_end"] - section["source_start"] > narrow["source_end"] - narrow["source_start"]


def test_scores_fall_with_the_rank() -> None:
    """A fusion of several retrievers sorts the nodes of each by their score."""
    place = {"document_id": "d", "title": "D", "text": "t", "source_start": 0, "source_end": 1}
    first, second = (
        PassageOut(**place, chunk_id=str(rank), rank=rank, score=rank, rerank_score=-rank) for rank in (1, 2)
    )
    assert [one.score for one in retriever._nodes([first, second], "c")] == [-1, -2]
    unscored = second.model_copy(update={"rerank_score": None})
    assert [one.score for one in retriever._nodes([first, unscored], "c")] == [1, 2]


async def test_errors_are_those_of_the_client(live_url: str) -> None:
    with pytest.raises(NotFound):
        RagServiceRetriever("nowhere", base_url=live_url).retrieve("What?")
    away = RagServiceRetriever(base_url="http://127.0.0.1:9", max_retries=0)
    with pytest.raises(RagConnectionError, match="rag up"):
        away.retrieve("What?")
    with pytest.raises(RagConnectionError, match="rag up"):
        await away.aretrieve("What?")


@pytest.fixture
def imported_again(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """`rag_service.llamaindex` is not imported yet."""
    for name in [name for name in sys.modules if name.startswith("rag_service.llamaindex")]:
        monkeypatch.delitem(sys.modules, name)
    return monkeypatch


def test_without_the_extra_an_import_says_what_to_install(imported_again: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("llama_index.core")]:
        imported_again.delitem(sys.modules, name)
    imported_again.setitem(sys.modules, "llama_index.core", None)
    with pytest.raises(ModuleNotFoundError, match=r"run pip install -e '\.\[llamaindex\]' in the project's folder"):
        importlib.import_module("rag_service.llamaindex")


def test_another_missing_module_is_named_as_it_is(imported_again: pytest.MonkeyPatch) -> None:
    imported_again.setitem(sys.modules, "rag_service.client", None)
    with pytest.raises(ModuleNotFoundError, match=r"rag_service\.client"):
        importlib.import_module("rag_service.llamaindex")
