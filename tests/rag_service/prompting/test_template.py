"""Prompt templates: files by language, named slots, no code."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_service.errors import InvalidSettings
from rag_service.prompting.template import SLOTS, Templates, check, parts, shipped

QUESTIONS = {
    "en": "How long does the warranty last?",
    "nl": "Hoe lang is de garantie geldig?",
    "de": "Wie lange gilt die Garantie?",
    "es": "¿Cuánto tiempo dura la garantía?",
    "zh": "保修期是多久？",
}


@pytest.mark.parametrize("language", QUESTIONS)
def test_a_question_gets_the_template_of_its_language(language: str) -> None:
    assert Templates().language(QUESTIONS[language]) == language


@pytest.mark.parametrize("question", ["Cât durează garanția?", "Η εγγύηση πόσο διαρκεί;", "42?", "   "])
def test_a_question_in_another_language_gets_the_english_one(question: str) -> None:
    assert Templates().language(question) == "en"


def test_every_language_has_a_template_that_says_how_to_abstain() -> None:
    assert set(shipped()) == set(QUESTIONS)
    for language in QUESTIONS:
        assert "The documents do not say." in Templates(language=language).of("anything").system


@pytest.mark.parametrize(
    ("message", "language"),
    [
        ("Hello!", "en"),
        ("Thank you very much, that helps.", "en"),
        ("Ok, thanks", "en"),
        ("Danke", "de"),
        ("Vielen Dank für die Auskunft!", "de"),
        ("Hoi", "nl"),
        ("Dank je wel, dat helpt", "nl"),
        ("Muchas gracias", "es"),
        ("谢谢！", "zh"),
    ],
)
def test_greetings_and_thanks_are_told_with_their_language(message: str, language: str) -> None:
    assert Templates().is_greeting(message)
    assert Templates().language(message) == language


@pytest.mark.parametrize(
    "message",
    [
        "",
        "?",
        "Is that good?",
        "Was it very good?",
        "is that ok",
        "ist das gut",
        "was dat goed",
        "Thanks for the help with the boiler.",
        "Who helps?",
        "Thanks, and what does it cost?",
        "Danke, und die DVDs?",
        "And the night shift?",
        "that",
        "thanks " * 9,
    ],
)
def test_other_messages_are_none(message: str) -> None:
    assert not Templates().is_greeting(message)


def test_slots_are_names_in_braces() -> None:
    assert parts("Q: {question}\n") == [("Q: ", None), ("", "question"), ("\n", None)]
    assert parts("{{}}") == [("{", None), ("}", None)]


@pytest.mark.parametrize(
    "text",
    ["{question.__class__}", "{question!r}", "{question:>10}", "{0}", "{}", "{question[0]}", "{question", "question}"],
)
def test_a_slot_has_no_code(text: str) -> None:
    with pytest.raises(ValueError, match="`question`"):
        check("question", text)


@pytest.mark.parametrize("name", SLOTS)
def test_a_missing_slot_is_an_error_that_names_it(name: str) -> None:
    with pytest.raises(ValueError, match=rf"`{name}` must have \{{{SLOTS[name][0]}\}}"):
        check(name, "nothing")


def test_contents_with_braces_stay_as_they_are() -> None:
    template = Templates().of("?")
    assert "{title}" in template.passage.format(title="{title}", text="{x} {{")


def test_a_folder_replaces_and_adds_languages(tmp_path: Path) -> None:
    (tmp_path / "en.toml").write_text('system = "Be brief."\n', encoding="utf-8")
    (tmp_path / "fr.toml").write_text('system = "Soyez bref."\n', encoding="utf-8")
    templates = Templates(tmp_path)
    assert templates.of(QUESTIONS["en"]).system == "Be brief."
    assert templates.of(QUESTIONS["en"]).question == Templates().of(QUESTIONS["en"]).question
    assert templates.of("Combien de temps dure la garantie du produit ?").system == "Soyez bref."
    assert templates.of(QUESTIONS["de"]) == Templates().of(QUESTIONS["de"])


def test_settings_replace_texts_of_all_languages() -> None:
    templates = Templates(overrides={"system": "Be brief."})
    assert {templates.of(question).system for question in QUESTIONS.values()} == {"Be brief."}


@pytest.mark.parametrize(
    ("file", "said"),
    [
        ("system = ", "not readable TOML"),
        ('systm = "x"\n', "systm"),
        ('system = "{question}"\n', "`system` must have no slots"),
        ('question = "no slot"\n', "`question` must have {question}"),
        ('system = " "\n', "`system` is empty"),
        ("system = 3\n", "system"),
    ],
)
def test_a_wrong_file_is_named_with_what_is_wrong(tmp_path: Path, file: str, said: str) -> None:
    (tmp_path / "en.toml").write_text(file, encoding="utf-8")
    with pytest.raises(InvalidSettings) as error:
        Templates(tmp_path)
    assert said in str(error.value)


def test_a_language_without_template_is_an_error() -> None:
    with pytest.raises(InvalidSettings, match=r"RAG_PROMPT__LANGUAGE.*de, en"):
        Templates(language="tlh")


def test_a_collection_and_a_request_have_texts_of_their_own() -> None:
    templates = Templates(collections={"handbook": {"system": "Be brief.", "refusal": "No."}})
    usual, own = templates.of(QUESTIONS["nl"]), templates.of(QUESTIONS["nl"], "handbook")
    assert (own.system, own.refusal, own.question) == ("Be brief.", "No.", usual.question)
    asked = templates.of(QUESTIONS["nl"], "handbook", {"system": "Be long."})
    assert (asked.system, asked.refusal) == ("Be long.", "No.")
    assert templates.of(QUESTIONS["nl"], "other") == usual


def test_only_the_templates_themselves_have_a_digest() -> None:
    templates = Templates(collections={"handbook": {"system": "Be brief."}})
    assert templates.digest_of(templates.of(QUESTIONS["nl"])) == templates.digest == Templates().digest
    assert templates.digest_of(templates.of(QUESTIONS["nl"], "handbook")) == ""
    assert Templates(overrides={"check": "{question} {answer}?"}).digest != templates.digest
    assert Templates(overrides={"refusal": "No."}).digest == templates.digest


@pytest.mark.parametrize("texts", [{"sytem": "x"}, {"question": "no slot"}, {"system": " "}])
def test_wrong_texts_of_a_collection_or_a_request_are_rejected(texts: dict[str, str]) -> None:
    with pytest.raises(InvalidSettings, match="RAG_PROMPT__COLLECTIONS, handbook"):
        Templates(collections={"handbook": texts})
    with pytest.raises(ValueError, match="text"):
        Templates().of("What?", None, texts)
