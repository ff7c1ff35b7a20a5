"""`model.devices` for those who may not import the decoder: whether a worker could use a device. Imports torch."""

from __future__ import annotations

from decoder.model.devices import device_problem

__all__ = ["device_problem"]
