"""Another name in the place of the one that the question before asked about."""

from __future__ import annotations

import pytest

from rag_service.prompting.rewriting.replacement import replaced


@pytest.mark.parametrize(
    ("before", "question", "meant"),
    [
        (
            "How many desks does the Hamburg office have?",
            "And in Lisbon?",
            "How many desks does the Lisbon office have?",
        ),
        ("What is the rent at the Hamburg office?", "And in Lisbon?", "What is the rent at the Lisbon office?"),
        ("Where is the Graz office?", "And the one in Lisbon?", "Where is the Lisbon office?"),
        ("Where is the Graz office?", "What about the Lisbon office", "Where is the Lisbon office?"),
        ("What is the rent in Hamburg?", "And Lisbon?", "What is the rent in Lisbon?"),
        ("What is the rent in Hamburg?", "In Lisbon?", "What is the rent in Lisbon?"),
        ("How often must the X200 be serviced?", "And the X500?", "How often must the X500 be serviced?"),
        ("When is St Anne's Library open?", "And Millfield Library?", "When is Millfield Library open?"),
        ("How far is it from Porto?", "And from Lyon?", "How far is it from Lyon?"),
        ("What does the trip to Porto cost?", "And Lyon?", "What does the trip to Lyon cost?"),
    ],
)
def test_a_name_takes_the_place_of_a_name(before: str, question: str, meant: str) -> None:
    assert replaced(question, before, "en") == meant


@pytest.mark.parametrize(
    ("before", "question", "meant"),
    [
        ("Wie viele Plätze hat das Büro Graz?", "Und in Lissabon?", "Wie viele Plätze hat das Büro Lissabon?"),
        ("Wer genehmigt das Homeoffice in Leipzig?", "Und in Graz?", "Wer genehmigt das Homeoffice in Graz?"),
        ("Was kostet der Mixer Cosmo?", "Und der Toaster Brio?", "Was kostet der Toaster Brio?"),
        ("Was kostet der Mixer Cosmo?", "Und die Kamera Nova?", "Was kostet die Kamera Nova?"),
        ("Was kostet es in der Garage Ost?", "Und im Parkhaus West?", "Was kostet es im Parkhaus West?"),
        (
            "Was kostet der Eintritt im Hafenmuseum Elmau?",
            "Und im Torfmuseum?",
            "Was kostet der Eintritt im Torfmuseum?",
        ),
        ("Was kostet der Mixer Cosmo?", "Und Ersatzteile?", None),
        ("Wo liegt das Büro Graz?", "Und für Rechnungen?", None),
        ("Wann öffnet die Garage Ost?", "Und im Parkhaus West?", None),
        ("Was kostet der Mixer?", "Und der Toaster?", None),
        ("Wie viele Plätze hat das Café Sonne?", "Und bei Regen?", None),
        ("Wann öffnet das Café Sonne?", "Und im Winter?", None),
        ("Wann öffnet das Café Sonne?", "Und in Lissabon?", "Wann öffnet das Café Lissabon?"),
    ],
)
def test_german_writes_all_nouns_like_names(before: str, question: str, meant: str | None) -> None:
    assert replaced(question, before, "de") == meant


def test_dutch() -> None:
    before = "Hoeveel personen passen er in de grootste zaal van gebouw Oost?"
    meant = "Hoeveel personen passen er in de grootste zaal van gebouw West?"
    assert replaced("En in West?", before, "nl") == meant
    assert replaced("Hoe zit het met gebouw West?", before, "nl") == meant


@pytest.mark.parametrize(
    ("before", "question", "meant", "language"),
    [
        ("How heavy is the Falcon 500?", "And the 350?", "How heavy is the Falcon 350?", "en"),
        ("Wie schwer ist die Falcon 500?", "Und die 350?", "Wie schwer ist die Falcon 350?", "de"),
        ("Hoe zwaar is de Falcon 500?", "En de 350?", "Hoe zwaar is de Falcon 350?", "nl"),
        ("Who led Plant 7?", "And in 2021?", None, "en"),
        ("Is the limit 25?", "And 20?", None, "en"),
        ("How heavy is the Falcon Junior?", "And the 350?", None, "en"),
    ],
)
def test_a_number_takes_the_place_of_the_number_in_a_name(
    before: str, question: str, meant: str | None, language: str
) -> None:
    assert replaced(question, before, language) == meant


@pytest.mark.parametrize(
    ("before", "question", "meant", "language"),
    [
        ("Was passiert, wenn ich 5 Tage vor der Anreise storniere?", "Und bei Krankheit?", None, "de"),
        ("Was passiert, wenn ich 5 Tage vor der Anreise storniere?", "Und in Lissabon?", None, "de"),
        (
            "Was passiert, wenn ich 5 Tage vor der Anreise storniere?",
            "Und 3 Wochen?",
            "Was passiert, wenn ich 3 Wochen vor der Anreise storniere?",
            "de",
        ),
        ("What does the card cost for 2 Adults?", "And for Children?", None, "en"),
        ("What does the card cost for 2 Adults?", "And Children?", None, "en"),
        (
            "What does the card cost for 2 Adults?",
            "And for 3 Children?",
            "What does the card cost for 3 Children?",
            "en",
        ),
        ("Wat kost het voor 2 Personen?", "En voor Kinderen?", None, "nl"),
    ],
)
def test_what_a_number_counts_is_no_name(before: str, question: str, meant: str | None, language: str) -> None:
    assert replaced(question, before, language) == meant


@pytest.mark.parametrize(
    ("before", "question", "meant"),
    [
        ("When is the Harbour Bar open?", "And on Quiz Night?", None),
        ("When is the Harbour Bar open?", "And at Christmas?", None),
        ("When is the Harbour Bar open?", "And for Guests?", None),
        ("What is the rent at the Harbour Bar?", "And on Pier West?", "What is the rent at the Pier West?"),
    ],
)
def test_another_preposition_replaces_no_bare_name(before: str, question: str, meant: str | None) -> None:
    assert replaced(question, before, "en") == meant


@pytest.mark.parametrize(
    ("before", "question", "meant", "language"),
    [
        ("Hoe laat gaat het Noordbad open?", "En in Het Sluisbad?", "Hoe laat gaat Het Sluisbad open?", "nl"),
        ("Wat kost het in de Waterhal?", "En in Het Sluisbad?", "Wat kost het in Het Sluisbad?", "nl"),
        ("How big is the office in Lisbon?", "And in The Hague?", "How big is the office in The Hague?", "en"),
        ("How big is the office in Lisbon?", "And in the Hague?", "How big is the office in Hague?", "en"),
        ("Wann öffnet das Café Sonne?", "Und Die Linde?", "Wann öffnet Die Linde?", "de"),
    ],
)
def test_a_name_may_begin_with_an_article(before: str, question: str, meant: str, language: str) -> None:
    assert replaced(question, before, language) == meant


@pytest.mark.parametrize(
    ("before", "question"),
    [
        ("What is the rent in Lisbon?", "And in July?"),
        ("What is the rent in Lisbon?", "And the deposit?"),
        ("What is the rent in Lisbon?", "And the deposit in Porto?"),
        ("What is the rent in Lisbon?", "And in Porto and Lyon?"),
        ("What is the rent in Lisbon?", "And for Anna?"),
        ("What is the rent in Lisbon?", "And who manages Porto?"),
        ("What is the rent in Lisbon?", "Really?"),
        ("What is the rent in Lisbon?", "Thanks!"),
        ("What is the rent in Lisbon?", "And the X500?"),
        ("What is the rent?", "And in Porto?"),
        ("Who sold Porto to Lyon?", "And Lisbon?"),
        ("Can Anna approve trips?", "And in Lisbon?"),
        ("How high was the rent in 2023?", "And in 2024?"),
        ("How far is it to Porto?", "And from Lyon?"),
        ("what is the rent in lisbon", "and in porto"),
        ("What is the rent in Lisbon?", ""),
    ],
)
def test_other_follow_ups_are_left_to_the_model(before: str, question: str) -> None:
    assert replaced(question, before, "en") is None
