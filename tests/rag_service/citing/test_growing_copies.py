"""Copied words of growing answers: equal text, however the answer comes, and nothing of what is said otherwise."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rag_service.citing.growing_copies import Copy, GrowingCopies

POLICY = "Backups are encrypted and kept for 35 days. A deleted record disappears from all backups after that."
BRIDGE = "Über die Brücke von Köln gehen 東京からの訪問者が毎年たくさん歩きます 😀 each year."


def copied(answer: str, sources: list[str], cuts: set[int] = frozenset()) -> list[Copy]:  # type: ignore[assignment]
    growing, copies = GrowingCopies(sources), []
    places = [0, *sorted(cut for cut in cuts if 0 < cut < len(answer)), len(answer)]
    for start, end in pairwise(places):
        part = growing.add(answer[start:end])
        assert all(start <= one.start < one.end <= end for one in part)
        copies += part
    return copies


def test_words_that_go_on_as_a_source_does_are_copied() -> None:
    answer = "The policy says: Backups are encrypted and kept for 35 days. So it is."
    (copy,) = copied(answer, [BRIDGE, POLICY])
    assert answer[copy.start : copy.end] == POLICY[copy.at : copy.at + copy.end - copy.start]
    assert copy.source == 1
    assert answer[copy.start : copy.end] == "and kept for 35 days. "


def test_a_copy_ends_where_the_words_differ() -> None:
    answer = "Backups are encrypted and kept for 36 days. A deleted record disappears from the archive."
    first, second = copied(answer, [POLICY])
    assert answer[first.start : first.end] == "and kept for 3"
    assert answer[second.start : second.end].startswith("record disappears from ") or second.at > first.at


def test_few_equal_words_are_no_copy() -> None:
    assert copied("They are kept for a while, and for 35 reasons.", [POLICY]) == []
    assert copied("Something else altogether was said about this.", [POLICY, BRIDGE]) == []
    assert copied("Backups are encrypted and kept for 35 days.", []) == []


def test_scripts_without_spaces() -> None:
    answer = "東京からの訪問者が毎年たくさん歩きます。"
    (copy,) = copied(answer, [BRIDGE])
    assert answer[copy.start : copy.end] == "問者が毎年たくさん歩きます"


def test_a_copy_does_not_go_on_in_the_next_source() -> None:
    halves = ["Backups are encrypted and kept", " for 35 days. A deleted record"]
    answer = "".join(halves)
    copies = copied(answer, halves)
    for one in copies:
        assert answer[one.start : one.end] == halves[one.source][one.at : one.at + one.end - one.start]
    assert copies[0].end <= len(halves[0])


@given(
    st.lists(st.sampled_from([POLICY[:40], POLICY[20:70], BRIDGE[3:30], " not so ", "😀", "\0"]), max_size=6),
    st.sets(st.integers(1, 200)),
)
def test_it_is_the_same_however_the_answer_comes(pieces: list[str], cuts: set[int]) -> None:
    sources = [POLICY, BRIDGE]
    answer = "".join(pieces)
    whole, parts = copied(answer, sources), copied(answer, sources, cuts)
    for one in (*whole, *parts):
        assert answer[one.start : one.end] == sources[one.source][one.at : one.at + one.end - one.start]
    assert [one.at - one.start for one in whole for _ in range(one.start, one.end)] == [
        one.at - one.start for one in parts for _ in range(one.start, one.end)
    ]
