"""Sessions that grow."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from service import Service, expect

TURNS = 6


def growth(service: Service) -> None:
    """A session grows by the same amount with each turn: repeated passages are stored once, and where answers have a
    warning, so that no later prompt holds their turns, once a turn."""
    name = service.collection()
    text = "The travel policy allows a hotel of 150 euros a night. " * 30
    # pages have letters: a page with the question's number would be a new passage in each turn
    service.ended(service.add(name, [{"id": page, "text": f"Page {page}. {text}"} for page in "abcde"]))

    def asked(session: str, **options: str) -> Iterator[dict[str, int]]:
        """What a session takes after each turn."""
        for number in range(TURNS):
            question = f"What hotel is allowed, for the {number}. time?"
            body = {"question": question, "collection": name, "max_tokens": 4, "session_id": session, **options}
            expect(service.ask("POST", "/v1/query", body), 200)
            yield expect(service.ask("GET", f"/v1/sessions/{session}"), 200).json["memory"]
        expect(service.ask("DELETE", f"/v1/sessions/{session}"), 204)

    without = asked("growing", abstain="off")  # no answer has a warning
    sizes = [sum(size for field, size in memory.items() if field.endswith("_bytes")) for memory in without]
    grown = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(grown) < sizes[0], f"a later turn takes more than the first one with its passages: {sizes}"
    assert max(grown[2:]) < 1.3 * max(grown[:2]), f"turns take more and more: {sizes}"
    tokens = [memory["tokens"] for memory in asked("doubtful")]
    added = [after - before for before, after in itertools.pairwise(tokens)]
    assert max(added) < 1.1 * tokens[0], f"a later turn takes more than the first one with its passages: {tokens}"


OVER_HTTP = [growth]
