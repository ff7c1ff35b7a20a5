"""The package's public names, and what may be imported without loading torch."""

from __future__ import annotations

import subprocess
import sys

import pytest

import decoder
from decoder.drafter_names import DRAFTER_NAMES
from decoder.drafters import DRAFTERS


def test_every_public_name_is_there() -> None:
    assert all(hasattr(decoder, name) for name in decoder.__all__)
    assert decoder.load_engine.__name__ == "load_engine"
    with pytest.raises(AttributeError, match="nothing_like_it"):
        decoder.nothing_like_it  # noqa: B018


def test_the_named_drafters_are_those_that_can_be_made() -> None:
    assert set(DRAFTERS) == set(DRAFTER_NAMES)


def test_names_models_and_errors_load_no_torch() -> None:
    modules = "decoder.catalogue, decoder.drafter_names, decoder.errors, decoder.models"
    code = f"import sys, {modules}; print('torch' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert printed.stdout.strip() == "False"
