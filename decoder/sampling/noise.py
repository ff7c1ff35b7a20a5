"""Keyed noise from a counter-based generator: the noise at a position does not depend on earlier draws.

The generator is Philox-4x64-10 (Salmon et al., SC 2011) as in numpy, which guarantees a stable raw stream. It always
runs on the CPU, so that models on CPU and GPU get the same integers. Where numba is installed it is compiled, to the
same integers in less than half of the time.
"""

from __future__ import annotations

import math
from functools import cache, lru_cache
from types import ModuleType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_WORDS = 4
"""Integers that the generator makes of one counter."""
STREAMS = 16
"""Streams that are kept, of 8 bytes a token: drafters, the walk and draws ahead read the same noise."""
_LOOKUP = 800
"""Integers of the stream that take as long as looking up one token."""

_LOUD = 4096
"""Loud tokens that there is room for; where there are more, looking for them takes little of the time."""


class Stream(NamedTuple):
    """The random integers of a vocabulary at one position.

    Attributes:
        bits: uint64 [count], not to be written to.
        peaks: uint64, the greatest integers of parts of `bits`, where it is compiled: few of them tell which parts are
            worth reading.
    """

    bits: NDArray[np.uint64]
    peaks: NDArray[np.uint64] | None


def uniform(seed: int, choice: int, position: int, count: int) -> NDArray[np.float64]:
    """Uniform noise in the open interval (0, 1) for token ids 0..count-1 at one absolute position.

    Args:
        seed, choice: the 128-bit key; each is at least 0 and below 2**64.
        position: absolute position of the token to choose, at least 0.
        count: vocabulary size.

    Returns:
        float64 [count], 53 random bits each.
    """
    return uniforms(stream(seed, choice, position, count).bits)


def uniform_at(seed: int, choice: int, position: int, tokens: NDArray[np.int64], count: int) -> NDArray[np.float64]:
    """`uniform` of some ascending tokens alone: float64 [n]. Other arguments as `uniform`."""
    if compiled := _compiled():
        found = np.empty(len(tokens), np.uint64)
        compiled.at(tokens, *_key(seed, choice, position), found)
        return uniforms(found)
    if len(tokens) * _LOOKUP > count:
        return uniforms(stream(seed, choice, position, count).bits[tokens])
    generator = np.random.Philox(key=seed | choice << 64, counter=position << 192)
    words = np.empty(len(tokens), np.uint64)
    counter = -1  # of the words made last
    for number, token in enumerate(tokens.tolist()):
        if token // _WORDS != counter:
            generator.advance(token // _WORDS - counter - 1)
            counter = token // _WORDS
            made = generator.random_raw(_WORDS)
        words[number] = made[token % _WORDS]
    return uniforms(words)


@lru_cache(STREAMS)
def stream(seed: int, choice: int, position: int, count: int) -> Stream:
    """The random integers of token ids 0..count-1. Arguments as `uniform`."""
    peaks = None
    if compiled := _compiled():
        peaks = np.empty(-(-count // compiled.MULTIPLE), np.uint64)
        bits = np.empty(len(peaks) * compiled.MULTIPLE, np.uint64)
        compiled.fill(bits, peaks, *_key(seed, choice, position))
        bits = bits[:count]
    else:
        bits = np.random.Philox(key=seed | choice << 64, counter=position << 192).random_raw(count)
    bits.setflags(write=False)
    return Stream(bits, peaks)


def uniforms(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Uniforms in (0, 1) from random integers, by their upper 53 bits: float64, the same shape."""
    return ((bits >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53


def gumbel(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard Gumbel noise from uniforms in (0, 1): float64, the same shape."""
    return -np.log(-np.log(uniforms))


def loud(stream: Stream, least: float) -> NDArray[np.int64]:
    """Indices, ascending, of all integers whose Gumbel noise is `least` or more, and of a millionth of that beside."""
    share = -math.expm1(-math.exp(-least)) if least > -5.0 else 1.0  # of all integers; 1 - u at that noise
    beyond = min(int(share * (1.0 + 1e-6) * 2.0**53) + 2, 2**53)
    border = np.uint64((2**53 - beyond) << 11)
    bits, peaks = stream
    if peaks is not None and (compiled := _compiled()):
        found = np.empty(_LOUD, np.int64)
        count = compiled.at_least(bits, peaks, border, found)
        if count <= _LOUD:
            return found[:count]
    return np.flatnonzero(bits >= border)


def _key(seed: int, choice: int, position: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    return np.uint64(position), np.uint64(seed), np.uint64(choice)


@cache
def _compiled() -> ModuleType | None:
    """The compiled stream; None without numba, or with one that this numpy does not fit."""
    try:
        from decoder.sampling import compiled
    except ImportError:
        return None
    return compiled
