"""The random stream of `noise`, compiled with numba: Philox-4x64-10 as numpy has it, to the same integers.

The halves of a 64-bit product are put together from four 32-bit products, of which processors do several at once. The
rounds are written out, as the compiler takes several counters together only where there is no loop inside.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from decoder.jit import inlined, jit

Ints = NDArray[np.int64]
Words = NDArray[np.uint64]

_WORDS = 4
"""Integers that Philox makes of one counter."""
_AT_ONCE = 64
"""Counters that are taken together."""
MULTIPLE = _WORDS * _AT_ONCE
_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_STEP_0, _STEP_1 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBB67AE8584CAA73B)
_FACTOR_0, _FACTOR_1 = np.uint64(0xD2E7470EE14C6C93), np.uint64(0xCA5A826395121157)


@inlined
def _round(a: np.uint64, b: np.uint64, c: np.uint64, d: np.uint64, x: np.uint64, y: np.uint64) -> tuple[np.uint64, ...]:
    """One round of Philox with the keys x and y."""
    low, high = a & _LOW, a >> _HALF
    first, second, third = low * (_FACTOR_0 & _LOW), high * (_FACTOR_0 & _LOW), low * (_FACTOR_0 >> _HALF)
    middle = (first >> _HALF) + (second & _LOW) + third
    high_0 = high * (_FACTOR_0 >> _HALF) + (second >> _HALF) + (middle >> _HALF)
    low_0 = (middle << _HALF) | (first & _LOW)
    low, high = c & _LOW, c >> _HALF
    first, second, third = low * (_FACTOR_1 & _LOW), high * (_FACTOR_1 & _LOW), low * (_FACTOR_1 >> _HALF)
    middle = (first >> _HALF) + (second & _LOW) + third
    high_1 = high * (_FACTOR_1 >> _HALF) + (second >> _HALF) + (middle >> _HALF)
    low_1 = (middle << _HALF) | (first & _LOW)
    return high_1 ^ b ^ x, low_1, high_0 ^ d ^ y, low_0


@inlined
def _of_counter(counter: np.uint64, position: np.uint64, x: np.uint64, y: np.uint64) -> tuple[np.uint64, ...]:
    """The four integers of a counter; x and y are the key."""
    a, b, c, d = _round(counter, np.uint64(0), np.uint64(0), position, x, y)
    a, b, c, d = _round(a, b, c, d, x + _STEP_0, y + _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(2) * _STEP_0, y + np.uint64(2) * _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(3) * _STEP_0, y + np.uint64(3) * _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(4) * _STEP_0, y + np.uint64(4) * _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(5) * _STEP_0, y + np.uint64(5) * _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(6) * _STEP_0, y + np.uint64(6) * _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(7) * _STEP_0, y + np.uint64(7) * _STEP_1)
    a, b, c, d = _round(a, b, c, d, x + np.uint64(8) * _STEP_0, y + np.uint64(8) * _STEP_1)
    return _round(a, b, c, d, x + np.uint64(9) * _STEP_0, y + np.uint64(9) * _STEP_1)


@jit
def fill(stream: Words, peaks: Words, position: np.uint64, x: np.uint64, y: np.uint64) -> None:
    """The stream of a key and a position, as `noise.stream` has it.

    Args:
        stream: uint64 [a multiple of MULTIPLE], to be filled.
        peaks: uint64 [one for each MULTIPLE of the stream], to be filled with the greatest integers there.
        x, y: the key.
    """
    a, b, c, d = np.empty((4, _AT_ONCE), np.uint64)
    for begin in range(len(stream) // (_WORDS * _AT_ONCE)):
        for n in range(_AT_ONCE):
            a[n], b[n], c[n], d[n] = _of_counter(np.uint64(begin * _AT_ONCE + n + 1), position, x, y)
        place = begin * MULTIPLE
        peak = np.uint64(0)
        for n in range(_AT_ONCE):
            peak = max(peak, a[n], b[n], c[n], d[n])
        peaks[begin] = peak
        for n in range(_AT_ONCE):
            stream[place + 4 * n] = a[n]
            stream[place + 4 * n + 1] = b[n]
            stream[place + 4 * n + 2] = c[n]
            stream[place + 4 * n + 3] = d[n]


@jit
def at(tokens: Ints, position: np.uint64, x: np.uint64, y: np.uint64, found: Words) -> None:
    """The stream's integers of some tokens: `found` is filled."""
    for n in range(len(tokens)):
        words = _of_counter(np.uint64(tokens[n] // _WORDS + 1), position, x, y)
        found[n] = words[tokens[n] % _WORDS]


@jit
def at_least(stream: Words, peaks: Words, least: np.uint64, found: Ints) -> int:
    """The places, ascending, of integers that are `least` or more: `found` is filled with as many as it has room for.

    Args:
        stream: uint64 [n], of which the last MULTIPLE may be a part.
        peaks: as `fill` filled them.

    Returns:
        how many there are.
    """
    count = 0
    for number in range(len(peaks)):
        if peaks[number] >= least:
            for n in range(number * MULTIPLE, min((number + 1) * MULTIPLE, len(stream))):
                if stream[n] >= least:
                    if count < len(found):
                        found[count] = n
                    count += 1
    return count
