"""Checks whether torch can use a device, before weights are loaded. Knows torch's build and devices; no models."""

from __future__ import annotations

import torch


def device_problem(device: str) -> str | None:
    """Why a model cannot run on `device`, and what to do; None if it can.

    Args:
        device: "cpu", "cuda", "cuda:1", ...
    """
    try:
        torch_device = torch.device(device)
    except RuntimeError:
        return f"there is no device {device!r}; choose cpu, cuda or cuda:N"
    if torch_device.type != "cuda":
        return None
    if not torch.cuda.is_available():
        if torch.version.cuda is None and torch.version.hip is None:
            advice = "install a torch built for CUDA (docs/how-to/gpu-workers.md), or choose the device cpu"
            return f"this torch has no CUDA: {torch.__version__} is built for CPUs alone; {advice}"
        return "torch finds no GPU: check that `nvidia-smi` lists one and the driver is new enough, or choose cpu"
    count = torch.cuda.device_count()
    if torch_device.index is not None and torch_device.index >= count:
        return f"there is no {device}: torch finds {count} GPU{'s' * (count != 1)}, cuda:0 to cuda:{count - 1}"
    return None


def check_device(device: str) -> None:
    """Check that a model can run on `device`.

    Raises:
        ValueError: it cannot; the message says what to do.
    """
    if (problem := device_problem(device)) is not None:
        raise ValueError(problem)
