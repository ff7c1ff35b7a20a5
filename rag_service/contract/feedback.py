"""Feedback on an answer: a rating, and a comment if wanted."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from rag_service.contract.json_body import RequestBody, ResponseBody

COMMENT_CHARS = 4000
"""Longest comment, in code points."""


Rating = Literal["up", "down"]


class FeedbackRequest(RequestBody):
    rating: Rating = Field(description="`up`: a good answer. `down`: a bad one.")
    comment: str = Field(default="", max_length=COMMENT_CHARS, description="What was good or bad about it.")

    @field_validator("comment")
    @classmethod
    def _stripped(cls, comment: str) -> str:
        return comment.strip()


class FeedbackOut(ResponseBody):
    answer_id: str
    rating: Rating
    comment: str
    created: float = Field(description="When it was given, in seconds since 1970.")
