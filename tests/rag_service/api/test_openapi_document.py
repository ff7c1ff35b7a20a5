"""What `/docs` shows of the API before anything is opened."""

from __future__ import annotations

from rag_service.main import create_app
from rag_service.settings import Settings


def test_every_operation_has_a_sentence_of_its_own() -> None:
    """The same may stand at two addresses, but none is the bare name of a function."""
    document = create_app(Settings(_env_file=None)).openapi()  # type: ignore[call-arg]
    assert "Authorization: Bearer" in document["info"]["description"]
    summaries = [operation["summary"] for path in document["paths"].values() for operation in path.values()]
    assert len(summaries) > 40
    for summary in summaries:
        assert len(summary.split()) >= 3, summary
        assert not summary.endswith("."), summary
