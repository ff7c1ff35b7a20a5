"""Motions and what became of them; reductions for those who were asked about."""

from __future__ import annotations

import pytest

from workers.support.evidence import Evidence

MINUTES = """## Prices
Mr Hale moved to raise the evening price for adults to 10.50 euros
from January. The motion was rejected by two votes to three.

## Popcorn
Mrs Brandt moved to stop selling popcorn. The motion was
carried, four votes to none."""
PROTOKOLL = """## Preise
Herr Hale beantragte, den Abendpreis auf 10,50 Euro zu erhöhen. Der Antrag wurde mit zwei zu drei Stimmen abgelehnt.

## Popcorn
Frau Brandt schlug vor, kein Popcorn mehr zu verkaufen. Der Antrag wurde angenommen."""
NOTULEN = """## Prijzen
De heer Hale stelde voor de avondprijs tot 10,50 euro te verhogen. Het voorstel werd verworpen.

## Popcorn
Mevrouw Brandt stelde voor geen popcorn meer te verkopen. Het voorstel werd aangenomen."""
HALL = """| Room | Half day | Full day | Deposit |
| --- | --- | --- | --- |
| Large hall | 320 euros | 560 euros | 300 euros |
| Studio | 140 euros | 250 euros | 150 euros |

Members pay 15 percent less, but the deposit stays the same."""
PRICE = "Was the motion to raise the evening price to 10.50 euros carried?"
POPCORN = "Was the motion to stop selling popcorn carried?"
VERHOGEN = "Is het voorstel om de avondprijs tot 10,50 euro te verhogen aangenomen?"


def denied(question: str, answer: str, passage: str, language: str) -> bool:
    return Evidence(question, [passage], language).of_answer([answer])[0].denied


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "expected"),
    [
        (PRICE, "Yes, it was carried.", MINUTES, "en", True),
        (PRICE, "The motion to raise the evening price was carried, four votes to none.", MINUTES, "en", True),
        (PRICE, "The motion was rejected by two votes to three.", MINUTES, "en", False),
        (PRICE, "No, it was rejected.", MINUTES, "en", False),
        (POPCORN, "Yes, it was carried.", MINUTES, "en", False),
        (POPCORN, "The motion was carried, four votes to none.", MINUTES, "en", False),
        (POPCORN, "No, it was rejected.", MINUTES, "en", True),
        ("Wurde der Antrag angenommen, den Abendpreis auf 10,50 Euro zu erhöhen?", "Ja, der Antrag wurde angenommen.",
         PROTOKOLL, "de", True),
        ("Wurde der Antrag abgelehnt, den Abendpreis auf 10,50 Euro zu erhöhen?", "Ja, er wurde abgelehnt.",
         PROTOKOLL, "de", False),
        (VERHOGEN, "Ja, het voorstel is aangenomen.", NOTULEN, "nl", True),
        (VERHOGEN, "Nee, het voorstel is verworpen.", NOTULEN, "nl", False),
        ("What was decided about popcorn?", "It was carried to stop selling popcorn.", MINUTES, "en", False),
    ],
)  # fmt: skip
def test_a_motion_had_another_outcome(question: str, answer: str, passage: str, language: str, expected: bool) -> None:
    assert denied(question, answer, passage, language) is expected


TOUR, FUEHRUNG, LEDEN = (
    "A guided tour costs 12 euros.",
    "Eine Führung kostet 12 Euro.",
    "Een rondleiding kost 12 euro.",
)


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "expected"),
    [
        ("I am a member and hire the large hall for a half day. How much is the rent?",
         "The rent for a half day at the large hall is 320 euros.", HALL, "en", True),
        ("How much is the large hall for a half day?", "The large hall costs 320 euros for a half day.",
         HALL, "en", False),
        ("What deposit does a member pay for the large hall?", "The deposit for the large hall is 300 euros.",
         HALL, "en", False),
        ("How much is a guided tour for members?", TOUR, f"{TOUR} Members get 10 percent off at the bar.", "en", False),
        ("How much is a guided tour for a student?", TOUR, f"{TOUR} Students pay half.", "en", True),
        ("How much is a guided tour for a student?", "A guided tour costs 12 euros, students pay half.",
         f"{TOUR} Students pay half.", "en", False),
        ("How much is a guided tour?", TOUR, f"{TOUR} Students pay half.", "en", False),
        ("Was kostet eine Führung für Mitglieder?", FUEHRUNG, f"{FUEHRUNG} Mitglieder zahlen 10 Prozent weniger.",
         "de", True),
        ("Was kostet eine Führung?", FUEHRUNG, f"{FUEHRUNG} Mitglieder zahlen 10 Prozent weniger.", "de", False),
        ("Wat kost een rondleiding voor leden?", LEDEN, f"{LEDEN} Leden betalen de helft.", "nl", True),
        ("Wat kost een rondleiding?", LEDEN, f"{LEDEN} Leden betalen de helft.", "nl", False),
    ],
)  # fmt: skip
def test_those_who_were_asked_about_pay_less(
    question: str, answer: str, passage: str, language: str, expected: bool
) -> None:
    assert denied(question, answer, passage, language) is expected


LEAVING = "The share of a member is paid back after the annual accounts are approved. Transfers cost a fee of 15 euros."
CHILDREN = "Children are members for free. There is no annual fee. Adults pay 40 euros a year."


@pytest.mark.parametrize(
    ("question", "answer", "expected"),
    [
        ("Does the annual membership cost a fee?", "Yes, the annual membership costs a fee.", True),
        ("Does the annual membership cost a fee?", "No, there is no annual fee.", False),
        ("Do transfers of a share cost a fee?", "Yes, transfers cost a fee of 15 euros.", False),
    ],
)
def test_a_plain_no_elsewhere_denies_a_yes(question: str, answer: str, expected: bool) -> None:
    passages, titles = [LEAVING, "There is no annual fee."], ["Membership rules", "Membership rules"]
    assert Evidence(question, passages, "en", titles).of_answer([answer])[0].denied is expected


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language"),
    [
        ("Was the motion to raise the hall rent carried?", "Yes, it was carried in May with 24 votes to 3.",
         "Mr Hale moved to raise the hall rent to 30 euros. The motion was postponed in March. In May it was carried "
         "with 24 votes to 3.", "en"),
        ("Was the replacement of the boiler approved?", "Yes, the members approved it after an amendment.",
         "The motion to replace the boiler was first rejected. After an amendment by Ms Lowe the members agreed to it.",
         "en"),
        ("Wurde der Antrag angenommen, die Hallenmiete zu erhöhen?", "Ja, der Antrag wurde einstimmig angenommen.",
         "Der Antrag, die Hallenmiete zu erhöhen, wurde ohne Gegenstimmen angenommen. Der Antrag auf einen Zaun wurde "
         "abgelehnt.", "de"),
        ("Is cash accepted at the ticket desk?", "Yes, cash is accepted at the ticket desk.",
         "We take cash at the ticket desk and in the café. Cheques are not accepted.", "en"),
        ("Werd het voorstel om de huur van de zaal te verhogen aangenomen?", "Ja, het werd met 18 stemmen aangenomen.",
         "De penningmeester stelde voor de huur van de zaal te verhogen. Een amendement om alleen in het weekend te "
         "verhogen werd verworpen. Het voorstel zelf is met 18 stemmen aangenomen.", "nl"),
        ("Was the plan for a café in the boathouse approved?", "Yes, the general meeting approved it by 40 to 12.",
         "The plan for a café in the boathouse had been rejected by the committee. The general meeting voted for it by "
         "40 to 12, so building starts in June.", "en"),
        ("What do members pay for the hall?", "Members pay 34 euros an hour.",
         "The hall costs 40 euros an hour. Members pay 15 percent less. That is 34 euros instead of 40.", "en"),
        ("How much deposit do members pay for a boat?", "The deposit is 100 euros.",
         "Boat hire is 20 euros an hour. Members pay 10 percent less. The deposit is 100 euros for everyone.", "en"),
        ("What annual fee do members pay?", "The annual fee is 60 euros.",
         "## Membership\nThe annual fee is 60 euros.\n\n## Courses\nMembers pay 20 percent less.", "en"),
        ("Was kostet ein Tagesticket für Mitglieder?", "Ein Tagesticket kostet 18 Euro.",
         "Mitglieder erhalten 10 % Rabatt. Der Rabatt ist in den Preisen schon abgezogen. Ein Tagesticket kostet "
         "18 Euro.", "de"),
        ("Hoeveel betalen leden in de zomer voor een baan?", "In de zomer betalen leden 16 euro per uur.",
         "Een baan huren kost 16 euro per uur. Leden krijgen 25% korting. Dat geldt alleen in de winter.", "nl"),
        ("Is there an annual fee for adults?", "Yes, there is an annual fee of 40 euros for adults.", CHILDREN, "en"),
        ("Are dogs allowed in the Seaview restaurant?", "Yes, dogs are allowed in the Seaview restaurant.",
         "The Seaview restaurant opens at noon. Dogs are allowed in the restaurant on a lead.", "en"),
        ("Does the Museum ticket include a guide?", "Yes, the Museum ticket includes a guide.",
         "The Museum ticket costs 8 euros. The ticket includes a guide and a drink.", "en"),
        ("Mogen honden mee in Restaurant Zeezicht?", "Ja, honden mogen mee in Restaurant Zeezicht.",
         "Restaurant Zeezicht opent om 12 uur. Honden mogen mee in het restaurant.", "nl"),
        ("Was the request for a second court granted?", "Yes, the request for a second court was granted.",
         "The council granted the request for a second court in June. In March the request for a second court had been "
         "refused.", "en"),
        ("Were there any objections to the plan?", "No, there were no objections to the plan.",
         "The plan was shown in May. There were no objections to the plan.", "en"),
    ],
)  # fmt: skip
def test_right_answers_are_not_denied(question: str, answer: str, passage: str, language: str) -> None:
    assert not denied(question, answer, passage, language)


def test_an_answer_that_tells_the_reduction_is_right() -> None:
    passage = "The pottery course costs 60 euros. Members pay 15 percent less."
    question = "How much does the pottery course cost for members?"
    for answer in (
        ["The pottery course costs 60 euros.", "Members pay 15 percent less."],
        ["The regular price is 60 euros.", "As a member, you get a 15 percent discount on this."],
    ):
        assert not any(one.denied for one in Evidence(question, [passage], "en").of_answer(answer))


HOUSE = """Rollstuhl
Der große Saal hat vier Plätze, erreichbar über die Rampe. Das Studio ist nur über eine Treppe zu erreichen und daher
nicht rollstuhlgerecht.

Fotografieren
Filmen und Fotografieren während der Vorstellung ist verboten. Im Foyer darf fotografiert werden."""
LATE = "Wer mehr als 15 Minuten zu spät kommt, wird nicht mehr eingelassen, außer zwischen zwei Kurzfilmen."
GUIDE = "A projectionist is included in the price of the large hall. For the Studio a projectionist costs 25 euros."


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "expected"),
    [
        ("Ist das Studio mit dem Rollstuhl erreichbar?", "Ja, das Studio ist mit dem Rollstuhl erreichbar.", HOUSE,
         "de", True),
        ("Darf ich im Foyer fotografieren?", "Ja, du darfst im Foyer fotografieren.", HOUSE, "de", False),
        ("Werde ich noch eingelassen, wenn ich 20 Minuten zu spät komme?",
         "Ja, du wirst noch eingelassen, außer zwischen zwei Kurzfilmen.", LATE, "de", True),
        ("Is a projectionist included in the price of the Studio?",
         "Yes, a projectionist is included in the price of the Studio.", GUIDE, "en", True),
        ("Is a projectionist included in the price of the Studio?",
         "A projectionist is included in the price of the Studio.", GUIDE, "en", True),
        ("Is a projectionist included in the price of the large hall?",
         "Yes, a projectionist is included in the price of the large hall.", GUIDE, "en", False),
        ("Is a projectionist included in the price of the Studio?",
         "Yes, a projectionist is included in the price of the Studio.",
         "A projectionist is included in the price of every hall. The Studio has a projectionist on Mondays.", "en",
         False),
    ],
)  # fmt: skip
def test_a_yes_that_rests_on_something_else(
    question: str, answer: str, passage: str, language: str, expected: bool
) -> None:
    """On a heading of one word, on what is said of another thing, or on a no that was taken for its exception."""
    assert denied(question, answer, passage, language) is expected


def test_noch_says_no_in_dutch_alone() -> None:
    """In German it is "still"."""
    assert denied("Mogen honden mee in de hut?", "Ja, honden mogen mee in de hut.",
                  "Honden noch katten mogen mee in de hut.", "nl")  # fmt: skip
    assert not denied("Werden Kinder noch eingelassen?", "Ja, Kinder werden noch eingelassen.",
                      "Kinder werden nach Beginn eingelassen.", "de")  # fmt: skip


def test_unopposed_is_no_no() -> None:
    text = "Der Antrag auf eine Rampe wurde ohne Gegenstimmen angenommen."
    assert not denied("Wurde der Antrag auf eine Rampe angenommen?", "Ja, der Antrag wurde angenommen.", text, "de")
    assert (
        Evidence("Were there objections?", ["There were no objections to the plan."], "en")
        .of("No objections.")
        .evidence
        > 0.5
    )


@pytest.mark.parametrize(
    ("question", "answer", "passage", "language", "expected"),
    [
        ("Mag ik een telefoongesprek opnemen zonder dat de ander het weet?",
         "Ja, je mag een telefoongesprek opnemen zonder dat de ander het weet.",
         "Telefoongesprekken mogen pas worden opgenomen nadat de ander dit weet.", "nl", True),
        ("Mogen honden na 18 uur naar binnen?", "Ja, honden mogen na 18 uur naar binnen.",
         "Honden mogen pas na 18 uur naar binnen.", "nl", False),
        ("Le musée est-il ouvert le lundi ?", "Oui, le musée Van Gogh est ouvert le lundi.",
         "Le musée Van Gogh n'est pas ouvert le lundi.", "fr", True),
        ("Les chiens sont-ils admis ?", "Oui, les chiens sont admis.", "Pas de chiens admis.", "fr", True),
    ],
)  # fmt: skip
def test_pas_says_no_in_french_alone(question: str, answer: str, passage: str, language: str, expected: bool) -> None:
    """In Dutch it is "not before"."""
    assert denied(question, answer, passage, language) is expected
