"""Keyed noise: a counter-based generator, so the noise at a position never depends on what was drawn before.

Philox-4x64-10 (Salmon et al., SC 2011) through numpy's bit generator, whose raw stream is guaranteed stable. It
runs on the CPU whatever the model's device, so CPU and GPU see the same integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def uniform(seed: int, choice: int, position: int, count: int) -> NDArray[np.float64]:
    """Uniform noise strictly inside (0, 1) for token ids 0..count-1 at one absolute position.

    Args:
        seed, choice: the 128-bit key, 0 <= each < 2**64.
        position: absolute position of the token to choose, >= 0.
        count: vocabulary size.

    Returns:
        float64 [count], 53 random bits each.
    """
    generator = np.random.Philox(key=seed | choice << 64, counter=position << 192)
    bits = generator.random_raw(count) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def gumbel(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard Gumbel noise from uniforms in (0, 1), same shape, float64."""
    return -np.log(-np.log(uniforms))
