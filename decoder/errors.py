"""The decoder's errors. Each message says what to do.

DecoderError
├── PromptError (also a ValueError)
│   ├── EmptyPrompt
│   ├── InvalidToken
│   └── PromptTooLong
├── UnknownDrafter (also a ValueError)
├── DrafterUnavailable (also a ValueError)
├── EagleHeadError (also a ValueError)
├── AdaptersError (also a ValueError)
├── BitwiseUnavailable (also a ValueError)
└── UnsupportedModel
"""

from __future__ import annotations


class DecoderError(Exception):
    """Base class of all errors that this package defines."""


class PromptError(DecoderError, ValueError):
    """The model cannot answer this prompt."""


class EmptyPrompt(PromptError):
    """The prompt has no tokens."""

    def __init__(self) -> None:
        super().__init__("the prompt is empty; give at least one token")


class InvalidToken(PromptError):
    """A token id is outside the model's vocabulary."""

    def __init__(self, token: int, vocab_size: int) -> None:
        super().__init__(
            f"token id {token} is outside the model's vocabulary of {vocab_size}; "
            "tokenize with the model's own tokenizer"
        )


class PromptTooLong(PromptError):
    """The prompt and its answer exceed the model's window."""

    def __init__(self, prompt_tokens: int, max_tokens: int, window: int) -> None:
        super().__init__(
            f"{prompt_tokens} prompt tokens and max_tokens {max_tokens} exceed the model's window of {window}; "
            "shorten the prompt, retrieve fewer passages or lower max_tokens"
        )
        self.prompt_tokens = prompt_tokens
        self.max_tokens = max_tokens
        self.window = window


class UnknownDrafter(DecoderError, ValueError):
    """There is no drafter of this name."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(f"there is no drafter {name!r}; choose one of {', '.join(known)}")


class DrafterUnavailable(DecoderError, ValueError):
    """The engine lacks something that the drafter needs; the message says what, and how to get it."""

    def __init__(self, drafter: str, reason: str) -> None:
        super().__init__(f"drafter {drafter!r} cannot be used here: {reason}")


class EagleHeadError(DecoderError, ValueError):
    """An EAGLE head cannot be read, or does not fit the target model."""


class AdaptersError(DecoderError, ValueError):
    """The SDSAT adapters cannot be read, or were trained for another model."""


class BitwiseUnavailable(DecoderError, ValueError):
    """Passes whose bits do not depend on their other rows are not possible with this model here."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"bitwise passes are not possible: {reason}")


class UnsupportedModel(DecoderError):
    """The model cannot run losslessly with draft trees."""
