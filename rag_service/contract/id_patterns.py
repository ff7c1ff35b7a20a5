"""One pattern for each kind of id. Imports pydantic only, because the Python client loads these patterns too."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

HEX_ID = r"^[0-9a-f]{32}$"
"""Ids of answers and jobs, which the service generates."""
SESSION_ID = r"^[A-Za-z0-9_-]{1,64}$"
KEY_ID = r"^[0-9a-f]{12}$"
"""Ids of API keys."""
COLLECTION = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"
_SIGN = r"[^/\x00-\x1f\x7f]"
DOCUMENT_ID = rf"^{_SIGN}{{1,200}}$"
_NO_DOT = r"[^./\x00-\x1f\x7f]"
NEW_DOCUMENT_ID = rf"^(?:{_NO_DOT}{_SIGN}{{0,199}}|\.{_NO_DOT}{_SIGN}{{0,198}}|\.\.{_SIGN}{{1,198}})$"
"""Neither `.` nor `..`: clients resolve these in paths, and would delete a collection in place of a document."""
MODEL_ID = r"^[^\x00-\x1f\x7f]{1,300}$"
TOKEN_ID = r"^[0-9]{1,9}$"
TOOL_NAME = r"^[a-zA-Z0-9_.-]{1,64}$"
"""Names of functions and tools in OpenAI's and Anthropic's formats."""
ENTRY_ID = r"^[0-9]{1,15}-[0-9]{1,15}$"
"""Ids of entries of the audit log, which the service generates."""
IN_WORDS = {
    SESSION_ID: "1 to 64 letters (a to z), digits, '-' or '_'",
    COLLECTION: "1 to 64 letters (a to z), digits, '-' or '_', the first a letter or digit",
    DOCUMENT_ID: "1 to 200 characters, without '/' and control characters",
    NEW_DOCUMENT_ID: "1 to 200 characters, without '/' and control characters, and neither '.' nor '..'",
    TOKEN_ID: "the number of a token",
    TOOL_NAME: "1 to 64 letters (a to z), digits, '-', '_' or '.'",
    ENTRY_ID: "the id of an entry, as `next` gives it",
}
"""What the ids of requests have to be, for error messages."""

SessionId = Annotated[str, Field(pattern=SESSION_ID)]
DocumentId = Annotated[str, Field(pattern=DOCUMENT_ID)]
NewDocumentId = Annotated[str, Field(pattern=NEW_DOCUMENT_ID)]
