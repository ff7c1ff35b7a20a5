"""How rewrites begin, which words they leave out, and what becomes of the model's reply."""

from __future__ import annotations

import pytest

from rag_service.prompting.rewriting import standalone as rewrite
from rag_service.prompting.rewriting.beginning import Beginning, beginning, going_on, other_side, own_words
from rag_service.prompting.rewriting.examples import EXAMPLES
from rag_service.prompting.rewriting.follow_up import names_nothing
from rag_service.prompting.rewriting.standalone import Exchange, completed, usable
from workers.tokens.tokenizer import Tokens

KEPT = "How long are backups kept?"


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("And in Spain?", "How long"),
        ("what about the red one", "How long"),
        ("Und beim Archiv?", "How long"),
        ("Wie sieht es mit Kopien aus?", "How long"),
        ("En in West?", "How long"),
        ("Hoe zit het met kopieën?", "How long"),
        ("¿Y en España?", "How long"),
        ("Et en Espagne ?", "How long"),
        ("And in which year?", ""),
        ("And who may restore them?", "And who may restore"),
        ("And thanks!", ""),
        ("And tell me more", ""),
        ("Does that apply to interns?", ""),
        ("In Spain?", "How long"),
        ("with tax", "How long"),
        ("In which year?", ""),
        ("For how long?", "For how long are backups"),
        ("E-mail address?", ""),
        ("And if the backup was made by somebody in another town than ours?", ""),
    ],
)
def test_what_puts_something_else_in_place_begins_as_the_question_before(question: str, text: str) -> None:
    assert beginning(question, [KEPT]).text == text


def test_the_question_before_is_one_that_says_what_is_asked() -> None:
    past = ["How long are backups kept?", "Restore?", "And in Spain?"]
    assert beginning("And in France?", past).text == "How long"
    assert beginning("And in France?", [*past, "Make it shorter and friendlier."]).text == "How long"
    assert beginning("and in france", ["how long are backups kept"]).text == "how long"
    assert beginning("And in France?", ["Restore?", "And in Spain?"]) == Beginning()


@pytest.mark.parametrize(
    ("before", "question", "text"),
    [
        ("How many days are there in Lisbon for travel?", "And in Berlin?", "How many days are there in Berlin"),
        ("When does the club close on weekdays?", "on bank holidays", "When does the club close on bank holidays"),
        ("Warum werden Kaffeemaschinen länger geprüft?", "Wie lange?", "Wie lange werden Kaffeemaschinen"),
        ("May children come?", "Why?", "Why may children"),
        (
            "What does cancelling a tour cost?",
            "And if my dog is ill?",
            "What does cancelling a tour cost if my dog is ill",
        ),
        (
            "Was kostet die Absage, wenn ich krank bin?",
            "Und wenn ich umziehe?",
            "Was kostet die Absage, wenn ich umziehe",
        ),
        ("Gaat de wandeling door?", "En als het regent?", "Gaat de wandeling door als het regent"),
        ("What does a tour cost for my dog?", "And if it is ill?", ""),
        ("When is the library open?", "Since when?", "Since when is the"),
        ("Hoe lang duurt de cursus?", "Waar?", "Waar duurt de"),
        ("¿Dónde está el museo?", "¿Desde cuándo?", "Desde cuándo está el"),
        ("Which rooms have a projector?", "Why?", ""),
        ("May children come?", "And use the lathe?", "May children use the lathe"),
        ("May a child come?", "And bring a friend?", "May a child bring a friend"),
        ("May children come?", "And pay by card?", "May children"),
        ("When is the library open?", "And use the lathe?", "When is"),
        ("What does the washer cost per day?", "And how much is that for three days?", "And how much is"),
        ("What does a canoe cost for a full day?", "What about a single scull?", "What does a single scull"),
        ("How long may I borrow a book?", "And a DVD?", "How long may I borrow a DVD"),
        ("Was kostet eine Tageskarte?", "Und ein Monatspass?", "Was kostet ein Monatspass"),
        ("Wat kost het om een bank te brengen?", "En een autoband?", "Wat kost het om een autoband"),
        ("What is the price of a canoe?", "And a rowing boat?", "What is the price of a rowing boat"),
        ("May a member bring a guest?", "And a dog?", "May a"),
        ("When is the library open?", "And the cafe?", "When is the cafe"),
        ("When is the snack bar open on Sundays?", "And the shop?", "When is the shop"),
        ("When is Harbour Hall open on Sundays?", "And the boat house?", "When is the boat house"),
        ("Wanneer is Pakhuis Noord open?", "En het magazijn?", "Wanneer is het magazijn"),
        ("When is Harbour Hall open on Sundays?", "And the other?", "When is"),
        ("Wann ist der Kiosk am Sonntag geöffnet?", "Und der Laden?", "Wann ist der Laden"),
        ("Wanneer is de snackbar op zondag open?", "En de winkel?", "Wanneer is de winkel"),
        ("Quand le snack est-il ouvert dimanche ?", "Et la boutique ?", "Quand la boutique"),
        ("¿A qué hora abre el bar hoy?", "¿Y la tienda?", "¿A qué hora abre la tienda"),
        ("How long is the hall open?", "What about the pool in the cellar?", "How long is the pool in the cellar"),
        ("What is the fee for the locker?", "And the deposit?", "What is"),
        ("How many people does the blue hall seat?", "What about the red one?", "How many"),
        ("Who checks the boiler?", "And the other?", "Who checks"),
        ("Wie lange muss der Kuchen backen?", "und der mit Mohn?", "Wie lange"),
        ("Wann endet der Kurs?", "Und die anderen?", "Wann endet"),
        ("Was passiert nach der Anreise?", "Und die Kaution?", "Was passiert"),
        ("When is the library open?", "And staff?", "When is"),
        ("Was kostet ein Platz im Parkhaus?", "Und in der Garage?", "Was kostet ein Platz in der Garage"),
        ("Was kostet ein Platz im Parkhaus Nord?", "Und in Linz?", "Was kostet"),
        ("Wie viele passen in den größten Saal von Ost?", "Und in West?", "Wie viele"),
        ("How many fit in the largest hall of East?", "And in West?", "How many"),
        ("How many fit in the largest hall?", "And in the smallest?", "How many fit in the smallest"),
        ("Wat kost een kaartje voor kinderen?", "En voor ouderen?", "Wat kost een kaartje voor ouderen"),
        ("Who pays for the trip in May?", "And in June?", "Who pays for the trip in June"),
        ("In which year was it founded?", "And in Spain?", "In which"),
        ("Hoeveel gist gaat er in het brood?", "En zout?", "Hoeveel"),
        ("Welche Batterie braucht das Thermometer?", "Und Kabel?", "Welche"),
        ("Which paper fits the printer?", "And toner?", "Which"),
    ],
)
def test_what_is_asked_about_another_place_keeps_the_words_before_the_place(
    before: str, question: str, text: str
) -> None:
    assert beginning(question, [before]).text == text


def test_a_question_that_lacks_nothing_may_go_on() -> None:
    assert going_on("How long is the notice? ") == Beginning("How long is the notice", goes_on=True)
    assert going_on("wie hoch ist der verbrauch") == Beginning("wie hoch ist der verbrauch", goes_on=True)


def test_what_a_rewrite_replaces_need_not_be_kept() -> None:
    assert own_words("Was ist mit dem kleinen?") == " dem kleinen?"
    assert own_words("Hoe zit dat met de kleine?") == " de kleine?"
    assert own_words("Wat kost die?").split() == ["Wat", "kost", "?"]
    past = [Exchange("Welche Batterie braucht das große Thermometer von Ott?", "Eine vom Typ AA.")]
    meant = "Welche Batterie braucht das kleine Thermometer von Ott?"
    assert usable(meant, "Was ist mit dem kleinen?", past) == meant
    past = [Exchange("Dürfen auf den Balkonen Grillgeräte benutzt werden?", "Ja, Elektrogrills dürfen benutzt werden.")]
    meant = "Bis wie viel Uhr darf man die Grillgeräte auf den Balkonen benutzen?"
    assert usable(meant, "Bis wie viel Uhr darf man sie benutzen?", past) == meant


@pytest.mark.parametrize(
    ("question", "text", "without"),
    [
        ("When was he born?", "When was", ("he",)),
        ("What is its capital?", "What is", ("its",)),
        ("How much do they cost there?", "How much do", ("they", "there")),
        ("Wie viel erhält sie dafür im Jahr?", "Wie viel erhält", ("sie", "dafür")),
        ("Op welk toestel is hij te bereiken?", "Op welk toestel is", ("hij",)),
        ("Hoe laat gaat die op zaterdag dicht?", "Hoe laat gaat", ("die",)),
        ("Bij welke temperatuur wordt het bewaard?", "Bij welke temperatuur wordt", ("het",)),
        ("Who has to approve that?", "Who has to approve", ("that",)),
        ("Wer muss dem zustimmen?", "Wer muss", ("dem",)),
        ("Was kostet das?", "Was kostet", ("das",)),
        ("Was kostet das neue Gerät?", "", ()),
        ("Wer hat das Gerät bestellt?", "", ()),
        ("Wanneer wordt het museum geopend?", "", ()),
        ("Until when is it possible to cancel?", "", ()),
        ("How much does it cost to rent a car?", "", ()),
        ("Is it safe if somebody leans on the rail?", "", ()),
        ("Wat kost het om een band te brengen?", "", ()),
        ("Y a-t-il un parking ?", "", ()),
        ("Was empfehlen Sie?", "", ()),
        ("How does a student renew his card?", "", ()),
        ("How do employees renew cards when they expire?", "", ()),
        ("Can a customer return a pump if it is broken?", "", ()),
        ("Who deployed its army in 1979?", "", ()),
        ("What is the capital of Spain?", "", ()),
    ],
)
def test_a_pronoun_is_kept_out_unless_its_question_may_say_what_it_means(
    question: str, text: str, without: tuple[str, ...]
) -> None:
    assert beginning(question, [KEPT]) == Beginning(text, without)


@pytest.mark.parametrize(
    ("question", "language", "found"),
    [
        ("How long are spare parts available?", "en", True),
        ("how much is the fine if I return a book late?", "en", True),
        ("Wat betalen externe huurders per dagdeel?", "nl", True),
        ("Welche Kündigungsfrist gilt?", "de", True),
        ("Who designed the Northgate Bridge?", "en", False),
        ("How much memory does version 5 need?", "en", False),
        ("Wie lange gilt die Garantie der P200?", "de", False),
        ("西班牙的首都是什么城市", "zh", False),
        ("…", "en", False),
        (f"why {'really ' * 60}", "en", False),
    ],
)
def test_a_question_without_a_name_may_be_about_what_was_asked_before(
    question: str, language: str, found: bool
) -> None:
    assert names_nothing(question, language) is found


@pytest.mark.parametrize(
    ("start", "reply", "text"),
    [
        ("How long", " are backups kept in Spain?", "How long are backups kept in Spain?"),
        ("How long", "are backups kept in Spain?", "How long are backups kept in Spain?"),
        ("How long", "How long are backups kept in Spain?", "How long are backups kept in Spain?"),
        ("What is the name of Ann", "'s book?", "What is the name of Ann's book?"),
        ("", " When was Bell born?", "When was Bell born?"),
    ],
)
def test_a_reply_completes_its_beginning(start: str, reply: str, text: str) -> None:
    assert completed(start, reply) == text


def test_an_answer_and_words_of_the_examples_are_no_rewrite() -> None:
    past = [Exchange("How long are backups kept?", "Backups are kept for 35 days.")]
    assert usable("Backups are kept for 35 days in Spain.", "And in Spain?", past) is None
    assert usable("How long are backups kept at the Rhine?", "And for how long?", past) is None
    assert usable("How long are backups kept in Spain?", "And in Spain?", past) == "How long are backups kept in Spain?"


def test_the_examples_are_of_the_conversations_language_and_the_prompt_ends_with_the_beginning(tokens: Tokens) -> None:
    past = [Exchange("Hoe lang worden kopieën bewaard?", "35 dagen.")]
    segments = rewrite.prompt("En in Spanje?", past, tokens, 4000, language="nl", beginning="Hoe lang")
    assert segments is not None
    assert [(one.kind, one.text) for one in segments[-1:]] == [("instruction", "Hoe lang")]
    text = "".join(segment.text for segment in segments)
    assert "En van Spanje?" in text
    assert "And of Spain?" not in text
    others = rewrite.prompt("…", past, tokens, 4000, language="el")
    assert others is not None
    assert "And of Spain?" in "".join(segment.text for segment in others)


def test_every_language_has_the_same_examples() -> None:
    for group in EXAMPLES.values():
        assert len(group) == 6
        assert group[-1].meant == group[-1].follow_up, "a question about something else stays as it is"
        assert all(example.meant != example.follow_up for example in group[:-1])


@pytest.mark.parametrize(
    ("question", "text", "without"),
    [
        ("Wer macht das und was kostet es?", "Wer macht", ("das", "es")),
        ("Was kostet es für Kinder?", "Was kostet", ("es",)),
        ("Wie viele Plätze gibt es?", "", ()),
        ("Wann wird es dunkel?", "", ()),
        ("Wer macht das Frühstück?", "", ()),
    ],
)
def test_german_pronouns_are_told_from_articles_and_from_nothing(
    question: str, text: str, without: tuple[str, ...]
) -> None:
    assert beginning(question, [KEPT]) == Beginning(text, without)


@pytest.mark.parametrize(
    ("question", "before", "meant"),
    [
        ("Und während der Probezeit?", "Wie lange ist die Frist nach der Probezeit?",
         "Wie lange ist die Frist während der Probezeit?"),
        ("And after the break?", "Who helps during the break in the yard?", "Who helps after the break in the yard?"),
        ("En na de les?", "Wat kost parkeren tijdens de les?", "Wat kost parkeren na de les?"),
        ("Without breakfast?", "What is a room with breakfast?", "What is a room without breakfast?"),
        ("And after the break?", "Who helps during the lesson?", None),
        ("And after the break?", "Who helps after the break?", None),
        ("And the break?", "Who helps during the break?", None),
    ],
)  # fmt: skip
def test_the_other_side_of_something_takes_its_place(question: str, before: str, meant: str | None) -> None:
    assert other_side(question, [before]) == meant
