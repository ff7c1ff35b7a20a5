"""One thread: tiny models are slower with more."""

import torch

torch.set_num_threads(1)
