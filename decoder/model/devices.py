"""Whether torch can use a device, said before weights are loaded. Knows torch's build and its devices, no models."""

from __future__ import annotations

import torch


def trouble(device: str) -> str | None:
    """Why a model cannot run on `device`, and what to do; None where it can.

    Args:
        device: "cpu", "cuda", "cuda:1", ...
    """
    try:
        wanted = torch.device(device)
    except RuntimeError:
        return f"there is no device {device!r}; it is cpu, cuda or cuda:N"
    if wanted.type != "cuda":
        return None
    if not torch.cuda.is_available():
        if torch.version.cuda is None and torch.version.hip is None:
            advice = "install a torch built for CUDA (docs/how-to/gpu-workers.md), or choose the device cpu"
            return f"this torch has no CUDA: {torch.__version__} is built for CPUs alone; {advice}"
        return "torch finds no GPU: see whether `nvidia-smi` lists one and the driver is new enough, or choose cpu"
    found = torch.cuda.device_count()
    if wanted.index is not None and wanted.index >= found:
        return f"there is no {device}: torch finds {found} GPU{'s' * (found != 1)}, cuda:0 to cuda:{found - 1}"
    return None


def check_device(device: str) -> None:
    """Raises ValueError where a model cannot run on `device`; the message says what to do."""
    if (said := trouble(device)) is not None:
        raise ValueError(said)
