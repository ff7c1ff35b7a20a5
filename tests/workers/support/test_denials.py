"""Answers that passages deny in other sentences, rows and words than those that they rest on, and their right ones."""

from __future__ import annotations

import pytest

from retriever.languages import language_of
from workers.support.evidence import Evidence

AGES = "The canoe is lent only to people who are 14 or older. Children under 10 may only swim with an adult."
ZELT = "Kinder unter 6 Jahren dürfen nicht in das Zelt. Jugendliche unter 16 Jahren dürfen nur mit Eltern in das Zelt."
HELPEN = "Wie als gids wil helpen, moet minstens 18 jaar zijn. Voor de winkel geldt een minimumleeftijd van 15 jaar."
HOURS = (
    "## Opening hours\n\n| Day | Museum | Café |\n|---|---|---|\n| Tuesday | closed | closed |\n"
    "| Thursday | 10:30 to 17:30 | 12:00 to 16:00 |\n\nOn Shrove Tuesday the museum is open from 13:00 to 18:00."
)
TOWER = "The tower is open on weekends from 15:00. It is not open in March and November."
PREISE = "Schüler erhalten 20 Prozent Nachlass, außer auf den Kurs Töpfern."
ABSAGE = "Wer bis 14 Tage vor Beginn absagt, bekommt alles zurück; danach wird die Hälfte erstattet."
DUES = "## Duties\n\nEvery member mows the lawn twice a year. Founders are exempt from mowing the lawn."
VISITORS = "A member may bring three visitors per day. In August, one visitor only."
ROCKS = "Climbing on the Needle Rock is forbidden. On the low wall you may climb when the green flag is up."
BOATS = (
    "## Boats\n\n| Boat | Per day | Deposit |\n|---|---|---|\n| Kayak | 12.00 | 30 |\n| Raft | 20.00 | 50 |\n\n"
    "A lost kayak paddle costs 45 euros."
)
LEAVING = "## Leaving the club\n\nNotice must be given in writing by 31 October.\n\n"
WATER = "## Safety\n\nIn a storm everyone must leave the lake at once."
PEGEL = "Der Teich ist beliebt. Ein Rundgang dauert 45 Minuten."
PHOTOS = "Filming for private use is allowed. In the Amber Hall filming is forbidden altogether."
HOLIDAYS = "On public holidays the mill is closed, except on Boxing Day, when it is open from 12:00 to 16:00."
FINE = "For a late return a fine of 3 euros per day is charged, but never more than 25 euros."
GROUPS = "Groups of 12 to 29 people get 10 % off; groups of 30 or more get 15 % off."
WART = "Der Gärtner heißt Ulf Brömmel und ist montags im Haus."
OFFICE = "| Day | Office |\n|---|---|\n| Monday to Wednesday | 8:00 to 12:00 |\n| Thursday | closed |"
SCHUUR = "De schuur is open tot 21.00 uur, op vrijdag tot 23.00 uur. Op zondag wordt de schuur niet verhuurd."
GEBIED = "Een jaarkaart kost 30 euro. Jongeren tot en met 18 jaar betalen 14 euro voor een jaarkaart."
KURSE = (
    "| Kurs | Dauer | Preis |\n|---|---|---|\n| Löten | 3 Stunden | 55 Euro |\n\n"
    "Mitglieder zahlen für Kurse 10 % weniger."
)
SHOWS = "| event | start | place | price |\n|---|---|---|---|\n| Puppet Night | 18:45 | Barn | £11 |"
SMOKING = "Koken is nergens toegestaan."
ARCHIV = "In den Winterferien bleibt das Archiv geschlossen, außer am letzten Montag der Ferien."
KEYS = "Een pas krijgen alleen leden die langer dan een jaar meedoen, behalve de penningmeester."
COURSES = (
    "| course | day | age | places |\n|---|---|---|---|\n| Felt mice | Monday | 5-8 | 11 |\n"
    "| Paper kites | Friday | 9-14 | 8 |"
)
LIST = "1. Dogs stay outside.\n\n4. When the danger level is 4 or higher, no fires are lit at all."


@pytest.mark.parametrize(
    ("question", "wrong", "right", "passages"),
    [
        (
            "May I borrow the canoe if I am 13?",
            "Yes, you may borrow the canoe if you are 13.",
            "No, the canoe is lent only to people who are 14 or older.",
            [AGES],
        ),
        (
            "May a 9-year-old swim?",
            "Yes, a 9-year-old may swim.",
            "Yes, a 9-year-old may swim with an adult.",
            [AGES],
        ),
        (
            "Darf ein Kind von 5 Jahren in das Zelt?",
            "Ja, ein Kind von 5 Jahren darf in das Zelt.",
            "Nein, Kinder unter 6 Jahren dürfen nicht in das Zelt.",
            [ZELT],
        ),
        (
            "Ik ben 17. Mag ik als gids helpen?",
            "Ja, je mag als gids helpen.",
            "Nee, wie als gids wil helpen, moet minstens 18 jaar zijn.",
            [HELPEN],
        ),
        (
            "Is the museum open on Tuesdays?",
            "Yes, the museum is open on Tuesdays.",
            "No, the museum is closed on Tuesdays.",
            [HOURS],
        ),
        ("When does the café close on Thursday?", "It closes at 12:00.", "It closes at 16:00.", [HOURS]),
        ("When does the museum open on Thursday?", "It opens at 17:30.", "It opens at 10:30.", [HOURS]),
        (
            "Is the tower open in March?",
            "Yes, the tower is open on weekends from 15:00.",
            "No, the tower is not open in March and November.",
            [TOWER],
        ),
        (
            "Bekommen Schüler Nachlass auf den Kurs Töpfern?",
            "Schüler erhalten 20 Prozent Nachlass auf den Kurs Töpfern.",
            "Nein, Schüler bekommen keinen Nachlass auf den Kurs Töpfern.",
            [PREISE],
        ),
        (
            "Ich sage 5 Tage vor Beginn ab. Was bekomme ich zurück?",
            "Wenn Sie bis 14 Tage vor Beginn absagen, bekommen Sie alles zurück.",
            "Danach wird die Hälfte erstattet.",
            [ABSAGE],
        ),
        (
            "Must founders mow the lawn?",
            "Yes, founders must mow the lawn.",
            "No, founders are exempt from mowing the lawn.",
            [DUES],
        ),
        ("How many visitors may a member bring in August?", "Three visitors.", "One visitor.", [VISITORS]),
        (
            "May I climb on the Needle Rock?",
            "Yes, on the low wall you may climb when the green flag is up.",
            "No, climbing on the Needle Rock is forbidden.",
            [ROCKS],
        ),
        ("What is the deposit for a kayak?", "The deposit for a kayak is 45 euros.", "30 euros.", [BOATS]),
        (
            "When must we leave the lake?",
            "Notice must be given in writing by 31 October.",
            "In a storm everyone must leave the lake at once.",
            [LEAVING, WATER],
        ),
        ("Wie tief ist der Teich?", "Der Teich ist 45 Minuten tief.", "", [PEGEL]),
        (
            "May I film in the Amber Hall?",
            "Filming for private use is allowed.",
            "In the Amber Hall filming is forbidden altogether.",
            [PHOTOS],
        ),
        (
            "Is the mill open on Boxing Day?",
            "No, the mill is closed on Boxing Day.",
            "Yes, the mill is open on Boxing Day.",
            [HOLIDAYS],
        ),
        (
            "Ich sage 3 Tage vorher ab. Was bekomme ich zurück?",
            "Wer bis 14 Tage vor Beginn absagt, bekommt alles zurück.",
            "Die Hälfte wird erstattet.",
            [ABSAGE],
        ),
        (
            "Is the office open on Thursdays?",
            "Yes, the office is open on Thursdays.",
            "No, the office is closed on Thursdays.",
            [OFFICE],
        ),
        ("Tot hoe laat is de schuur op zondag open?", "De schuur is open tot 21.00 uur.", "", [SCHUUR]),
        (
            "Ik ben 16 jaar. Wat kost een jaarkaart?",
            "Een jaarkaart kost 30 euro.",
            "Jongeren tot en met 18 jaar betalen 14 euro.",
            [GEBIED],
        ),
        (
            "We are a group of 31 people. Which discount do we get?",
            "We get 10 % off.",
            "We get 15 % off.",
            [GROUPS],
        ),
        ("Was kostet der Kurs Löten für Mitglieder?", "Der Kurs Löten kostet 55 Euro.", "", [KURSE]),
        ("Mag ik koken?", "Ja, koken is toegestaan.", "Nee, koken is nergens toegestaan.", [SMOKING]),
        (
            "Ist das Archiv am letzten Montag der Winterferien geöffnet?",
            "Nein, am letzten Montag der Winterferien ist das Archiv nicht geöffnet.",
            "Ja, am letzten Montag der Winterferien ist das Archiv geöffnet.",
            [ARCHIV],
        ),
        (
            "Krijgt de penningmeester een pas?",
            "Nee, de penningmeester krijgt geen pas.",
            "Het antwoord is: Ja, de penningmeester krijgt een pas.",
            [KEYS],
        ),
        (
            "Which courses can an 11-year-old attend?",
            "The Felt mice course is for 11-year-olds.",
            "The Paper kites course is for 11-year-olds.",
            [COURSES],
        ),
        ("Wie hoch ist der Lohn des Gärtners?", "Der Gärtner heißt Ulf Brömmel.", "", [WART]),
        (
            "Are fires allowed at danger level 4?",
            "Yes, fires are allowed at danger level 4.",
            "No fires are lit at all when the danger level is 4 or higher.",
            [LIST],
        ),
    ],
)
def test_what_the_passages_deny_is_denied(question: str, wrong: str, right: str, passages: list[str]) -> None:
    evidence = Evidence(question, passages, language_of(question))
    assert evidence.of_answer([wrong])[0].denied
    if right:
        found = evidence.of_answer([right])[0]
        assert not found.denied
        assert found.evidence > 0.15


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("May I borrow the canoe if I am 15?", "Yes, you may borrow the canoe if you are 15.", AGES),
        ("Ik ben 19. Mag ik als gids helpen?", "Ja, je mag als gids helpen.", HELPEN),
        ("Ik ben 16. Mag ik in de winkel helpen?", "Ja, je mag in de winkel helpen.", HELPEN),
        ("Is the museum open on Shrove Tuesday?", "Yes, the museum is open on Shrove Tuesday.", HOURS),
        ("Is the museum open on Thursdays?", "Yes, the museum is open on Thursdays.", HOURS),
        ("When is the museum open on Thursday?", "From 10:30 to 17:30.", HOURS),
        ("Is the tower open on weekends?", "Yes, the tower is open on weekends from 15:00.", TOWER),
        ("Wie viel Nachlass erhalten Schüler?", "20 Prozent.", PREISE),
        (
            "Ich sage 20 Tage vor Beginn ab. Was bekomme ich zurück?",
            "Wer bis 14 Tage vor Beginn absagt, bekommt alles zurück.",
            ABSAGE,
        ),
        (
            "Ich sage 5 Tage vor Beginn ab. Was bekomme ich zurück?",
            "Wer bis 14 Tage vor Beginn absagt, bekommt alles zurück; danach wird die Hälfte erstattet.",
            ABSAGE,
        ),
        ("Must members mow the lawn?", "Yes, every member mows the lawn twice a year.", DUES),
        ("How many visitors may a member bring per day?", "Three visitors per day.", VISITORS),
        ("May I climb on the low wall?", "Yes, when the green flag is up.", ROCKS),
        ("What does a lost kayak paddle cost?", "45 euros.", BOATS),
        ("What does a kayak cost per day?", "12 euros.", BOATS),
        ("What is the highest fine for a late return?", "The highest fine for a late return is 25 euros.", FINE),
        ("We are 31 people. Which discount do we get?", "We get 15 % off.", GROUPS),
        ("Is the office open on Tuesdays?", "Yes, the office is open on Tuesdays.", OFFICE),
        ("Tot hoe laat is de schuur op vrijdag open?", "De schuur is open tot 23.00 uur.", SCHUUR),
        ("Ik ben 40 jaar. Wat kost een jaarkaart?", "Een jaarkaart kost 30 euro.", GEBIED),
        ("Was kostet der Kurs Löten?", "Der Kurs Löten kostet 55 Euro.", KURSE),
        ("What does the Puppet Night cost and when does it start?", "It costs £11 and starts at 18:45.", SHOWS),
        ("Is the mill open on public holidays?", "No, on public holidays the mill is closed.", HOLIDAYS),
    ],
)
def test_what_they_state_is_not(question: str, answer: str, passage: str) -> None:
    found = Evidence(question, [passage], language_of(question)).of_answer([answer])[0]
    assert not found.denied
    assert found.evidence > 0.15


SHOP = """\
# Hours

The farm shop is open daily except Thursday from 9 to 12. The office is open from 8.30 to 17 o'clock; on Fridays it is
closed from 15 o'clock. Bikes are not allowed in the barn, except for repairs.

Guests may bring their own wine to the hall, but fireworks are prohibited on the whole farm.
"""
LADEN = """\
# Öffnungszeiten

Die Mühle ist vom 2. April bis zum 30. Oktober geöffnet.

Der Mühlenladen ist nur vom 1. Juni bis zum 31. August geöffnet. Je Gruppe ist eine Kaution von 30 Euro fällig.
"""


@pytest.mark.parametrize(
    ("question", "answers", "passage", "language", "denied"),
    [
        ("Is the farm shop open on Thursdays?",
         ["Yes, the farm shop is open on Thursdays, daily except Thursday from 9 to 12."], SHOP, "en", True),
        ("Is the farm shop open on Mondays?",
         ["Yes, the farm shop is open daily except Thursday from 9 to 12."], SHOP, "en", False),
        ("May I take my bike into the barn?", ["Yes, bikes are not allowed in the barn, except for repairs."],
         SHOP, "en", True),
        ("May I bring my own wine to the hall?",
         ["Yes, guests may bring their own wine to the hall, but fireworks are prohibited on the whole farm."],
         SHOP, "en", False),
        ("May I light fireworks on the farm?", ["Yes, but fireworks are prohibited on the whole farm."],
         SHOP, "en", True),
        ("Is the office open on Fridays at 16 o'clock?",
         ["Yes, the office is open from 8.30 to 17 o'clock.", "On Fridays it is closed from 15 o'clock."],
         SHOP, "en", True),
        ("Ist der Mühlenladen im Oktober geöffnet?", ["Ja, der Mühlenladen ist im Oktober geöffnet."],
         LADEN, "de", True),
        ("Ist die Mühle im Oktober geöffnet?", ["Ja, die Mühle ist im Oktober geöffnet."], LADEN, "de", False),
        ("Wie hoch ist die Kaution?", ["Die Kaution beträgt 30 Euro je Nacht."], LADEN, "de", True),
        ("Wie hoch ist die Kaution?", ["Die Kaution beträgt 30 Euro je Gruppe."], LADEN, "de", False),
        ("Wie hoch ist die Kaution?", ["Die Kaution beträgt 30 Euro."], LADEN, "de", False),
        ("What is a bike?", ["A bike costs 12 euros per day."], "A bike costs 12 euros per 24 hours.", "en", False),
        ("Was kostet es?", ["Es kostet 12 Euro pro Jahr."], "Es kostet 12 Euro pro Kalenderjahr.", "de", False),
    ],
)  # fmt: skip
def test_what_speaks_against_an_answer(
    question: str, answers: list[str], passage: str, language: str, denied: bool
) -> None:
    assert any(one.denied for one in Evidence(question, [passage], language).of_answer(answers)) is denied


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("Are bikes allowed on the train?", "Yes, bikes are allowed with no extra ticket.",
         "Bikes are allowed on the train with no extra ticket."),
        ("Can I cancel my booking?", "Yes, you can cancel at any time without giving reasons.",
         "You can cancel your booking at any time without giving reasons."),
        ("Is fishing allowed?", "Yes, fishing is allowed, though not at night.",
         "Fishing is allowed, though not at night."),
        ("Are dogs allowed?", "Yes, dogs are allowed, they are not allowed in the dining room.",
         "Dogs are allowed on a lead. Dogs are not allowed in the dining room."),
        ("Ist Angeln erlaubt?", "Ja, Angeln ist erlaubt, nur nicht nachts.", "Angeln ist erlaubt, nur nicht nachts."),
        ("Is vissen toegestaan?", "Ja, vissen is toegestaan, alleen niet 's nachts.",
         "Vissen is toegestaan, alleen niet 's nachts."),
        ("What is the price?", "12 euros per person.", "The price is 12 euros per adult."),
        ("What is the price per car?", "The price is 30 euros per car.", "The price is 30 euros per vehicle."),
        ("Was kostet das Boot?", "15 Euro pro Stunde.", "Das Boot kostet 15 Euro pro Std."),
    ],
)  # fmt: skip
def test_right_answers_that_a_review_found_denied(question: str, answer: str, passage: str) -> None:
    assert not Evidence(question, [passage], language_of(question)).of(answer).denied


@pytest.mark.parametrize(
    ("question", "answer", "passage"),
    [
        ("May 4 people share a tent?", "Yes, 4 people may share a tent.",
         "From 1 May to 30 September, up to 3 people may share a tent."),
        ("Is the museum open on 12 June?", "No, the museum is not open from 1 May to 10 June.",
         "The museum is open from 1 May to 10 June."),
    ],
)  # fmt: skip
def test_wrong_answers_that_a_review_found_passed(question: str, answer: str, passage: str) -> None:
    assert Evidence(question, [passage], language_of(question)).of(answer).denied
