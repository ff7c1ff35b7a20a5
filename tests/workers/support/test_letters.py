"""Letters that name one of several things count as words: certificate B is not certificate A."""

from __future__ import annotations

import pytest

from tests.support.weakest_claim import found
from workers.support.words.vocabulary import Vocabulary

CERTIFICATES = (
    "| Certificate | Price | Members |\n|---|---|---|\n| A Studio | 90 | 60 |\n| B Mobile production | 75 | 25 |\n"
    "| C Live | 120 | 80 |"
)
OVENS = "Oven A costs 30 euros a day. Oven B costs 45 euros a day. Oven C is out of use until June."
ROOMS = "Raum A ist nur für Mitglieder. Raum B steht allen offen. In Raum C wird gebaut."
LOAVES = """| Oven | Loaves | Day | Half day |
|---|---|---|---|
| Oven A | 12 | 30 € | 18 € |
| Oven B | 20 | 45 € | 27 € |"""


@pytest.mark.parametrize(
    ("question", "right", "wrong", "passage"),
    [
        ("What does certificate B cost for members?", "Certificate B costs 25 euros for members.",
         "Certificate B costs 80 euros for members.", CERTIFICATES),
        ("what does certificate b cost for members?", "25 euros", "60", CERTIFICATES),
        ("How much is oven B a day?", "Oven B costs 45 euros a day.", "Oven B costs 30 euros a day.", OVENS),
        ("how much is oven a?", "30 euros", "45 euros", OVENS),
        ("Which oven is out of use?", "Oven C", "Oven A is out of use until June.", OVENS),
        ("Für wen ist Raum B?", "Raum B steht allen offen.", "Raum B ist nur für Mitglieder.", ROOMS),
        ("How many loaves fit in oven B?", "20 loaves fit in oven B.", "12", LOAVES),
        ("What is oven A for half a day?", "Oven A costs 18 euros for half a day.", "27 €", LOAVES),
    ],
)  # fmt: skip
def test_what_is_said_of_another_letter_has_no_evidence(question: str, right: str, wrong: str, passage: str) -> None:
    assert found(question, right, passage).evidence >= 0.6
    assert not found(question, right, passage).denied
    assert found(question, wrong, passage).evidence <= 0.5


@pytest.mark.parametrize(
    ("text", "language", "words"),
    [
        ("Is oven A bigger than oven B?", "en", ["oven", "𝐀", "bigger", "𝐁"]),
        ("| B Mobile production | A |", "en", ["𝐁", "mobil", "product", "𝐀"]),
        ("The certificate B. Then rest.", "en", ["certif", "𝐁", "rest"]),
        ("What Is A Permit For? A VPN helps at 28 °C.", "en", ["permit", "vpn", "help", "28"]),
        ("Halls A to C, A – C, A\nB", "en", ["hall", "𝐀", "𝐁", "𝐂"]),
        ("Kurs A: 6 €, Raum 1B, Ofen b", "de", ["kur", "𝐀", "6", "raum", "1", "𝐁", "ofen"]),
        ("Neem ik oven c of oven a?", "nl", ["oof", "𝐂", "𝐀"]),
    ],
)
def test_a_letter_that_is_a_name_counts(text: str, language: str, words: list[str]) -> None:
    assert Vocabulary(language).of(text) == words


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("A member has a T-shirt and e-mails at 5 L, 20 C or 3 m.", "en"),
        ("THIS IS A TEST by J. B. Smith and Mr. K. Brown.", "en"),
        ("How r u, and what is it.", "en"),
        ("z. B. der e. V., d. h. u. a. auch S. 5", "de"),
        ("U betaalt niets, kunt U zeggen.", "nl"),
        ("A las 10 abre. Y los niños. E Inés. Y Ana u Olga. O Eva.", "es"),
        ("A partir de midi, l'accueil y est.", "fr"),
    ],
)
def test_a_letter_that_is_a_word_a_unit_or_an_initial_does_not(text: str, language: str) -> None:
    assert not [word for word in Vocabulary(language).of(text) if len(word) == 1 and word > "𝐀"]
