"""The base of the service's and the client's exceptions. Apart, because the client needs no other of the service's."""

from __future__ import annotations


class RagServiceError(Exception):
    """Base of the exceptions that this package raises. The message is a sentence for a person."""
