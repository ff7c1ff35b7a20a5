"""The exit statuses of commands."""

from __future__ import annotations

DONE = 0
FAILED = 1
"""The service rejected the request, or part of the work failed."""
USAGE = 2
UNREACHABLE = 3
"""The service or its Redis cannot be reached."""
INTERRUPTED = 130
