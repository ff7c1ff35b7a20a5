"""`decoder.model.devices` for rag_service, which must not import the decoder. Imports torch."""

from __future__ import annotations

from decoder.model.devices import trouble

__all__ = ["trouble"]
