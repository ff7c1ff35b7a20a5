"""A yes that the passages do not state has little support, whatever the model's state says."""

from __future__ import annotations

import pytest

from workers.broker.messages import Checking, GenerateJob
from workers.support.assessment import assess
from workers.support.calibration import shipped
from workers.support.evidence import Evidence, Found

POOLS = """\
# Hillside Pool

The pool is open Tuesday to Sunday and closed on Mondays. Dogs are prohibited. A day ticket costs 5 euros.

# Harbour Pool

Open every day from 7 to 21. Dogs may come along on a lead; they are allowed on the terrace. Lockers are free.
"""
URLAUB = """\
Standort Görlitz

Resturlaub verfällt am 30. Juni. Eine Kantine gibt es nicht.

Standort Bremen

Resturlaub verfällt am 31. März. Das Parken ist kostenfrei.
"""
FIETSEN = """\
## Trapper Basis

Schade door een val is niet verzekerd.

## Trapper Plus

Schade door een val is verzekerd. Kampvuren zijn verboden.
"""
CAMP = """\
# Boat hire

The hire at the jetty is open every day from 10 to 18 o'clock. Tuesday is closing day.

# Rules

Barbecues with gas may be used on the pitches; charcoal barbecues may not. Generators are forbidden at all times,
including outside the quiet hours. The water of the taps marked red, also at the boat ramp, is not drinking water. Coins
are not accepted since May; use the card for the shower. Members of the club get 5 percent off the pitch; two discounts
cannot be combined. There is no discount on cabins.
"""
VERLEIH = """\
# Bootsverleih

Der Verleih ist vom 1. Mai bis zum 15. September geöffnet, täglich von 10 bis 18 Uhr. Dienstags ist Ruhetag.
Klaviere, Schlagzeuge und Harfen werden nicht verliehen.
"""
LIBRARY = """\
# Rooms

The Alder Room seats 30 and has a projector. The Birch Room seats 8 and has no projector. Food is not allowed in the
Alder Room. Books may be kept for four weeks, DVDs for one week. Reference works may not be taken home. Children do not
pay late fees. The library is open Monday to Friday from 9:30 to 19:00, and on Saturday from 10:00 to 16:00. The yearly
fee rises from 60 to 72 euros from 1 January 2028. Children may swim if they are not alone.
"""
OWN = {"readout": 6.0, "check": 6.0, "margin": 1.0}
"""Signals that speak for an answer."""


def found(language: str, text: str, question: str, answer: str) -> Found:
    return Evidence(question, [text], language).of(answer)


@pytest.mark.parametrize(
    ("language", "text", "question", "answer"),
    [
        ("en", POOLS, "Is the Hillside Pool open on Mondays?", "Yes, the Hillside Pool is open on Mondays."),
        ("en", POOLS, "Is the Hillside Pool open on Mondays?", "The Hillside Pool is open on Mondays."),
        ("en", POOLS, "Is the Hillside Pool open on Mondays?", "Yes."),
        ("en", POOLS, "Are dogs allowed at Hillside Pool?", "Yes, dogs are allowed at Hillside Pool."),
        ("en", POOLS, "May I bring a dog to Hillside Pool?", "Yes, you may bring dogs to Hillside Pool."),
        ("en", POOLS, "Are lockers free at Hillside Pool?", "Yes, lockers are free at Hillside Pool."),
        ("en", POOLS, "Does Harbour Pool have a sauna?", "Yes, Harbour Pool has a sauna."),
        ("en", POOLS, "Does a day ticket cost 8 euros at Hillside Pool?", "Yes, a day ticket costs 8 euros."),
        ("en", POOLS, "Does a ticket cost 8 euros at Hillside Pool?", "Yes, a ticket costs 5 euros at Hillside Pool."),
        ("en", LIBRARY, "Does the Birch Room have a projector?", "Yes, the Birch Room has a projector."),
        ("en", LIBRARY, "Does the Alder Room have a projector?", "No, it has no projector."),
        ("en", LIBRARY, "Is food allowed in the Alder Room?", "Yes, food is not allowed in the Alder Room."),
        ("en", LIBRARY, "Do children pay late fees?", "Yes, children do not pay late fees."),
        ("en", LIBRARY, "Can I take a reference work home?", "Yes, you can take a reference work home."),
        ("en", LIBRARY, "Is it open at 9:00 on Mondays?", "Yes, the library is open at 9:00 on Mondays."),
        ("en", LIBRARY, "Will the fee be 60 euros in 2028?", "Yes, the yearly fee rises from 60 to 72 euros."),
        ("en", CAMP, "May I use a charcoal barbecue?", "Yes, charcoal barbecues may not be used on the pitches."),
        ("de", VERLEIH, "Können Klaviere verliehen werden?", "Ja, können Klaviere nicht verliehen werden."),
        ("en", CAMP, "Does a member get a discount on cabins?", "Yes, members get 5 percent off the pitch."),
        ("de", VERLEIH, "Ist der Bootsverleih am Dienstag geöffnet?", "Ja, der Bootsverleih am Dienstag geöffnet ist."),
        (
            "en",
            LIBRARY,
            "Is food allowed in the room of Mr. Alder?",
            "Yes, food is not allowed in the room of Mr. Alder.",
        ),
        ("de", VERLEIH, "Werden Klaviere verliehen?", "Ja, Klaviere werden verliehen."),
        ("de", URLAUB, "Verfällt Resturlaub in Bremen am 30. Juni?", "Ja, Resturlaub in Bremen verfällt am 30. Juni."),
        ("de", URLAUB, "Hat Bremen eine Kantine?", "Ja, Bremen hat eine Kantine."),
        ("de", URLAUB, "Hat Bremen eine Kantine?", "Ja"),
        ("de", URLAUB, "Ist das Parken in Bremen kostenpflichtig?", "Ja, das Parken in Bremen ist kostenpflichtig."),
        ("nl", FIETSEN, "Is een val verzekerd bij Trapper Basis?", "Ja, een val is verzekerd bij Trapper Basis."),
        ("nl", FIETSEN, "Mag ik een kampvuur maken?", "Ja, je mag een kampvuur maken."),
    ],
)
def test_what_the_passages_deny_or_do_not_say(language: str, text: str, question: str, answer: str) -> None:
    assert found(language, text, question, answer).denied
    for own in shipped():
        checking = Checking(question=question, language=language)
        job = GenerateJob.model_construct(passages=[{"text": text, "title": "Rules"}], question=question)
        support = assess(job, checking, answer, OWN, own, True)
        assert support.support <= 0.15, own.model
        assert [one.support for one in support.sentences] == [support.support]


@pytest.mark.parametrize(
    ("language", "text", "question", "answer"),
    [
        ("en", POOLS, "Is the Hillside Pool closed on Mondays?", "Yes, the Hillside Pool is closed on Mondays."),
        ("en", POOLS, "Is the Hillside Pool open on Mondays?", "No, the Hillside Pool is not open on Mondays."),
        ("en", POOLS, "Is the Hillside Pool open on Mondays?", "No, the Hillside Pool is closed on Mondays."),
        ("en", POOLS, "Is the Hillside Pool open on Mondays?", "No."),
        ("en", POOLS, "Is the Hillside Pool open on Sunday?", "Yes, the Hillside Pool is open on Sunday."),
        ("en", POOLS, "Are dogs allowed at Hillside Pool?", "No, dogs are prohibited at Hillside Pool."),
        ("en", POOLS, "Are dogs allowed at Harbour Pool?", "Yes, dogs are allowed at Harbour Pool."),
        ("en", POOLS, "Are dogs allowed at Harbour Pool?", "Yes, on a lead."),
        ("en", LIBRARY, "Does the Alder Room have a projector?", "Yes, the Alder Room has a projector."),
        ("en", LIBRARY, "Does the Birch Room have a projector?", "No, it has no projector."),
        ("en", LIBRARY, "Is it open at 9:00 on Mondays?", "No, it opens at 9:30 on Monday."),
        ("en", LIBRARY, "Can I keep a DVD for four weeks?", "No, DVDs may be kept for one week."),
        ("en", LIBRARY, "Does the fee rise from 60 to 72 euros?", "Yes, the yearly fee rises from 60 to 72 euros."),
        ("en", LIBRARY, "May children swim?", "Yes, children may swim if they are not alone."),
        (
            "en",
            CAMP,
            "Can I use my generator outside the quiet hours?",
            "No, you cannot use it outside the quiet hours.",
        ),
        ("en", CAMP, "Can I drink the water of the red taps?", "No, the water of the red taps is not drinking water."),
        ("en", CAMP, "Can I pay for the shower with coins?", "No, you cannot pay for the shower with coins."),
        ("de", VERLEIH, "Werden Klaviere verliehen?", "Klaviere werden nicht verliehen."),
        ("de", URLAUB, "Verfällt Resturlaub in Bremen am 31. März?", "Ja, Resturlaub verfällt am 31. März."),
        ("de", URLAUB, "Ist das Parken in Bremen kostenlos?", "Ja, das Parken in Bremen ist kostenlos."),
        ("nl", FIETSEN, "Is een val verzekerd bij Trapper Plus?", "Ja, een val is verzekerd bij Trapper Plus."),
        ("de", URLAUB, "Gibt es in Görlitz eine Kantine?", "Nein, in Görlitz gibt es keine Kantine."),
    ],
)
def test_what_they_state(language: str, text: str, question: str, answer: str) -> None:
    one = found(language, text, question, answer)
    assert not one.denied
    assert one.evidence >= 0.2


def test_titles_name_what_a_passage_is_about() -> None:
    question, answer = "Are lockers free at Harbour Pool?", "Yes, lockers are free at Harbour Pool."
    text = "Lockers are free."
    assert Evidence(question, [text], "en").of(answer).denied
    assert not Evidence(question, [text], "en", ["Harbour Pool"]).of(answer).denied


@pytest.mark.parametrize(("heading", "denied"), [("Rules > Hillside / Harbour", True), ("Harbour", False)])
def test_the_names_of_a_passage_s_sections_are_not_above_all_of_it(heading: str, denied: bool) -> None:
    text = "Lockers are free."
    if denied:
        text = f"## Hillside\n{text}\n\n## Harbour\n\nDogs are welcome."
    check_lockers(text, heading, denied)


def test_a_section_that_goes_on_is_not_named_after_the_next_one() -> None:
    check_lockers("Lockers are free.\n\n## Harbour\n\nDogs are welcome.", "Rules > Hillside / Harbour", True)


def check_lockers(text: str, heading: str, denied: bool) -> None:
    question, answer = "Are lockers free at Harbour?", "Yes, lockers are free at Harbour."
    passage = {"text": text, "title": "Pools", "heading": heading}
    job = GenerateJob.model_construct(passages=[passage], question=question)
    support = assess(job, Checking(question=question, language="en"), answer, OWN, shipped()[0], True)
    assert (support.support <= 0.15) == denied


def test_an_attribute_of_something_else_denies_nothing() -> None:
    text = "Coal is burned in a closed space, called the combustion chamber."
    answer = "The space in which coal is burned is called the combustion chamber."
    assert not Evidence("What is the space in which coal is burned called?", [text], "en").of(answer).denied


def test_a_number_elsewhere_in_the_paragraph_is_no_lie() -> None:
    text = "# Tidemark 5.2\n\nThe computer needs 12 GB of memory. Version 5.2 is new."
    found = Evidence("How much memory is needed?", [text], "en").of("Tidemark 5.2 needs 12 GB of memory.")
    assert not found.denied
    assert Evidence("How much memory is needed?", [text], "en").of("It needs 16 GB of memory.").denied


@pytest.mark.parametrize(
    ("question", "second", "denied"),
    [
        ("Ist der Bootsverleih dienstags geöffnet?", "Dienstags ist Ruhetag.", True),
        ("Ist der Bootsverleih im September geöffnet?", "Dienstags ist Ruhetag.", False),
    ],
)
def test_a_second_sentence_may_take_a_yes_back(question: str, second: str, denied: bool) -> None:
    first = "Ja, der Verleih ist vom 1. Mai bis zum 15. September geöffnet, täglich von 10 bis 18 Uhr."
    assert Evidence(question, [VERLEIH], "de").of_answer([first, second])[0].denied is denied
