"""What a job says of support: how the model is asked whether the passages state the answer, and what follows. Pure.

Knows templates and prompts; the worker asks (`workers/worker/supporter.py`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rag_service.prompting.first_words import openings
from rag_service.prompting.prompt import Prompt
from rag_service.prompting.retrieved import Retrieved
from rag_service.prompting.template import PromptTemplate, parts
from workers.broker.messages import Abstain, Checking
from workers.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class Support:
    """Attributes:
    template: of the question's language.
    language: of the question.
    digest: of all templates.
    abstain: what happens if the passages probably do not answer the question.
    threshold: of answers with a warning.
    """

    template: PromptTemplate
    language: str
    digest: str
    abstain: Abstain
    threshold: float

    def of(
        self, question: str, retrieved: Retrieved, prompt: Prompt, tokens: Tokens, told: Iterable[str] = ()
    ) -> Checking | None:
        """For a question as its user wrote it; None if no passage is in the prompt.

        About a document that was chosen by its name nothing is refused: its passages are there.

        Args:
            told: what the model is told by the client, besides the question.
        """
        if not any(passage.get("in_prompt", True) for passage in prompt.passages):
            return None
        asked, written = retrieved.query or question, parts(self.template.check)
        read = retrieved.in_full(question)
        return Checking(
            question="" if retrieved.whole else asked,  # a summary has few words of the question for it
            language=self.language,
            check=[{"question": asked.strip(), "answer": None}[slot] if slot else text for text, slot in written],
            check_at=after_passages(prompt),
            signals=retrieved.signals,
            prompt="" if retrieved.whole else self.digest,
            abstain="off" if retrieved.whole else self.abstain,
            refusal=self.template.refusal,
            openings=[]
            if retrieved.whole
            else openings(read, self.template.refusal, tokens, (question, *self._forms, *told)),
            doubtful_below=self.threshold,
        )

    @property
    def _forms(self) -> tuple[str, ...]:
        """What an operator, or a request, may tell the model of its answers."""
        return self.template.system, self.template.question

    def of_edit(self, question: str, prompt: Prompt) -> Checking | None:
        """For an edit of an answer to this question: the model is not asked, and nothing is warned of or refused, since
        what the user wanted to be changed need not be in the passages."""
        if not any(passage.get("in_prompt", True) for passage in prompt.passages):
            return None
        return Checking(question=question, language=self.language, prompt=self.digest, abstain="off")


def after_passages(prompt: Prompt) -> int:
    """Index of the segment after the last passage; in a turn without new ones, of the first new content."""
    new = range(prompt.new_from, len(prompt.segments))
    passages = [n for n in new if prompt.segments[n].kind in ("passage", "notes")]
    if passages:
        return passages[-1] + 1
    return next(n for n in new if prompt.segments[n].kind not in ("template", "system"))
