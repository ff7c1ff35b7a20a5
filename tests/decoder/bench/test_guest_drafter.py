"""`auto` within a host's bounds, and the hosts' own drafters as their sources state them."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.guest_drafter import modes, rate, simulate
from benchmarks.host_drafters import Children, GuestDrafter, SglangNgram, Suffixes, VllmNgram, best_chain
from decoder.bench.simulated.replay import replay
from decoder.drafters import Drafter
from decoder.drafters.context import DrafterContext
from decoder.drafts.accepted import Accepted
from decoder.drafts.tree import ROOT, DraftTree, TokenSource
from decoder.recording.pass_archive import RecordedOutputs
from decoder.recording.record import Recording, read_recordings
from decoder.sampling.params import SamplingParams
from decoder.sequence import Sequence

RECORDED = Path(__file__).parents[1] / "recorded" / "answers.tar.xz"
SOURCE = TokenSource("t")


def sequence_of(prompt: list[int], answer: list[int]) -> Sequence:
    sequence = Sequence(prompt, SamplingParams(max_tokens=64), [], None, frozenset())
    sequence.extend(answer)
    return sequence


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> list[Recording]:
    folder = tmp_path_factory.mktemp("recorded")
    with tarfile.open(RECORDED) as archive:
        archive.extractall(folder, filter="data")
    return read_recordings(folder / "answers.jsonl")


def test_the_best_chain_has_the_most_expected_tokens_of_all_paths() -> None:
    tree = DraftTree()
    short = tree.add(1, ROOT, SOURCE)
    tree.values.append(0.5)
    long = tree.add(2, ROOT, SOURCE)
    tree.values.append(0.4)
    tree.add(4, tree.add(3, long, SOURCE), SOURCE)
    tree.values += [0.38, 0.3]
    assert best_chain(tree, 8).tokens == [2, 3, 4]
    assert best_chain(tree, 8).values == [0.4, 0.38, 0.3]
    assert best_chain(tree, 1).tokens == [tree.tokens[short]]
    assert not len(best_chain(DraftTree(), 8))


def test_a_guest_stays_within_its_hosts_bounds(recorded: list[Recording]) -> None:
    class Watched(GuestDrafter):
        def draft(self, sequence: Sequence, budget: int) -> DraftTree:
            tree = super().draft(sequence, budget)
            sizes.append(len(tree))
            assert tree.is_chain or not self._chain
            assert not (self._fixed and tree.values)
            return tree

    for chain, most in ((True, 5), (False, 11)):
        sizes: list[int] = []
        replay(recorded[2], Watched(most, chain, not chain), context=DrafterContext())
        assert max(sizes) == most


def test_vllms_ngram_takes_the_earliest_place_of_the_longest() -> None:
    sequence = sequence_of([1, 2, 3, 7, 8, 9, 2, 3, 5, 1, 2, 3, 6], [1, 2, 3])
    assert VllmNgram(2, 4, 2).draft(sequence, 64).tokens == [7, 8]
    assert not len(VllmNgram(5, 5, 5).draft(sequence, 64))


def test_a_suffix_drafts_no_more_than_it_matched_and_reads_other_answers() -> None:
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert Suffixes([]).draft(sequence_of([*prompt, 50], [2, 3]), 64).tokens == [4, 5]
    assert not len(Suffixes([]).draft(sequence_of([30, 31], [2, 3, 4]), 64))
    assert Suffixes([], factor=2).draft(sequence_of([*prompt, 50], [2, 3]), 64).tokens == [4, 5, 6, 7]
    assert Suffixes([[2, 3, 4, 5, 6, 7]]).draft(sequence_of([30, 31], [2, 3, 4]), 64).tokens == [5, 6, 7]


def test_sglangs_ngram_knows_answers_and_no_prompts() -> None:
    corpus: Children = {}
    long_prompt = list(range(100, 140))

    def drafted(answer: list[int], prompts: bool = False) -> DraftTree:
        drafter = SglangNgram(corpus, prompts)
        sequence = sequence_of(long_prompt, answer)
        drafter.observe(sequence, DraftTree(), Accepted([0], [], [None]), RecordedOutputs({}))
        tree = drafter.draft(sequence, 64)
        drafter.observe(sequence, tree, Accepted([0], [], [None]), RecordedOutputs({}))
        return tree

    assert not len(drafted([110, 111, 112]))  # the prompt continues with 113
    assert not len(drafted([1, 2, 3, 4, 5, 6]))
    tree = drafted([90, 2, 3])
    assert tree.tokens[0] == 4
    assert len(tree) <= 11
    assert drafted([110, 111, 112], prompts=True).tokens[0] == 113


HOSTS: dict[str, tuple[Callable[[Children, list[list[int]]], Drafter], int]] = {
    "suffix": (lambda corpus, answers: Suffixes(answers), 1100),
    "ngram": (lambda corpus, answers: SglangNgram(corpus), 1191),
}


@pytest.mark.parametrize("host", HOSTS)
def test_hosts_need_as_many_passes_as_their_own_code(recorded: list[Recording], host: str) -> None:
    """The numbers are those of arctic-inference 0.3.0 and of SGLang 0.5.23's trie, compiled and replayed."""
    make, passes = HOSTS[host]
    corpus: Children = {}
    answers: list[list[int]] = []
    total = sum(replay(replace(one, archive=None), make(corpus, answers))[0].steps for one in recorded)
    assert total == passes


def test_rows_count_as_assumed(recorded: list[Recording]) -> None:
    counts = simulate(recorded[:1], 8.0)
    assert list(counts) == [mode.name for mode in modes()]
    tree = counts["tree 12"]
    assert tree[0]["rows"] == 12 * tree[0]["passes"]
    assert rate(tree, 1.0) == tree[0]["tokens"] / tree[0]["passes"]
    assert rate(tree, 64.0) == pytest.approx(tree[0]["tokens"] / tree[0]["rows"])
