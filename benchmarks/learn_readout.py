"""Learn the readout of a model: whether the passages answer the question, from its state before it answers.

    python benchmarks/learn_readout.py prompts.jsonl --model qwen2.5-coder-1.5b --dtype bfloat16 --texts 400 \
        --layers 15 16 17 18 19 20 --states build/states --out workers/support/readouts/qwen2.5-coder-1.5b.npz

The prompts are training prompts (JSON lines with `id` and `turns`) whose message is a text, an empty line and a
question about it; benchmark prompts must not be among them. Every text gives prompts as the service builds them. Its
question is answered (`own`). It is not answered by the text without the sentences that are most like it (`cut`), nor
by texts that are most like its own (`moved`). Neither does the text answer its question with another name or year
(`swapped`), or the most similar question about another text (`other`). Half of the prompts have a second passage.

States are stored as they come; the same command goes on where it was stopped. Layer and penalty are chosen by AUROC on
texts that the readout was not fitted to, in four parts.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from math import log
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from decoder import load_engine
from decoder.model.forward_outputs import RequiredOutputs
from decoder.models import default_models_dir, resolve
from rag_service.bench.answers.statistics import auroc
from rag_service.prompting import prompt
from rag_service.prompting.template import Templates
from retriever.words import Words, split
from workers.answers.assembly import assemble
from workers.support.passages.sentences import sentences
from workers.support.readout import Readout
from workers.tokens.tokenizer import Tokens

WORDS_OF_TEXT = range(50, 261)
WORDS_OF_QUESTION = range(4, 23)
WINDOW = 8192
PARTS = 4
"""Parts of the texts, each of which is scored by a readout that was fitted to the others."""
SECOND = 110
"""Words of a second passage."""
LIKE_THE_QUESTION = 0.6
"""Sentences go with the one that is most like the question if they are at least so much like it as that."""
_REFERENCE = re.compile(
    r"^(?:based|given|from|according|using|considering|after reading|in|here is|as)\b[^,]*\b"
    r"(?:text|passage|paragraph|article|information|reference|description|context|excerpt)s?\b[^,]*,\s*(?=\w)",
    re.IGNORECASE,
)
_NO_QUESTION = re.compile(r"\b(?:summar|paragraph|passage|text|bullet|list of|above|below|describe)", re.IGNORECASE)
_NAME = re.compile(
    r"(?<=[a-z,] )(?:[A-Z][\w'’-]+(?: (?:of|the|de|la|van|von) (?=[A-Z])| (?=[A-Z]))?)+(?:[A-Z][\w'’-]+)?"
    r"|\b(?:1\d|20)\d\d\b"
)
_OF_NUMBERS = re.compile(r"when|what year|in what year|which year|how (?:many|much|long|old|far|tall|big|large)", re.I)

Passages = list[tuple[str, str]]
"""(title, text), best first."""


@dataclass(frozen=True, slots=True)
class Item:
    """A text and the question about it."""

    id: str
    text: str
    question: str

    @property
    def title(self) -> str:
        """What the text is about, if its first words say so."""
        first = re.split(r"\b(?:is|was|are|were)\b|[(,.]", self.text, maxsplit=1)[0].strip()
        return first if 0 < len(first.split()) <= 5 else "Document"


@dataclass(frozen=True, slots=True)
class Example:
    kind: str
    passages: Passages
    question: str


@dataclass(frozen=True, slots=True)
class States:
    """Attributes:
    texts, kinds: [n]
    states: float16 [n, layers, D]
    """

    texts: NDArray[np.str_]
    kinds: NDArray[np.str_]
    states: NDArray[np.float16]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--layers", type=int, nargs="+", required=True, help="decoder layers to try")
    parser.add_argument("--penalties", type=float, nargs="+", default=[100, 300, 1000])
    parser.add_argument("--states", type=Path, required=True, help="folder for the states")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.states.mkdir(parents=True, exist_ok=True)
    collect(options)
    files = sorted(options.states.glob("*.npz"))[: options.texts]
    loaded = [np.load(file) for file in files]
    states = States(*(np.concatenate([one[name] for one in loaded]) for name in ("texts", "kinds", "states")))
    print(f"{len(files)} texts, questions: {dict(Counter(states.kinds.tolist()))}")
    tried = {}
    for number, layer in enumerate(options.layers):
        for penalty in options.penalties:
            held = held_out(states, number, penalty)
            tried[held[0], layer, penalty] = number
            print(f"layer {layer}, penalty {penalty:g}: " + ", ".join(f"{area:.3f}" for area in held))
    (area, layer, penalty), number = max(tried.items())
    readout = fitted(states.states[:, number], answered(states), layer, penalty)
    np.savez(options.out, layer=layer, weights=readout.weights, bias=readout.bias)
    print(f"wrote {options.out}: layer {layer}, penalty {penalty:g}, AUROC {area:.3f} on texts it was not fitted to")


def fitted(states: NDArray[Any], labels: NDArray[np.bool_], layer: int, penalty: float) -> Readout:
    """The logistic regression with the highest likelihood, by Newton's method; both labels weigh the same in all.

    Args:
        states: [n, D]; they are standardised, and the readout's weights are those of the states as they are.
        penalty: on half of the squares of the standardised weights, besides n times the mean log-loss.
    """
    rows = states.astype(np.float64)
    means, scales = rows.mean(axis=0), rows.std(axis=0) + 1e-3
    features = np.hstack([np.ones((len(rows), 1)), (rows - means) / scales])
    sizes = np.where(labels, (~labels).mean() / labels.mean(), 1.0)
    ridge = np.full(features.shape[1], penalty)
    ridge[0] = 0.0
    weights = np.zeros(features.shape[1])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-np.clip(features @ weights, -30, 30)))
        gradient = features.T @ (sizes * (labels - chance)) - ridge * weights
        curvature = (features * (sizes * chance * (1 - chance))[:, None]).T @ features + np.diag(ridge)
        step = np.linalg.solve(curvature, gradient)
        weights += step
        if np.abs(step).max() < 1e-6:
            break
    slopes = weights[1:] / scales
    return Readout(layer, slopes.astype(np.float32), float(weights[0] - slopes @ means))


def answered(states: States) -> NDArray[np.bool_]:
    return states.kinds == "own"


def held_out(states: States, number: int, penalty: float) -> list[float]:
    """AUROC of answered questions against all others, then against those of each kind."""
    order = {text: n % PARTS for n, text in enumerate(dict.fromkeys(states.texts.tolist()))}
    parts = np.array([order[text] for text in states.texts.tolist()])
    labels, rows, odds = answered(states), states.states[:, number].astype(np.float32), np.zeros(len(parts))
    for part in range(PARTS):
        readout = fitted(rows[parts != part], labels[parts != part], 0, penalty)
        odds[parts == part] = [readout.odds(row) for row in rows[parts == part]]
    kinds = [~labels, *(states.kinds == kind for kind in sorted(set(states.kinds[~labels].tolist())))]
    return [auroc(odds[labels].tolist(), odds[chosen].tolist()) or 0.0 for chosen in kinds]


def collect(options: argparse.Namespace) -> None:
    """Store the states of texts that have no file yet, one file a text."""
    target = load_engine(options.model, dtype=options.dtype, drafter="plain").target
    target.model.config.num_hidden_layers = max(options.layers) + 1  # the layers after those need not run
    tokens = Tokens.load(resolve(options.model, default_models_dir()))
    template = Templates().of("What is it?")
    required = RequiredOutputs(last=frozenset(options.layers))
    for number, (item, found) in enumerate(examples(read(options.prompts))):
        file = options.states / f"{number:05d}.npz"
        if number >= options.texts:
            return
        if file.exists():
            continue
        prompts = [ids_of(example, tokens, template) for example in found]
        cache, before, states = target.new_cache(max(map(len, prompts))), [], []
        for ids in prompts:
            shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ids[:-1], before, strict=False)))
            cache.truncate(shared)
            outputs, before = target.prefill(ids[shared:], cache, required), ids
            states.append([outputs.last[layer].float().cpu().numpy() for layer in options.layers])
        np.savez(file, texts=[item.id] * len(found), kinds=[one.kind for one in found], states=np.float16(states))
        print(f"{number + 1}/{options.texts}: {len(found)} questions", flush=True)


def ids_of(example: Example, tokens: Tokens, template: prompt.PromptTemplate) -> list[int]:
    """The prompt as the service builds it."""
    passages = [
        {"title": title, "text": text, "document_id": str(n), "chunk_id": str(n)}
        for n, (title, text) in enumerate(example.passages)
    ]
    built = prompt.build(example.question, passages, [], tokens, window=WINDOW, max_tokens=1, template=template)
    return assemble(tokens, built.segments)[0]


def read(path: Path) -> list[Item]:
    """The prompts that are a text and a question, ordered by the SHA-256 of their ids."""
    found = []
    for line in path.read_text(encoding="utf-8").split("\n"):
        item = json.loads(line) if line.strip() else {"turns": [""]}
        text, _, question = item["turns"][0].strip().rpartition("\n\n")
        question = _REFERENCE.sub("", question.strip())
        sizes = len(text.split()) in WORDS_OF_TEXT and len(question.split()) in WORDS_OF_QUESTION
        if sizes and "\n" not in question and question.endswith("?") and not _NO_QUESTION.search(question):
            found.append(Item(item["id"], text.strip(), question[:1].upper() + question[1:]))
    return sorted(found, key=lambda item: hashlib.sha256(item.id.encode()).hexdigest())


def examples(items: Sequence[Item]) -> Iterator[tuple[Item, list[Example]]]:
    """Every item with its prompts; those that begin alike follow each other."""
    draw, words = random.Random(7), Words("en")
    texts = [frozenset(words.content(split(item.text))) for item in items]
    questions = [frozenset(words.content(split(item.question))) for item in items]
    counts = Counter(word for text in texts for word in text)

    def weight(chosen: frozenset[str]) -> float:
        return sum(log(1 + len(items) / (counts[word] + 0.5)) for word in chosen)

    def likeness(n: int, to: list[frozenset[str]], least: float, other: int) -> float:
        return weight(texts[n] & to[other]) / (least + weight(to[other])) ** 0.5

    def alike(question: frozenset[str], sentence: str) -> float:
        return weight(question & frozenset(words.content(split(sentence)))) / (weight(question) or 1.0)

    for n, item in enumerate(items):
        others = [m for m in range(len(items)) if 2 * len(texts[n] & texts[m]) <= min(len(texts[n]), len(texts[m]))]
        near = sorted(others, key=partial(likeness, n, texts, 0.0), reverse=True)[:8]
        asked = sorted(others, key=partial(likeness, n, questions, 3.0), reverse=True)[0]
        second = [("Document", _first_words(items[draw.choice(near)].text, SECOND))] * (draw.random() < 0.5)
        ahead = draw.random() < 0.5

        def among(text: str, second: Passages = second, ahead: bool = ahead, title: str = item.title) -> Passages:
            return [*second, (title, text)] if ahead else [(title, text), *second]

        found = [Example("own", among(item.text), item.question)]
        if swapped := _swapped(item, [items[m].text for m in near], draw):
            found.append(Example("swapped", among(item.text), swapped))
        if len(questions[asked]) > 1 and texts[n] & questions[asked]:
            found.append(Example("other", among(item.text), items[asked].question))
        if len((cut := _cut(item, partial(alike, questions[n]))).split()) >= min(WORDS_OF_TEXT) // 2:
            found.append(Example("cut", among(cut), item.question))
        if draw.random() < 0.4:
            moved = [("Document", _first_words(items[m].text, SECOND)) for m in draw.sample(near[:4], 2)]
            found.append(Example("moved", moved, item.question))
        yield item, found


def _first_words(text: str, count: int) -> str:
    return " ".join(text.split()[:count])


def _swapped(item: Item, near: Sequence[str], draw: random.Random) -> str:
    """The question with a name or year of another text in place of one of its own; "" if it has none."""
    names = [name.strip() for text in near for name in _NAME.findall(text)]
    new = [name for name in names if name.casefold() not in item.text.casefold() and name not in item.question]
    for name in map(str.strip, _NAME.findall(item.question)):
        kin = [one for one in new if one[0].isdigit() == name[0].isdigit() and one.count(" ") == name.count(" ")]
        if kin:
            return item.question.replace(name, draw.choice(kin))
    return ""


def _cut(item: Item, alike: Callable[[str], float]) -> str:
    """The text without the sentences that are most like the question, or without numbers if it asks for one."""
    ranked = sorted(((alike(item.text[start:end]), start, end) for start, end in sentences(item.text)), reverse=True)
    most = ranked[0][0] if ranked else 0.0
    places = [(start, end) for share, start, end in ranked if share and share >= LIKE_THE_QUESTION * most][:3]
    if _OF_NUMBERS.match(item.question):
        left = [(start, end) for _, start, end in ranked if (start, end) not in places]
        places += [(start, end) for start, end in left if re.search(r"\d", item.text[start:end])][:2]
    text = item.text
    for start, end in sorted(places, reverse=True):
        text = text[:start] + text[end:]
    return re.sub(r"\n{3,}", "\n\n", text).strip() if places else ""


if __name__ == "__main__":
    main()
