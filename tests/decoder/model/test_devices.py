"""Devices that torch cannot use are refused before weights are loaded, with what to do."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from decoder.load import load_engine
from decoder.model.devices import check_device, device_problem


@pytest.fixture
def gpus(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Two GPUs."""
    monkeypatch.setattr(torch.version, "cuda", "12.9")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    return monkeypatch


@pytest.mark.usefixtures("gpus")
def test_devices_that_are_there() -> None:
    assert [device_problem(device) for device in ("cpu", "cuda", "cuda:0", "cuda:1")] == [None] * 4


@pytest.mark.usefixtures("gpus")
def test_a_number_too_high_is_told_with_those_there_are() -> None:
    assert device_problem("cuda:2") == "there is no cuda:2: torch finds 2 GPUs, cuda:0 to cuda:1"


def test_a_torch_without_cuda_and_a_machine_without_gpu_are_told_apart(gpus: pytest.MonkeyPatch) -> None:
    gpus.setattr(torch.cuda, "is_available", lambda: False)
    assert "finds no GPU" in (device_problem("cuda") or "")
    gpus.setattr(torch.version, "cuda", None)
    gpus.setattr(torch.version, "hip", None)
    assert (device_problem("cuda") or "").startswith("this torch has no CUDA: ")


def test_a_device_that_is_none() -> None:
    with pytest.raises(ValueError, match="no device 'gpu'; choose cpu, cuda or cuda:N"):
        check_device("gpu")


def test_engines_refuse_before_they_look_for_weights(gpus: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gpus.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match="finds no GPU"):
        load_engine(str(tmp_path / "nothing"), device="cuda")
