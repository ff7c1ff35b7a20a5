"""What a worker takes tasks from."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from workers.worker.main import queues


def test_a_worker_without_an_embedder_leaves_ingests_to_others() -> None:
    answering: Any = SimpleNamespace(library=None, name="a")
    both: Any = SimpleNamespace(library=object(), name="a")
    assert queues(answering)[0] == queues(both)[0] == "generate"
    assert "ingest" not in queues(answering)
    assert set(queues(both)) - set(queues(answering)) == {"ingest"}
