"""Sessions that grow."""

from __future__ import annotations

import itertools

from service import Service, expect

TURNS = 6


def growth(service: Service) -> None:
    """A session grows by the same amount with each turn: repeated passages are stored once."""
    name = service.collection()
    text = "The travel policy allows a hotel of 150 euros a night. " * 30
    # pages have letters: a page with the question's number would be a new passage in each turn
    service.ended(service.add(name, [{"id": page, "text": f"Page {page}. {text}"} for page in "abcde"]))
    sizes = []
    for number in range(TURNS):
        body = {"question": f"What hotel is allowed, for the {number}. time?", "collection": name, "max_tokens": 4}
        expect(service.ask("POST", "/v1/query", {**body, "session_id": "growing"}), 200)
        memory = expect(service.ask("GET", "/v1/sessions/growing"), 200).json["memory"]
        sizes.append(sum(size for field, size in memory.items() if field.endswith("_bytes")))
    grown = [after - before for before, after in itertools.pairwise(sizes)]
    assert max(grown) < sizes[0], f"a later turn takes more than the first one with its passages: {sizes}"
    assert max(grown[2:]) < 1.3 * max(grown[:2]), f"turns take more and more: {sizes}"
    expect(service.ask("DELETE", "/v1/sessions/growing"), 204)


OVER_HTTP = [growth]
