"""Why a backup or a restore ends without a result."""

from __future__ import annotations

from rag_service.service_error import RagServiceError


class BackupError(RagServiceError):
    """The file, the source or the target does not allow it; nothing was changed. The message says what to do."""
