"""How a command ends, as a number."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""The service refused, or part of the work failed."""
USAGE = 2
UNREACHABLE = 3
"""Nothing answers where the service should be."""
INTERRUPTED = 130
