"""Follow-ups and what they mean, shown to the model that rewrites one. Small models follow these rather than the task.

In the language of the conversation: with English examples, a model of 1.5B leaves German and Dutch follow-ups as they
are, or puts them into English. Each language has the same six: names left out, a pronoun, something silently meant, and
a question about something else, which stays as it is.
"""

from __future__ import annotations

from typing import NamedTuple


class Example(NamedTuple):
    """A question, its answer, the question after them, and that one as it stands alone."""

    question: str
    answer: str
    follow_up: str
    meant: str


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "en": (
        Example(
            "What is the capital of France?",
            "The capital of France is Paris.",
            "And of Spain?",
            "What is the capital of Spain?",
        ),
        Example(
            "Who wrote Faust?",
            "Faust was written by Johann Wolfgang von Goethe.",
            "When was he born?",
            "When was Johann Wolfgang von Goethe born?",
        ),
        Example(
            "When does the museum in Ghent open?",
            "The museum in Ghent opens at ten.",
            "How much is a ticket for children?",
            "How much is a ticket for children at the museum in Ghent?",
        ),
        Example(
            "How many people does the blue hall seat?",
            "The blue hall seats 80 people.",
            "What about the red one?",
            "How many people does the red hall seat?",
        ),
        Example(
            "How long is the warranty of the pump?",
            "The pump has a warranty of two years.",
            "What does it not cover?",
            "What does the warranty of the pump not cover?",
        ),
        Example(
            "Who repairs the lift in Ghent?",
            "Liftra repairs the lift in Ghent.",
            "How long is the Rhine?",
            "How long is the Rhine?",
        ),
    ),
    "de": (
        Example(
            "Was ist die Hauptstadt von Frankreich?",
            "Die Hauptstadt von Frankreich ist Paris.",
            "Und von Spanien?",
            "Was ist die Hauptstadt von Spanien?",
        ),
        Example(
            "Wer schrieb den Faust?",
            "Johann Wolfgang von Goethe schrieb den Faust.",
            "Wann wurde er geboren?",
            "Wann wurde Johann Wolfgang von Goethe geboren?",
        ),
        Example(
            "Wann öffnet das Museum in Gent?",
            "Das Museum in Gent öffnet um zehn Uhr.",
            "Was kostet eine Karte für Kinder?",
            "Was kostet eine Karte für Kinder im Museum in Gent?",
        ),
        Example(
            "Wie viele Plätze hat der blaue Saal?",
            "Der blaue Saal hat 80 Plätze.",
            "Und der rote?",
            "Wie viele Plätze hat der rote Saal?",
        ),
        Example(
            "Wie lange gilt die Garantie der Pumpe?",
            "Die Garantie der Pumpe gilt zwei Jahre.",
            "Was deckt sie nicht ab?",
            "Was deckt die Garantie der Pumpe nicht ab?",
        ),
        Example(
            "Wer repariert den Aufzug in Gent?",
            "Liftra repariert den Aufzug in Gent.",
            "Wie lang ist der Rhein?",
            "Wie lang ist der Rhein?",
        ),
    ),
    "nl": (
        Example(
            "Wat is de hoofdstad van Frankrijk?",
            "De hoofdstad van Frankrijk is Parijs.",
            "En van Spanje?",
            "Wat is de hoofdstad van Spanje?",
        ),
        Example(
            "Wie schreef Faust?",
            "Johann Wolfgang von Goethe schreef Faust.",
            "Wanneer is hij geboren?",
            "Wanneer is Johann Wolfgang von Goethe geboren?",
        ),
        Example(
            "Hoe laat gaat het museum in Gent open?",
            "Het museum in Gent gaat om tien uur open.",
            "Wat kost een kaartje voor kinderen?",
            "Wat kost een kaartje voor kinderen in het museum in Gent?",
        ),
        Example(
            "Hoeveel plaatsen heeft de blauwe zaal?",
            "De blauwe zaal heeft 80 plaatsen.",
            "En de rode?",
            "Hoeveel plaatsen heeft de rode zaal?",
        ),
        Example(
            "Hoe lang is de garantie op de pomp?",
            "De garantie op de pomp is twee jaar.",
            "Wat dekt die niet?",
            "Wat dekt de garantie op de pomp niet?",
        ),
        Example(
            "Wie repareert de lift in Gent?",
            "Liftra repareert de lift in Gent.",
            "Hoe lang is de Rijn?",
            "Hoe lang is de Rijn?",
        ),
    ),
    "es": (
        Example(
            "¿Cuál es la capital de Francia?",
            "La capital de Francia es París.",
            "¿Y de España?",
            "¿Cuál es la capital de España?",
        ),
        Example(
            "¿Quién escribió Fausto?",
            "Johann Wolfgang von Goethe escribió Fausto.",
            "¿Cuándo nació él?",
            "¿Cuándo nació Johann Wolfgang von Goethe?",
        ),
        Example(
            "¿A qué hora abre el museo de Gante?",
            "El museo de Gante abre a las diez.",
            "¿Cuánto cuesta una entrada para niños?",
            "¿Cuánto cuesta una entrada para niños en el museo de Gante?",
        ),
        Example(
            "¿Cuántas plazas tiene la sala azul?",
            "La sala azul tiene 80 plazas.",
            "¿Y la roja?",
            "¿Cuántas plazas tiene la sala roja?",
        ),
        Example(
            "¿Cuánto dura la garantía de la bomba?",
            "La garantía de la bomba dura dos años.",
            "¿Qué no cubre?",
            "¿Qué no cubre la garantía de la bomba?",
        ),
        Example(
            "¿Quién repara el ascensor de Gante?",
            "Liftra repara el ascensor de Gante.",
            "¿Cuánto mide el Rin?",
            "¿Cuánto mide el Rin?",
        ),
    ),
    "fr": (
        Example(
            "Quelle est la capitale de la France ?",
            "La capitale de la France est Paris.",
            "Et de l'Espagne ?",
            "Quelle est la capitale de l'Espagne ?",
        ),
        Example(
            "Qui a écrit Faust ?",
            "Johann Wolfgang von Goethe a écrit Faust.",
            "Quand est-il né ?",
            "Quand Johann Wolfgang von Goethe est-il né ?",
        ),
        Example(
            "À quelle heure ouvre le musée de Gand ?",
            "Le musée de Gand ouvre à dix heures.",
            "Combien coûte un billet pour enfants ?",
            "Combien coûte un billet pour enfants au musée de Gand ?",
        ),
        Example(
            "Combien de places a la salle bleue ?",
            "La salle bleue a 80 places.",
            "Et la rouge ?",
            "Combien de places a la salle rouge ?",
        ),
        Example(
            "Combien de temps dure la garantie de la pompe ?",
            "La garantie de la pompe dure deux ans.",
            "Que ne couvre-t-elle pas ?",
            "Que ne couvre pas la garantie de la pompe ?",
        ),
        Example(
            "Qui répare l'ascenseur de Gand ?",
            "Liftra répare l'ascenseur de Gand.",
            "Quelle est la longueur du Rhin ?",
            "Quelle est la longueur du Rhin ?",
        ),
    ),
    "zh": (
        Example("法国的首都是哪里？", "法国的首都是巴黎。", "西班牙呢？", "西班牙的首都是哪里？"),
        Example("《浮士德》是谁写的？", "《浮士德》是歌德写的。", "他是什么时候出生的？", "歌德是什么时候出生的？"),
        Example("根特的博物馆几点开门？", "根特的博物馆十点开门。", "儿童票多少钱？", "根特的博物馆的儿童票多少钱？"),
        Example("蓝色大厅有多少个座位？", "蓝色大厅有80个座位。", "红色的呢？", "红色大厅有多少个座位？"),
        Example("水泵的保修期是多久？", "水泵的保修期是两年。", "它不包括什么？", "水泵的保修不包括什么？"),
        Example("根特的电梯由谁维修？", "根特的电梯由Liftra维修。", "莱茵河有多长？", "莱茵河有多长？"),
    ),
}
"""By language; English for others."""
