"""What holds with something else only, what exceptions are made of, and sentences that take a yes back."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence

SHOP = "In de winkel betaal je alleen met pin. De kantine neemt wel contant geld aan."
HOURS = "Op feestdagen is de winkel dicht, behalve op Tweede Paasdag. In januari is de winkel alleen op zaterdag open."
PARKING = "Parkplätze gibt es am Fest nicht, außer für Gehbehinderte am Tor 2. Gäste zahlen 6 Euro."
TABLE = "# De winkel\n\n| Dag | Open |\n|---|---|\n| Woensdag | 14:00 tot 17:00 |\n| Zaterdag | 9:30 tot 13:00 |\n"
TOOLS = (
    "| Tool | Fee per day | Deposit | Longest loan | Members only |\n|---|---|---|---|---|\n"
    "| Tiller | 14 euros | 60 euros | 2 days | yes |\n| Hedge trimmer | 5 euros | 30 euros | 3 days | no |\n"
)
WATER = "| Verbrauch | Preis je Kubikmeter |\n|---|---|\n| bis 20 m³ | 2,10 Euro |\n| über 20 m³ | 3,40 Euro |\n"
KITCHEN = "Members get 15 percent off all rooms except the kitchen. It opens at 8."
FAIR = "Parkeren is gratis voor bezoekers, behalve tijdens de markt: dan kost het € 4 per dag."
CLAY = "Beim Töpfern kommen 15 € für Ton und Brennen dazu.\n\n| Kurs | Preis |\n|---|---|\n| Töpfern | 120 € |\n"
POND = "Ist ein Spielplatz näher als 20 Meter, muss der Teich eingezäunt werden."


def denied(question: str, answer: str, passage: str, language: str) -> bool:
    return Evidence(question, [passage], language).of(answer).denied


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language"),
    [
        ("Kan ik in de winkel contant betalen?", "Ja, je kan in de winkel contant betalen.", SHOP, "nl"),
        ("Is de winkel open op feestdagen?", "Ja, de winkel is open op feestdagen, behalve op Tweede Paasdag.",
         HOURS, "nl"),
        ("Dürfen Gäste beim Fest parken?", "Ja, Gäste können beim Fest parken, außer für Gehbehinderte am Tor 2.",
         PARKING, "de"),
        ("Wanneer is de winkel open?", "De winkel is open van woensdag t/m zaterdag van 9:30 tot 13:00.", TABLE, "nl"),
        ("What is the deposit for the hedge trimmer and how long can I keep it?",
         "The deposit for the hedge trimmer is 60 euros, and it can be kept for 2 days.", TOOLS, "en"),
        ("Was kostet der Kubikmeter, wenn ich mehr als 20 m³ verbrauche?", "Der Kubikmeter kostet 2,10 Euro.",
         WATER, "de"),
        ("Do members get a discount on the kitchen?", "Yes, members get 15 percent off all rooms except the kitchen.",
         KITCHEN, "en"),
        ("Is parkeren gratis tijdens de markt?", "Ja, parkeren is gratis tijdens de markt.", FAIR, "nl"),
        ("Was kostet der Töpferkurs?", "Der Töpferkurs kostet 15 € für Ton und Brennen.", CLAY, "de"),
        ("Muss ich den Teich einzäunen, wenn ein Spielplatz 25 Meter weg ist?",
         "Ja, der Teich muss eingezäunt werden.", POND, "de"),
    ],
)  # fmt: skip
def test_it_is_denied(question: str, answer: str, passage: str, language: str) -> None:
    assert denied(question, answer, passage, language)


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language"),
    [
        ("Kan ik in de winkel met pin betalen?", "Ja, in de winkel betaal je met pin.", SHOP, "nl"),
        ("Kan ik in de kantine contant betalen?", "Ja, de kantine neemt contant geld aan.", SHOP, "nl"),
        ("Is de winkel dicht op feestdagen?", "Ja, op feestdagen is de winkel dicht, behalve op Tweede Paasdag.",
         HOURS, "nl"),
        ("Is de winkel op zaterdag open?", "Ja, de winkel is op zaterdag open van 9:30 tot 13:00.", TABLE, "nl"),
        ("What is the deposit for the hedge trimmer and how long can I keep it?",
         "The deposit for the hedge trimmer is 30 euros, and it can be kept for 3 days.", TOOLS, "en"),
        ("Was kostet der Kubikmeter, wenn ich mehr als 20 m³ verbrauche?",
         "Der Kubikmeter kostet 3,40 Euro, wenn ich mehr als 20 m³ verbrauche.", WATER, "de"),
        ("Do members get a discount on rooms?", "Yes, members get 15 percent off all rooms except the kitchen.",
         KITCHEN, "en"),
        ("Kost parkeren iets tijdens de markt?", "Ja, parkeren kost tijdens de markt € 4 per dag.", FAIR, "nl"),
        ("Is parkeren gratis voor bezoekers?", "Ja, parkeren is gratis voor bezoekers.", FAIR, "nl"),
        ("Was kommt beim Töpfern für Ton dazu?", "Beim Töpfern kommen 15 € für Ton und Brennen dazu.", CLAY, "de"),
        ("Was kostet Töpfern?", "Töpfern kostet 120 €.", CLAY, "de"),
        ("Muss ich den Teich einzäunen, wenn ein Spielplatz 15 Meter weg ist?",
         "Ja, der Teich muss eingezäunt werden, wenn der Spielplatz 15 Meter weg ist.", POND, "de"),
    ],
)  # fmt: skip
def test_it_is_not_denied(question: str, answer: str, passage: str, language: str) -> None:
    assert not denied(question, answer, passage, language)


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language"),
    [
        ("When is the office open?", "The office is open from Monday to Friday.", "The office is open Mon-Fri.", "en"),
        ("When is it open?", "It is open from Monday to Sunday.", "It is open every day.", "en"),
        ("Wann ist das Büro offen?", "Das Büro ist von Montag bis Freitag offen.", "Das Büro ist Mo-Fr offen.", "de"),
        ("Wann ist es offen?", "Es ist von Montag bis Freitag offen.",
         "Es ist von Montag bis einschließlich Freitag offen.", "de"),
        ("Wanneer is het open?", "Het is open van maandag tot en met vrijdag.", "Het is open ma t/m vr.", "nl"),
        ("¿Cuándo abre?", "Abre los sábados y domingos.", "Abre los fines de semana.", "es"),
        ("What does the apartment cost per night?", "The apartment costs 80 euros per night.",
         "The apartment costs 80 euros per night plus 30 euros for cleaning.", "en"),
        ("Was kostet die Wohnung pro Nacht?", "Die Wohnung kostet 80 Euro pro Nacht.",
         "Die Wohnung kostet 80 Euro pro Nacht, dazu kommen 30 Euro.", "de"),
        ("Can members use the sauna on Fridays?", "Yes, members can use the sauna on Fridays.",
         "Members can use the sauna daily from 9 to 20. Members can use the sauna only with a towel. "
         "On Fridays the sauna has music.", "en"),
        ("Is it open in December?", "Yes, it is open in December.",
         "It is open all year, from April to October until 20:00. In December it is open until 16:00.", "en"),
    ],
)  # fmt: skip
def test_nothing_new_is_denied_of_answers_in_other_forms(
    question: str, answer: str, passage: str, language: str
) -> None:
    assert not denied(question, answer, passage, language)


@pytest.mark.parametrize(
    ("question", "first", "second", "back"),
    [
        ("Mag ik konijnen houden?", "Ja, hoogstens twee kasten, als de buren het goedvinden.",
         "Kippen en konijnen zijn niet toegestaan.", True),
        ("Mag ik bijen houden?", "Ja, hoogstens twee kasten, als de buren het goedvinden.",
         "Kippen en konijnen zijn niet toegestaan.", False),
        ("May I bring my dog?", "Yes, dogs are welcome in the hall.", "Otherwise dogs are not allowed.", False),
    ],
)  # fmt: skip
def test_a_sentence_of_one_thing_takes_a_yes_back(question: str, first: str, second: str, back: bool) -> None:
    passage = f"{first.replace('Ja, h', 'H')} {second}"
    language = "en" if question.startswith("May") else "nl"
    assert Evidence(question, [passage], language).of_answer([first, second])[0].denied is back
