"""Int8 models give plain's tokens: without exception in float64, else up to near-ties of plain's own choice."""

from __future__ import annotations

import functools
import random

import pytest
import torch

from decoder import Engine, Sequence
from decoder.bench.decode.divergence import margin_at
from decoder.model.int8_linear import Kernels, multiplies_bfloat16, quantise
from decoder.model.target import TargetModel
from tests.decoder.test_lossless import DRAFTERS, MODES, PROMPTS, VOCAB, build, equipment_of, letters, prompts
from tests.support.tiny_models import decoded, tiny_model
