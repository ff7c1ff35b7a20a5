"""Values of other groups, rows and clauses than were asked about, exceptions with what holds then, and prices."""

from __future__ import annotations

import pytest

from tests.support.weakest_claim import found
from workers.support.passages.sentences import clauses
from workers.support.words.groups import counts_for_another
from workers.support.words.polarity import words_of
from workers.support.words.units import lacks_price

HOURS = (
    "| Day | Smithy | Museum shop |\n|---|---|---|\n| Tuesday | 10:30 to 16:30 | closed |\n"
    "| Friday | closed | 11:30 to 15:30 |"
)
VISITS = "Each visitor may feed two animals, except on the first Sunday of the month, when only one is allowed."
MONDAYS = "The mill is closed on Mondays, except on public holidays; dogs are not allowed."
CLOSED = "The mill is closed from 20 May to 9 June, except the bakery, which opens on 1 June from 11:00 to 14:00."
TOOLS = (
    "**May helpers take a boat home?** Yes, overnight and without a fee, except the barge and the steam launch Otter."
)
ACCEPTS = "We do not accept car tyres, paint tins and anything with oil in it."
ZAKJES = "Iedereen mag per bezoek drie kaarsen meenemen; leden mogen er zeven meenemen."
BORG = "De borg is 45 euro, voor leden 25 euro."
LOGE = (
    "Een kleine loge kost 19 euro per avond voor leden en 33 euro voor anderen. De avonden duren van 8 maart tot 4 mei."
)
GLOVES = "Scarves are forbidden at the lathe."
FAMILIE = "Kinder unter 12 Jahren sind in der Familienkarte kostenlos dabei."
LEIHEN = "## Leihliste\n\n| Gegenstand | Kaution | Gebühr |\n|---|---|---|\n| Zelt | 75 | 9 |\n| Kanu | 130 | 25 |"
KURSE = (
    "| Kurs | Datum | Leitung | Preis Erwachsene | Preis Kinder |\n|---|---|---|---|---|\n"
    "| Weben | 7. Mai | Ilse Brandt | 38 € | 17 € |\n| Schmieden | 9. Mai | Uwe Tamm | 150 € | 60 € |\n\n"
    "Kinder bis 10 Jahre sind im Sommerfest kostenlos. Anmeldung zu jedem Kurs bei Gerda Löns in der Halle 3."
)
TREFFEN = "Die Hauptversammlung findet jedes Jahr am dritten Montag im Juni statt."
STEP = "## Leenboten\n\nDe borg is 60 euro."


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("Is the museum shop open on Tuesday?", "Yes, the museum shop is open on Tuesday.", HOURS),
        ("When is the smithy open on Friday?", "The smithy is open from 11:30 to 15:30 on Friday.", HOURS),
        ("How many animals may I feed on the first Sunday of the month?",
         "You may feed two animals on the first Sunday of the month.", VISITS),
        ("May helpers take the steam launch Otter overnight without a fee?",
         "Yes, helpers may take the steam launch Otter overnight without a fee.", TOOLS),
        ("Do you accept paint tins?", "Yes, we accept paint tins.", ACCEPTS),
        ("Hoeveel kaarsen mogen leden per bezoek meenemen?", "Leden mogen per bezoek drie kaarsen meenemen.", ZAKJES),
        ("Wat is de borg voor leden?", "De borg voor leden is 45 euro.", BORG),
        ("Wat kost een kleine loge per avond voor leden?", "Een kleine loge kost 33 euro per avond voor leden.", LOGE),
        ("Wat kost een kleine loge per avond voor leden?", "Zij duren van 8 maart tot 4 mei.", LOGE),
        ("Must I wear a scarf at the lathe?", "Yes, scarves are forbidden at the lathe.", GLOVES),
        ("Wie hoch ist die Kaution für den Traktor?", "Die Kaution für den Traktor beträgt 75 €.", LEIHEN),
        ("Wer leitet den Kurs Weben?", "Anmeldung zu jedem Kurs bei Gerda Löns in der Halle 3.", KURSE),
        ("Was kostet der Kurs Weben für Kinder?", "Der Kurs Weben für Kinder ist kostenlos.", KURSE),
        ("Wat is de borg voor een step?", "De borg voor een step is 60 euro.", STEP),
        ("Wann findet der Glaskurs statt?", "Der Glaskurs findet am dritten Montag im Juni statt.", TREFFEN),
    ],
)  # fmt: skip
def test_a_value_of_something_else_is_denied(question: str, answer: str, passage: str) -> None:
    assert found(question, answer, passage).denied


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("When is the smithy open on Tuesday?", "The smithy is open from 10:30 to 16:30 on Tuesday.", HOURS),
        ("Is the smithy open on Tuesday?", "Yes, the smithy is open on Tuesday.", HOURS),
        ("When is the museum shop open on Friday?", "It is open on Friday from 11:30 to 15:30.", HOURS),
        ("How many animals may I feed on the first Sunday of the month?",
         "You may feed one animal on the first Sunday of the month.", VISITS),
        ("Is the mill open on public holidays?", "Yes, the mill is open on public holidays.", MONDAYS),
        ("When does the bakery open in the closed weeks?", "The bakery opens on 1 June from 11:00 to 14:00.", CLOSED),
        ("Do you accept paint tins?", "No, we do not accept paint tins.", ACCEPTS),
        ("Do you accept car tyres?", "No, we do not accept car tyres.", ACCEPTS),
        ("Hoeveel kaarsen mogen leden per bezoek meenemen?", "Leden mogen per bezoek zeven kaarsen meenemen.", ZAKJES),
        ("Wat is de borg voor leden?", "De borg voor leden is 25 euro.", BORG),
        ("Wat kost een kleine loge per avond voor leden?", "Een kleine loge kost 19 euro per avond voor leden.", LOGE),
        ("Sind Kinder unter 12 Jahren in der Familienkarte kostenlos?",
         "Ja, Kinder unter 12 Jahren sind in der Familienkarte kostenlos dabei.", FAMILIE),
        ("Wann findet die Versammlung statt?", "Die Versammlung findet am dritten Montag im Juni statt.", TREFFEN),
        ("Wie hoch ist die Kaution für das Kanu?", "Die Kaution für das Kanu beträgt 130 €.", LEIHEN),
        ("Wer leitet den Kurs Weben für Kinder?", "Ilse Brandt leitet den Kurs Weben für Kinder.", KURSE),
        ("Was kostet der Kurs Weben für Kinder?", "Der Kurs Weben für Kinder kostet 17 €.", KURSE),
    ],
)  # fmt: skip
def test_its_own_value_is_not(question: str, answer: str, passage: str) -> None:
    one = found(question, answer, passage)
    assert not one.denied
    assert one.evidence >= 0.3


def test_a_part_without_a_group_is_about_one_before_it_and_none_behind_it() -> None:
    text = "Members pay 4 euros for a day and 11 euros for a week; guests pay 6 euros."
    asked = words_of("What do members pay for a week?")
    assert not counts_for_another(words_of("11 euros for a week"), asked, text)
    assert counts_for_another(words_of("6 euros"), asked, text)
    asked = words_of("What do guests pay?")
    assert counts_for_another(words_of("4 euros"), asked, text)
    assert not counts_for_another(words_of("6 euros"), asked, text)
    assert not counts_for_another(words_of("4 euros"), words_of("What does one pay?"), text)


@pytest.mark.parametrize(
    ("answer", "lacks"),
    [
        ("The season lasts from 3 May to 30 September.", True),
        ("It opens at 10:30 o'clock.", True),
        ("The porter has the key.", True),
        ("It costs 12 euros from 3 May on.", False),
        ("£26", False),
        ("Entry is free.", False),
        ("That depends on the season.", False),
    ],
)
def test_a_price_is_a_number_of_no_date_or_a_word_for_it(answer: str, lacks: bool) -> None:
    assert lacks_price(words_of(answer), words_of("What does entry cost?")) is lacks
    for other in ("When does the season end?", "What is included in the cost of entry?", "What costs extra?"):
        assert not lacks_price(words_of(answer), words_of(other))


def test_commas_colons_and_dashes_of_numbers_part_no_clauses() -> None:
    assert clauses("Open from 10:30 to 16:00–18:00, but not in May; 1,50 euros and a deposit") == [
        "Open from 10:30 to 16:00–18:00",
        "but not in May",
        "1,50 euros and a deposit",
    ]
