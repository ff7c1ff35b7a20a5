"""`decoder.model.devices` for rag_service, which may not import modules that load torch. Imports torch."""

from __future__ import annotations

from decoder.model.devices import device_problem

__all__ = ["device_problem"]
