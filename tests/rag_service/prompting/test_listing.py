"""Questions for a list of documents: which ones they are, and how they are answered."""

from __future__ import annotations

import pytest

from rag_service.prompting.documents.listing import MOST, looked_up, stated
from rag_service.prompting.patterns import check, words_of
from rag_service.prompting.template import Templates
from retriever import Mentions, Passage
from retriever.search.mentions import Mention

TEMPLATES = Templates()


@pytest.mark.parametrize(
    ("question", "language", "words"),
    [
        ("Which documents mention hotels?", "en", "hotels"),
        ("which documents mention the “travel policy”", "en", "travel policy"),
        ("What pages talk about parental leave?", "en", "parental leave"),
        ("List all documents that mention Zurich.", "en", "Zurich"),
        ("How many documents contain the word 'limit'?", "en", "limit"),
        ("Show me documents about parental leave", "en", "parental leave"),
        ("In which documents is the hotel limit mentioned?", "en", "hotel limit"),
        ("Where is the laptop mentioned?", "en", "laptop"),
        ("Welke documenten noemen de hotels?", "nl", "hotels"),
        ("Welke documenten gaan over ouderschapsverlof?", "nl", "ouderschapsverlof"),
        ("In welke documenten wordt het hotel genoemd?", "nl", "hotel"),
        ("In welke bestanden staat Zürich?", "nl", "Zürich"),
        ("Welche Dokumente erwähnen Hotels?", "de", "Hotels"),
        ("In welchen Dokumenten wird das Hotel erwähnt?", "de", "Hotel"),
        ("In wie vielen Dateien kommt Zürich vor?", "de", "Zürich"),
        ("¿Qué documentos mencionan los hoteles?", "es", "hoteles"),
        ("¿En qué documentos aparece la palabra hotel?", "es", "hotel"),
        ("¿Cuántas páginas hablan de Zúrich?", "es", "Zúrich"),
        ("哪些文档提到了旅行政策？", "zh", "旅行政策"),
        ("列出所有关于酒店的文档", "zh", None),
        ("哪些文件中提到酒店?", "zh", "酒店"),
        ("What does the travel policy say about hotels?", "en", None),
        ("Which documents do I need for parental leave?", "en", None),
        ("What documents must visitors show at the gate?", "en", None),
        ("Which hotels are mentioned?", "en", None),
        ("Where is the laptop?", "en", None),
        ("Which documents mention?", "en", None),
        ("Which documents mention “”?", "en", None),
        ("Welke documenten heb ik nodig?", "nl", None),
        ("Welche Dokumente brauche ich für die Elternzeit?", "de", None),
        ("¿Qué documentos necesito?", "es", None),
        ("哪些文件是必需的？", "zh", None),
        ("", "en", None),
    ],
)
def test_what_is_asked_for(question: str, language: str, words: str | None) -> None:
    assert words_of(question, TEMPLATES._templates[language].listing_questions) == words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Summarise the travel policy.", "travel policy"),
        ("Can you please summarize our on-call guide?", "on-call guide"),
        ("Give me a short summary of the data retention document.", "data retention"),
        ("What is the travel policy about?", "travel policy"),
        ("Vat het reisbeleid samen", "reisbeleid"),
        ("Waar gaat het reisbeleid over?", "reisbeleid"),
        ("Fasse die Reiserichtlinie bitte zusammen!", "Reiserichtlinie"),
        ("Worum geht es in der Reiserichtlinie?", "Reiserichtlinie"),
        ("¿De qué trata la política de viajes?", "política de viajes"),
        ("总结一下旅行政策", "旅行政策"),
        ("What is the limit?", None),
        ("Summarise.", None),
        ("How do I summarise a document?", None),
    ],
)
def test_which_document_is_meant(question: str, words: str | None) -> None:
    asked = TEMPLATES.asked("whole", question)
    assert (asked and asked[0]) == words


def test_a_line_without_its_slot_is_refused() -> None:
    assert check("listing_questions", "which {words}\n\n") == "which {words}\n\n"
    with pytest.raises(ValueError, match="which documents"):
        check("listing_questions", "where {words}\nwhich documents")


def mention(number: int, text: str, chunks: int = 1) -> Mention:
    passage = Passage(
        "c", f"d{number}", f"d{number}:0", f"Title {number}", None, None, None, text, 0, len(text), 1.0, 1
    )
    return Mention(passage, chunks)


def test_the_answer_counts_names_and_cites() -> None:
    found = [mention(1, "All about the Hotel  limit.", 3), mention(2, "Limits of hotels.")]
    answer = stated(["hotel limit"], "", Mentions(found, 7, True), TEMPLATES._templates["en"])
    first, second = answer.sentences
    assert answer.text == ("2 of 7 documents mention “hotel limit”:\n- Title 1 (passages: 3)\n- Title 2 (passages: 1)")
    assert [answer.text[one.start : one.end] for one in answer.sentences] == [
        "- Title 1 (passages: 3)",
        "- Title 2 (passages: 1)",
    ]
    assert found[0].passage.text[first.source_start : first.source_end] == "Hotel  limit"
    assert (second.passage, second.source_start, second.source_end) == (1, 0, len("Limits of hotels."))


def test_a_long_list_is_cut_and_says_so() -> None:
    found = [mention(n, "hotel") for n in range(MOST + 3)]
    answer = stated(["hotel"], "", Mentions(found, 99, True), TEMPLATES._templates["en"])
    assert len(answer.sentences) == MOST
    assert answer.text.startswith(f"{MOST + 3} of 99")
    assert answer.text.endswith("… and 3 more.")


@pytest.mark.parametrize("language", TEMPLATES.languages)
def test_nothing_is_said_to_be_nothing(language: str) -> None:
    answer = stated(["zebra {x}"], "", Mentions([], 7, False), TEMPLATES._templates[language])
    assert "7" in answer.text
    assert "zebra {x}" in answer.text
    assert answer.sentences == []
    apart = stated(["a b"], "", Mentions([mention(1, "b a")], 7, False), TEMPLATES._templates[language])
    together = stated(["a b"], "", Mentions([mention(1, "a b")], 7, True), TEMPLATES._templates[language])
    assert apart.text != together.text


@pytest.mark.parametrize(
    ("language", "words", "found", "said"),
    [
        ("en", "hotels and leave", ["d3"], "“hotels” and “leave”"),
        ("en", "hotels, leave and “visa”", [], "“hotels” and “leave” and “visa”"),
        ("en", "hotels, leave, and visa", [], "“hotels” and “leave” and “visa”"),
        ("en", "hotels or leave", ["d3", "d1", "d2"], "“hotels” or “leave”"),
        ("en", "terms and conditions", ["d4"], "“terms and conditions”"),
        ("en", "brandy", [], "“brandy”"),
        ("de", "Hotels und Leave", ["d3"], "„Hotels“ und „Leave“"),
        ("nl", "hotels of leave", ["d3", "d1", "d2"], "“hotels” of “leave”"),
        ("es", "hotels y leave", ["d3"], "«hotels» y «leave»"),
        ("zh", "hotels和leave", ["d3"], "“hotels”和“leave”"),
    ],
)
def test_several_words(language: str, words: str, found: list[str], said: str) -> None:
    texts = {1: "hotels", 2: "leave", 3: "leave beside hotels", 4: "terms and conditions"}

    def look(phrase: str) -> Mentions:
        some = [mention(number, text) for number, text in texts.items() if phrase.lower() in text]
        return Mentions(some, 4, True)

    template = TEMPLATES._templates[language]
    listed = looked_up(words, template, look)
    assert listed is not None
    phrases, joint, mentions = listed
    answer = stated(phrases, joint, mentions, template)
    assert [one.passage.document_id for one in mentions.found] == found
    assert said in answer.text.partition("\n")[0]


@pytest.mark.parametrize(
    ("language", "words", "asks"),
    [
        ("en", "schools and what do they cost", True),
        ("en", "the solar telescope, and who may borrow it", True),
        ("en", "schools or where they are", True),
        ("en", "April and May", False),
        ("en", "who and what", False),
        ("de", "Schulen und was sie kosten", True),
        ("de", "Schulen und Kosten", False),
        ("nl", "scholen en hoe duur ze zijn", True),
        ("es", "escuelas y cuánto cuestan", True),
    ],
)
def test_a_question_behind_the_words_makes_no_list(language: str, words: str, asks: bool) -> None:
    """None of the documents mentions “what do they cost”, was an answer."""
    assert (looked_up(words, TEMPLATES._templates[language], lambda phrase: Mentions([], 4, True)) is None) is asks


@pytest.mark.parametrize(
    ("language", "words"), [("en", "hotels and leave or visa"), ("en", "a, b or c and d"), ("de", "a oder b und c")]
)
def test_all_of_some_or_any_of_others_is_no_list(language: str, words: str) -> None:
    """It can be meant in two ways, and a list is stated as certain."""
    template = TEMPLATES._templates[language]
    assert looked_up(words, template, lambda phrase: Mentions([], 4, True)) is None
    written = looked_up(words, template, lambda phrase: Mentions([mention(1, phrase)], 4, True))
    assert written is not None
    assert written[0] == [words]
