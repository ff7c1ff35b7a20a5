"""Keyed noise: the same integers from numpy and from the compiled stream."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from decoder.sampling import noise

VOCAB = 5000
KEYS = [(0, 0, 0), (7, 1, 30), (2**63 + 5, 3, 1234), (2**64 - 1, 2**64 - 1, 2**40)]


@pytest.fixture(params=["numpy", "compiled"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "numpy":
        monkeypatch.setattr(noise, "_compiled", lambda: None)
    else:
        pytest.importorskip("numba")
        assert noise._compiled() is not None
    noise.stream.cache_clear()
    yield request.param
    noise.stream.cache_clear()


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("count", [1, 3, 255, 256, 257, 49_152, 151_936])
def test_the_stream_is_numpys(way: str, key: tuple[int, int, int], count: int) -> None:
    seed, choice, position = key
    expected = np.random.Philox(key=seed | choice << 64, counter=position << 192).random_raw(count)
    assert np.array_equal(noise.stream(*key, count).bits, expected)
    assert not noise.stream(*key, count).bits.flags.writeable


def test_peaks_are_the_greatest_integers_of_parts(way: str) -> None:
    bits, peaks = noise.stream(3, 0, 9, 600)
    assert (peaks is None) == (way == "numpy")
    if peaks is not None:
        assert [int(peak) for peak in peaks[:2]] == [int(bits[:256].max()), int(bits[256:512].max())]
        assert peaks[2] >= bits[512:].max()


def test_loud_noise_is_found_among_the_integers(way: str) -> None:
    bits, peaks = noise.stream(5, 0, 3, 50_000)
    bits = bits.copy()
    bits[7] = np.uint64(2**64 - 1)
    if peaks is not None:
        peaks[0] = bits[7]
    with np.errstate(divide="ignore"):
        gumbel = noise.gumbel(noise.uniforms(bits))
    for least in (-50.0, -3.0, 0.0, 2.5, 9.0, 12.0, 36.0, 40.0, np.inf):
        found = noise.loud(noise.Stream(bits, peaks), least)
        assert set(np.flatnonzero(gumbel >= least)) <= set(found)
        assert len(found) <= np.count_nonzero(gumbel >= least) * 1.001 + 1


def test_noise_of_some_tokens_is_that_of_the_whole_vocabulary(way: str) -> None:
    whole = noise.uniform(2**63 + 5, 3, 1234, VOCAB)
    for count in (0, 1, 2, 9, 10, 11, 50, 900):
        tokens = np.sort(np.random.default_rng(count).choice(VOCAB, count, replace=False))
        assert np.array_equal(noise.uniform_at(2**63 + 5, 3, 1234, tokens, VOCAB), whole[tokens])
        assert np.array_equal(noise.uniform_at(2**63 + 5, 3, 1234, tokens, 10**6), whole[tokens])
    assert np.array_equal(noise.uniform_at(2**63 + 5, 3, 1234, np.arange(7), 10**6), whole[:7])


def test_more_loud_tokens_than_there_is_room_for_are_found(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noise, "_LOUD", 3)
    stream = noise.stream(1, 2, 3, 1000)
    assert len(noise.loud(stream, -50.0)) == 1000
    assert 3 < len(noise.loud(stream, 3.0)) < 200
