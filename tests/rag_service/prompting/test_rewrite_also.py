"""Questions whether an answer holds for others, and follow-ups that are put behind the question before."""

from __future__ import annotations

import pytest

from rag_service.prompting.rewriting.also import plainly
from rag_service.prompting.rewriting.beginning import with_place


@pytest.mark.parametrize(
    ("question", "plain"),
    [
        ("Does that apply to groups, too?", "And for groups?"),
        ("does this also apply in Lisbon", "And in Lisbon?"),
        ("And does the same go for the late shift?", "And for the late shift?"),
        ("Gilt das auch für Gruppen?", "Und für Gruppen?"),
        ("Gilt das im Winter auch?", "Und im Winter?"),
        ("Geldt dat ook voor groepen?", "En voor groepen?"),
        ("Est-ce que cela vaut aussi pour les groupes ?", "Et pour les groupes ?"),
        ("¿Eso también se aplica a grupos?", "¿Y para grupos?"),
        ("¿Vale eso también para grupos?", "¿Y para grupos?"),
        ("这也适用于团体吗？", "团体呢？"),
    ],
)
def test_whether_it_holds_for_others_asks_about_them(question: str, plain: str) -> None:
    assert plainly(question) == plain


@pytest.mark.parametrize(
    "question",
    [
        "Gilt das auch, wenn ich krank bin?",
        "Gilt der auch am Wochenende?",
        "Does the discount apply to groups?",
        "Does that apply?",
        "Who has to approve that for groups?",
        "Is that for groups?",
        "Geldt de korting ook voor groepen?",
    ],
)
def test_other_questions_stay_as_they_are(question: str) -> None:
    assert plainly(question) == question


@pytest.mark.parametrize(
    ("before", "question", "meant"),
    [
        (
            "Was passiert, wenn ich 5 Tage vor der Anreise storniere?",
            "Und bei Krankheit?",
            "Was passiert, wenn ich 5 Tage vor der Anreise storniere bei Krankheit?",
        ),
        ("How much is a day in the pool?", "And for groups?", "How much is a day in the pool for groups?"),
        ("Hoeveel kost het zwembad voor kinderen?", "En voor groepen?", "Hoeveel kost het zwembad voor groepen?"),
        ("¿Cuánto cuesta la piscina?", "¿Y para grupos?", "¿Cuánto cuesta la piscina para grupos?"),
        ("How long are backups kept?", "with tax", "How long are backups kept with tax?"),
        ("How much is it for groups?", "And for groups?", None),
        ("How do I export a chart in Plotwise?", "and in gridnest?", None),
        ("How many fit in the blue hall?", "And in Lille?", None),
        ("Was kostet ein Platz im Parkhaus Nord?", "Und in Linz?", None),
        ("May I bring my dog to the pool?", "And for cats?", None),
        ("Darf ich kostenlos stornieren?", "Und bei Krankheit?", "Darf ich kostenlos stornieren bei Krankheit?"),
        ("How long are backups kept?", "And for them?", None),
        ("How long are backups kept?", "And for that?", None),
        ("How long are backups kept?", "And tapes?", None),
        ("How long are backups kept?", "For whom?", None),
        ("Backups?", "For groups?", None),
    ],
)
def test_another_place_is_put_behind_the_question_before(before: str, question: str, meant: str | None) -> None:
    assert with_place(question, [before]) == meant
