"""What can go wrong in the decoder, each with a sentence that says what to do.

DecoderError
├── PromptError (also a ValueError)
│   ├── EmptyPrompt
│   ├── InvalidToken
│   └── PromptTooLong
├── UnknownDrafter (also a ValueError)
├── DrafterUnavailable (also a ValueError)
├── EagleHeadError (also a ValueError)
├── AdaptersError (also a ValueError)
└── UnsupportedModel
"""

from __future__ import annotations


class DecoderError(Exception):
    """Base of all errors this package raises on purpose."""


class PromptError(DecoderError, ValueError):
    """The prompt cannot be answered by this model."""


class EmptyPrompt(PromptError):
    def __init__(self) -> None:
        super().__init__("the prompt is empty; give at least one token")


class InvalidToken(PromptError):
    def __init__(self, token: int, vocab_size: int) -> None:
        super().__init__(
            f"token id {token} is outside the model's vocabulary of {vocab_size}; "
            "tokenize with the tokenizer that belongs to this model"
        )


class PromptTooLong(PromptError):
    def __init__(self, prompt_tokens: int, max_tokens: int, window: int) -> None:
        super().__init__(
            f"{prompt_tokens} prompt tokens and max_tokens {max_tokens} exceed the model's window of {window}; "
            "shorten the prompt, retrieve fewer passages or lower max_tokens"
        )
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.window = window


class UnknownDrafter(DecoderError, ValueError):
    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no drafter {name!r}; choose one of {', '.join(known)}")


class DrafterUnavailable(DecoderError, ValueError):
    """The drafter is known, but this engine lacks what it needs; the message says what and how to get it."""

    def __init__(self, drafter: str, reason: str) -> None:
        super().__init__(f"drafter {drafter!r} cannot be used here: {reason}")


class EagleHeadError(DecoderError, ValueError):
    """A draft head cannot be read, or does not fit the target model."""


class AdaptersError(DecoderError, ValueError):
    """SDSAT adapters cannot be read, or were trained for another model."""


class UnsupportedModel(DecoderError):
    """The model cannot be run losslessly with draft trees."""
