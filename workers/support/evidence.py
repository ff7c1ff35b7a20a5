"""Evidence: how much of what a sentence claims stands in one sentence of the passages, as an answer to the question.

A claim's own words, those that the question does not have, must stand in a sentence that speaks of what was asked.
Words weigh by how rare they are among the sentences of the passages (inverse document frequency), so the measure needs
no collection and no model. Overlap alone is not enough: where the claim says no and the sentence does not, or the
other way round, or a number of the claim is neither in the sentence nor in the question, little of it is left.

What was asked may also stand in the headings above the sentence. Nearly all words of "Yes, … is open on Mondays" are
the question's, so they show nothing by themselves. All of them, and the names of the question, must stand in the
sentence, or in its paragraph and the headings above it.

Pure: a function of question, claim and passages. Knows words; knows no model and no prompt.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from retriever.words import Words
from workers.support.asking import IF, condition, gives_reason, wants_reason
from workers.support.claim import Claim
from workers.support.numbers import PRICING, numbers, others, usual_form
from workers.support.polarity import NEGATIONS, NUMERALS, TELLING, negations, words_of
from workers.support.ranges import Range
from workers.support.rows import Row, Size, rows_of
from workers.support.sentences import clauses, sentences
from workers.support.states import STATES, turned
from workers.support.units import counts_another
from workers.support.word_forms import SINGULARS, near

CONTRADICTED = 0.2
"""What is left of the evidence of a sentence that says the opposite, or another number."""
NEARLY = 0.8
"""Share of a sentence from which on a claim repeats it, negations and all; otherwise its nearest clause counts."""
MOSTLY = 0.6
"""Share of its words that were asked, from which on a clause behind a yes says what was asked."""
OF_PRICES = 0.05
"""Share of their weight that words have which only say that a number is a price."""
RELATED = 0.5
"""What a word of the question counts of which only another form, a part or a compound is there."""

_BUT = re.compile(r"\W*(?:but|not|aber|nicht|maar|niet|pero|no)\b", re.IGNORECASE)
_PLAIN_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_OR = {"en": ("or",), "de": ("oder",), "nl": ("of",), "es": ("o", "u"), "fr": ("ou",)}
_JOINED = re.compile(r",?\s+(?:and|und|en|y)\s+")
_HEAD_OF_TABLE = re.compile(r"[^\n]*\|[^\n]*\n[ \t]*\|?[ \t:|]*-[-\s:|]*(?:\n|$)|[ \t]*\|?[ \t:|]*-[ \t:|-]*(?:\n|$)")
"""Its first row, and the line below that."""
_BLANK_LINE = re.compile(r"\n\s*\n")
_HEADING = re.compile(r"[^\n]{1,80}[^\n.!?:;,…。！？]")


@dataclass(frozen=True, slots=True)
class Found:
    """The best sentence for a claim.

    Attributes:
        evidence: from 0 (none) to 1 (it says all of the claim and speaks of all that was asked).
        covered: share of all the claim's words that the sentence has.
        passage: index of its passage; -1 where nothing of the claim was found.
        start, end: its place in the passage's text, in code points.
        contradicts: it says the opposite, or another number.
        denied: surely so; or no passage has a number of the claim, or a table has it in a row or column that was
            not asked for; or a yes or no has words of the question that neither the sentence nor its paragraph has.
    """

    evidence: float = 0.0
    covered: float = 0.0
    passage: int = -1
    start: int = 0
    end: int = 0
    contradicts: bool = False
    denied: bool = False


@dataclass(frozen=True, slots=True)
class _Sentence:
    passage: int
    start: int
    end: int
    text: str
    words: frozenset[str]
    around: frozenset[str]
    """Words of its paragraph, of the headings above that, and of the passage's title."""
    above: frozenset[str]
    """The latter two alone."""
    heading: frozenset[str]
    """Words of the headings alone."""
    row: Row | None
    """The row of a table that it is, or is in."""
    sizes: Mapping[str, bool]
    """The numbers of the question with units of which it names ranges, and whether these have them."""

    def told(self, own: Iterable[str], sizes: Collection[Size]) -> frozenset[str]:
        """Its words; of a row of a table also those that say what the cells with these words are about."""
        return self.words if self.row is None else self.row.told(frozenset(own), sizes) | self.above


class Evidence:
    """The sentences of some passages, to be searched for claims.

    Args:
        question: what was asked, in a form that stands alone.
        passages: their texts, best first. Titles do not count: they often repeat the question.
        language: of the question, an ISO 639-1 code.
        titles: title of each passage and the headings above its text, each in a line, if they are known. The first row
            of a table that begins before the passage is the last one.
    """

    def __init__(
        self, question: str, passages: Sequence[str], language: str = "en", titles: Sequence[str] = ()
    ) -> None:
        self._question = question
        self._words = Words(language, NEGATIONS | NUMERALS | TELLING)
        self._pricing = frozenset(self._words.content(PRICING))
        self._asked_words = words_of(question)
        self._chooses = any(word in self._asked_words for word in _OR.get(language, ()))
        under = self._content(condition(self._asked_words))
        self._condition = frozenset(under if numbers(under) else [])
        self._asked_sizes = Range.sizes(question)
        self._sentences = [
            sentence for n, passage in enumerate(passages) for sentence in self._read(n, passage, titles)
        ]
        self._within = {(one.passage, number) for one in self._sentences for number, has in one.sizes.items() if has}
        self._conditional = any(map(self._has_condition, self._sentences))
        self._headings = {(one.passage, one.start): one.heading for one in self._sentences}
        self._counts = Counter(word for sentence in self._sentences for word in sentence.words)
        self._asked = self._content(words_of(question))
        self._asked_names = self._content(words_of(" ".join(_names(question))))
        self._asked_range = Range.read(question)
        self._sizes = [*self._measured(self._asked_words)]
        self._shown_words = [word for text in (*passages, *titles, question) for word in words_of(text)]

    def of(self, claim: str) -> Found:
        """The sentence with the most evidence for a claim; of equals the first one, of the best passage.

        A question claims nothing.
        """
        return self._best(claim, self._of_question)[0]

    def of_answer(self, claims: Sequence[str]) -> list[Found]:
        """As `of` for the sentences of one answer: together they must speak of what was asked, not each of them."""
        first = [self._best(claim, self._of_question) for claim in claims]
        if len(claims) < 2:
            found = [replace(one, denied=one.denied or self._lacks_reason(claims[0], one)) for one, _ in first]
            parted = self._of_parts(claims[0]) if found and not found[0].denied else None
            return [max(*found, parted, key=lambda one: one.evidence)] if parted else found
        together = self._of_question(frozenset().union(*(words for _, words in first)))
        taken_back = any(map(self._denies_what_was_asked, claims[1:]))
        found = [self._best(claim, lambda _: together)[0] for claim in claims]
        return [replace(found[0], denied=True), *found[1:]] if taken_back and self._says_yes(claims[0]) else found

    def _of_parts(self, claim: str) -> Found | None:
        """The weakest of the parts that "and" joins in an answer to a question with parts, if each says something that
        was not asked; together they must speak of what was asked. None for others."""
        if not _JOINED.search(self._question):
            return None
        parts = [part for part in _JOINED.split(claim) if not set(self._content(words_of(part))) <= set(self._asked)]
        if len(parts) < 2:
            return None
        first = [self._best(part, self._of_question) for part in parts]
        together = self._of_question(frozenset().union(*(words for _, words in first)))
        found = [self._best(part, lambda _: together)[0] for part in parts]
        sections = {(one.passage, self._headings.get((one.passage, one.start))) for one in found}
        return min(found, key=lambda one: (not one.denied, one.evidence)) if len(sections) == 1 else None

    def _best(self, claim: str, of_question: Callable[[frozenset[str]], float]) -> tuple[Found, frozenset[str]]:
        """The best sentence for a claim, and its words."""
        read = Claim.read(claim, self._question)
        words = self._content(read.said)
        own = [word for word in words if word not in self._asked]
        judges = bool(read.verdict) or not own  # says that what was asked is so, or not
        told = [word for word in words if word in self._asked] if judges else []
        told = [word for word in told if not (read.verdict and word in self._pricing)]
        if read.verdict:  # a no may name another number than the one that was asked about
            told += [name for name in self._asked_names if read.verdict == "yes" or not name[0].isdigit()]
        invented = any(word[0].isdigit() for word in others(read.said, self._shown_words))
        best: tuple[Found, frozenset[str]] = Found(denied=invented), frozenset()
        best_rank = False, 0.0, False
        if not words or claim.rstrip().endswith(("?", "？")):
            return best
        at_odds = read.is_at_odds_with(self._asked_words) or self._denies(claim, read)
        if read.verdict != "no" and not read.negations:
            at_odds = at_odds or self._is_ruled_out(frozenset(words), bool(read.verdict))
        for sentence in self._sentences:
            there = sentence.told([*(own or words), *self._asked], self._sizes)
            if sentence.row is not None and self._compares(own, sentence.row):
                there |= {number for number, _ in self._sizes}
            there |= {number for number, has in sentence.sizes.items() if has}
            stated = self._share(own or words, there)
            if not stated:
                continue
            if judges and self._is_repeated(sentence, read):  # says it of what the paragraph is about
                stated = self._share(own or words, there | sentence.around)
                there |= sentence.around
            evidence = stated * of_question(there | sentence.heading)
            contradicts, surely = self._contradicts(read, words, sentence)
            speaks_of_it = all(near(word, sentence.around | there) for word in told)
            denied = invented or at_odds or surely or not speaks_of_it or (judges and contradicts)
            if sentence.row is not None:
                denied = denied or self._is_of_another(read, words, sentence.row)
            elif any((sentence.passage, size) in self._within and not has for size, has in sentence.sizes.items()):
                denied = True  # another sentence is about such a size
            elif self._conditional and self._condition.isdisjoint(sentence.words):
                denied = True  # another sentence says what holds under the condition that was asked for
            elif counts_another(read.said, words_of(sentence.text), self._asked_words, self._content):
                denied = True
            spoken = evidence
            if contradicts or denied:
                evidence *= CONTRADICTED
            # A yes or no is about the sentence that speaks most of what was asked, whatever that says.
            rank = (speaks_of_it, spoken, not denied) if judges else (True, evidence, True)
            if evidence and rank > best_rank:
                best_rank = rank
                covered = self._share(words, there)
                place = sentence.passage, sentence.start, sentence.end
                best = Found(evidence, covered, *place, contradicts, denied), there | sentence.heading
        return best

    def _read(self, number: int, text: str, titles: Sequence[str]) -> Iterable[_Sentence]:
        title = titles[number] if number < len(titles) else ""
        first_row = title.rpartition("\n")[2]
        title = title.removesuffix(first_row) if "|" in first_row else title
        above = set(self._content(words_of(title)))
        headings = set(self._content(words_of(title.partition("\n")[2])))
        rows = rows_of(text, first_row, lambda cell: self._content(words_of(cell)))
        heading: set[str] = set()
        around: frozenset[str] = frozenset(above)
        end_of_paragraph = 0
        for start, end in sentences(text):
            if start >= end_of_paragraph:
                blank = _BLANK_LINE.search(text, start)
                end_of_paragraph = blank.end() if blank else len(text)
                paragraph = text[start : blank.start() if blank else len(text)]
                words = set(self._content(words_of(paragraph)))
                around = frozenset(above | heading | words)
                first = paragraph.partition("\n")[0]
                if first.startswith("#") or _HEADING.fullmatch(paragraph.strip()):
                    heading = set(self._content(words_of(first)))
            if _HEAD_OF_TABLE.match(text, text.rfind("\n", 0, start) + 1):
                continue  # names of columns state nothing
            said, row = text[start:end], rows.get(text.rfind("\n", 0, start) + 1)
            words_of_it = frozenset(self._content(words_of(said)))
            headed = frozenset(headings | heading)
            sizes = {} if row else self._ranged(said)
            yield _Sentence(
                number, start, end, said, words_of_it, around, frozenset(above | heading), headed, row, sizes
            )

    def _ranged(self, said: str) -> dict[str, bool]:
        """The numbers of the question of whose unit a sentence names ranges, and whether one of these has each."""
        found: dict[str, bool] = {}
        for measured in Range.all(said) if self._asked_sizes else ():
            unit = self._content(words_of(measured.unit))
            for size in self._asked_sizes:
                if unit and size.down == measured.down and unit == self._content(words_of(size.unit)):
                    number = usual_form(f"{size.range.low:g}")
                    found[number] = found.get(number, False) or measured.range.has(size.range.low)
        return found

    def _content(self, words: Iterable[str]) -> list[str]:
        """Content words, each once, without those that only say no."""
        words = [usual_form(SINGULARS.get(word, word)) for word in words if word not in NEGATIONS]
        words = [STATES.get(word, word) for word in words]
        return list(dict.fromkeys(self._words.content(words)))

    def _measured(self, words: Sequence[str]) -> Iterable[Size]:
        """The numbers among words, each with the stem of the word behind it."""
        for word, after in pairwise([*words, ""]):
            if _PLAIN_NUMBER.fullmatch(number := usual_form(word)):
                yield number, next(iter(self._content([after] if after else [])), "")

    def _weight(self, word: str) -> float:
        weight = math.log(1 + len(self._sentences) / (self._counts[word] + 0.5))
        return OF_PRICES * weight if word in self._pricing else weight

    def _share(self, words: Sequence[str], there: frozenset[str]) -> float:
        """Share of the words' weight that is there; 0 for no words."""
        whole = sum(map(self._weight, words))
        return sum(self._weight(word) for word in words if word in there) / whole if whole else 0.0

    def _of_question(self, there: frozenset[str]) -> float:
        """Share of what was asked that is there; of a word that only another form has, such as a compound, a part."""
        whole = sum(map(self._weight, self._asked))
        told = {word: 1.0 if word in there else RELATED * near(word, there) for word in self._asked}
        return sum(self._weight(word) * share for word, share in told.items()) / whole if whole else 1.0

    def _contradicts(self, claim: Claim, words: Sequence[str], sentence: _Sentence) -> tuple[bool, bool]:
        """Whether the sentence contradicts the claim, and whether that is sure: by its clauses and as a whole."""
        text, there = sentence.text, words_of(sentence.text)
        if elsewhere := others(claim.said, [*there, *self._asked_words]):
            return True, bool(others(elsewhere, sentence.around))
        if not (claim.negations or any(word in self._asked for word in words)):
            return False, False  # a name or a number, not a statement: whether it is so, the question says
        if sentence.row is not None:
            states = claim.verdict or claim.negations  # a row's no belongs to what else was asked
            text = sentence.row.says(words, {*self._asked, *words} if states else ())
            there = words_of(text)
        denies = turned(claim.said, there)
        whole = (claim.negations != negations(there)) != denies
        if self._share(list(sentence.words), frozenset(words)) >= NEARLY:
            return whole, whole
        there = words_of(self._deciding(words, clauses(text)))
        nearly = (claim.negations % 2 != negations(there) % 2) != turned(claim.said, there)
        return nearly, nearly and whole

    def _deciding(self, words: Sequence[str], parts: Sequence[str]) -> str:
        """The clause that says whether a claim is so: the one with most of its words, but for one that takes some of
        them away, such as "… in the hall, but not in the workshop"."""
        contents = [frozenset(self._content(words_of(part))) for part in parts]
        first = max(range(len(parts)), key=lambda n: self._share(words, contents[n]))
        lacking = frozenset(words) - contents[first]
        without = (n for n, part in enumerate(parts) if _BUT.match(part) and lacking & contents[n])
        return parts[next(without, first)]

    def _is_repeated(self, sentence: _Sentence, claim: Claim) -> bool:
        """Whether a claim has nearly all words of a sentence, but for those that say no."""
        words = {word for word in words_of(sentence.text) if word not in NEGATIONS}
        return sentence.row is None and len(words.intersection(claim.said)) >= NEARLY * len(words) > 0

    def _compares(self, own: Sequence[str], row: Row) -> bool | None:
        """Whether a row that a claim names has a number as was asked for: "Which … cost more than 30 euros?" """
        if self._asked_range is None or not row.heads(own):
            return None
        return row.compares(self._asked_range, self._asked)

    def _denies(self, claim: str, read: Claim) -> bool:
        """Whether a yes has a clause that denies what was asked: "Yes, dogs are not allowed", "Yes, but not here"."""
        if read.verdict != "yes" or negations(self._asked_words) % 2 or self._chooses:
            return False
        for part in clauses(claim)[1:]:
            words = words_of(part)
            content = self._content(words)
            says_no = negations(words) % 2 and not turned(words, self._asked_words) and IF.isdisjoint(words)
            asked = sum(word in self._asked for word in content)
            if content and says_no and asked >= (1.0 if _BUT.match(part) else MOSTLY) * len(content):
                return True
        return False

    def _lacks_reason(self, claim: str, found: Found) -> bool:
        """Whether it was asked why, and neither a claim nor its sentence has a word that a reason comes with."""
        place = found.passage, found.start
        there = next((one.text for one in self._sentences if (one.passage, one.start) == place), "")
        return bool(there) and wants_reason(self._asked_words) and not gives_reason(words_of(f"{claim} {there}"))

    def _has_condition(self, sentence: _Sentence) -> bool:
        """Whether a sentence is about the condition that was asked for: "It is free if one enrols in four weeks." """
        under = self._content(condition(words_of(sentence.text))) if self._condition else []
        return bool(under) and self._condition.issubset(under)

    def _says_yes(self, claim: str) -> bool:
        return Claim.read(claim, self._question).verdict == "yes"

    def _denies_what_was_asked(self, text: str) -> bool:
        """Whether a sentence only says that something that was asked for is not so: "Tuesday is our closing day." """
        words = words_of(text)
        content = self._content(words)
        denies = (negations(words) % 2 != negations(self._asked_words) % 2) != turned(words, self._asked_words)
        return denies and len(content) > 1 and set(self._asked).issuperset(content)

    def _is_ruled_out(self, said: frozenset[str], yes: bool) -> bool:
        """Whether a sentence of the passages does so, about words half of which a yes leaves out: "There is no discount
        on cabins" beside "Yes, members get 5 percent off the pitch". Another answer must leave some out, and the
        sentence must have all that was asked: "Visitors may not bring dogs" says how many a visitor may bring."""
        return any(
            sentence.row is None
            and (len(sentence.words - said) * 2 >= len(sentence.words) if yes else sentence.words - said)
            and (yes or sentence.words.issuperset(self._asked))
            and self._denies_what_was_asked(sentence.text)
            and all(near(word, sentence.around) for word in self._asked)
            for sentence in self._sentences
        )

    def _is_of_another(self, claim: Claim, words: Sequence[str], row: Row) -> bool:
        """Whether a row has a claim's values where they were not asked for, or another yes or no than is claimed."""
        own = [word for word in words if word not in self._asked]
        if row.is_elsewhere(own, self._asked, self._sizes) or self._compares(own, row) is False:
            return True
        if claim.verdict or claim.negations:
            return False
        denies = row.answer(words) is None and negations(self._asked_words) % 2  # a name: "which room has no …?"
        return row.answer(self._asked) is bool(denies)


def _names(question: str) -> list[str]:
    """Words with a capital or a digit, but for the first; German writes all nouns so."""
    return [word for word in question.split()[1:] if word[:1].isupper() or any(map(str.isdigit, word))]
