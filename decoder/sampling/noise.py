"""Keyed noise from a counter-based generator: the noise at a position does not depend on earlier draws.

The generator is Philox-4x64-10 (Salmon et al., SC 2011) as in numpy, which guarantees a stable raw stream. It always
runs on the CPU, so that models on CPU and GPU get the same integers.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def uniform(seed: int, choice: int, position: int, count: int) -> NDArray[np.float64]:
    """Uniform noise in the open interval (0, 1) for token ids 0..count-1 at one absolute position.

    Args:
        seed, choice: the 128-bit key; each is at least 0 and below 2**64.
        position: absolute position of the token to choose, at least 0.
        count: vocabulary size.

    Returns:
        float64 [count], 53 random bits each.
    """
    generator = np.random.Philox(key=seed | choice << 64, counter=position << 192)
    bits = generator.random_raw(count) >> np.uint64(11)
    return (bits.astype(np.float64) + 0.5) * 2.0**-53


def gumbel(uniforms: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard Gumbel noise from uniforms in (0, 1): float64, the same shape."""
    return -np.log(-np.log(uniforms))
