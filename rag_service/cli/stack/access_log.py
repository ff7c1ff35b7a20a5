"""What the API's access log says of a request: nothing that a person chose, as lines outlive what is erased.

Ids of documents are made from their names, and ids of sessions come from clients. Knows paths; knows no requests.
"""

from __future__ import annotations

import logging
import re

_PROBES = ("/readyz", "/healthz", "/metrics")
_CHOSEN = re.compile(r"(?<=/documents/)[^/?]+|(?<=/sessions/)[^/?]+|(?<=\?).*")
"""The ids of documents and sessions in a path, and its query."""


def kept(record: logging.LogRecord) -> bool:
    """Whether a line of uvicorn's is kept, whose path it shortens; probes, which come every few seconds, are not."""
    if not isinstance(record.args, tuple) or len(record.args) != 5:  # client, method, path, version, status
        return True
    client, method, path, version, status = record.args
    if method == "GET" and path in _PROBES:
        return False
    record.args = (client, method, _CHOSEN.sub("-", str(path)), version, status)
    return True
