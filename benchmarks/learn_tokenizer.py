"""Learn the service's own tokenizer, for text from model servers whose tokenizer it does not have.

    python benchmarks/learn_tokenizer.py prompts.jsonl --out workers/tokens/own/tokenizer.json

A byte-level BPE. Its first merges make each character of `characters()` one token; the later ones join characters
as they follow each other in training prompts (JSON lines with `turns`) and in the stop words of the `stopwordsiso`
package. Benchmark prompts must not be among the prompts. The same input and the same versions of `tokenizers` and
`stopwordsiso` give the same bytes.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unicodedata import ucd_3_2_0 as unicode  # one version for every Python, so that all give the same characters

import stopwordsiso
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from workers.tokens.token_bytes import byte_letters

SIZE = 40_000
LONGEST = 24
"""Most characters of a learned token."""
STOP_WORDS = 8
"""How often the corpus has each stop word, with a capital letter half as often."""
NO_SPACES = ("ja", "th", "zh")
"""Languages whose words have no space in front. Their stop words are five times as often in the corpus."""
DEEPEST = 24
"""Most spaces of an indentation in the corpus."""
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
WRITTEN = ("<tool_call>", "</tool_call>")
SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{M}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
"""As Qwen2.5 splits, but marks belong to the word: without them Thai and Hindi words have no way to be tokens."""
_BLOCKS = (
    (0x00A0, 0x024F),  # Latin with diacritics
    (0x0250, 0x036F),  # the phonetic alphabet, combining marks
    (0x0370, 0x058F),  # Greek, Cyrillic, Armenian
    (0x0591, 0x06FF),  # Hebrew, Arabic
    (0x0901, 0x0DFF),  # Devanagari and the other scripts of India
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x10A0, 0x10FF),  # Georgian
    (0x1E00, 0x1FFF),  # Vietnamese, Greek of old
    (0x2010, 0x2044),  # punctuation
    (0x20A0, 0x22FF),  # currencies, letter-like signs, arrows, mathematics
)
_LETTERS = byte_letters()
_LATER = [*"ẞ₹₺₽₿", *map(chr, range(0x1F600, 0x1F645))]
"""Signs and emoticons that came after Unicode 3.2."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("prompts", type=Path)
    parser.add_argument("--size", type=int, default=SIZE, help="number of ids in all")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    single = characters()
    pieces, merges = character_merges(single)
    learned = learn(list(corpus(options.prompts, single)), single, options.size - len(pieces) - len(SPECIAL + WRITTEN))
    merges += [(spelled(first), spelled(second)) for first, second in learned]
    pieces += [spelled(first + second) for first, second in learned]
    options.out.write_text(assembled(pieces, merges), encoding="utf-8")
    print(
        f"wrote {options.out}: {len(single)} characters, {len(learned)} learned, {len(pieces)} ids and control tokens"
    )


def characters() -> list[str]:
    """The characters beyond ASCII that are one token each, in the order of their code points.

    Chinese as in GB 2312 and the first level of Big5, Japanese as in JIS X 0208, the 2,350 common Korean syllables, and
    the letters, marks and signs of other scripts.
    """
    high = range(0xA1, 0xFF)
    chinese = _coded("gb2312", high, high) | _coded("big5", range(0xA4, 0xC7), (*range(0x40, 0x7F), *high))
    korean = {character for character in _coded("euc_kr", high, high) if "가" <= character <= "힣"}
    others = {chr(code) for first, last in _BLOCKS for code in range(first, last + 1)}
    assigned = {character for character in others if not unicode.category(character).startswith("C")}
    return sorted(chinese | _coded("euc_jp", high, high) | korean | assigned | set(_LATER))


def character_merges(single: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """The bytes, the beginnings of these characters and the characters, as pieces; and the merges that build them.

    They are the first merges, so no other merge can take a byte of such a character away.
    """
    pieces = list(_LETTERS.values())
    merges: list[tuple[str, str]] = []
    known = set(pieces)
    for length in (2, 3, 4):
        for character in single:
            letters = spelled(character)
            if len(letters) >= length and (piece := letters[:length]) not in known:
                known.add(piece)
                pieces.append(piece)
                merges.append((piece[:-1], piece[-1]))
    return pieces, merges


def corpus(prompts: Path, single: Sequence[str]) -> Iterator[str]:
    """Texts in which every character is ASCII or one of `single`; others are line ends."""
    other = re.compile(f"[^\0-\x7f{re.escape(''.join(single))}]")
    for line in prompts.read_text(encoding="utf-8").split("\n"):
        for turn in json.loads(line)["turns"] if line.strip() else ():
            yield other.sub("\n", turn)
    for language in sorted(stopwordsiso.langs()):
        words = [other.sub("\n", word) for word in sorted(stopwordsiso.stopwords(language))]
        if language in NO_SPACES:
            yield from words * STOP_WORDS * 5
        else:
            yield from [f" {word}" for word in words] * STOP_WORDS
            yield from [f" {word[:1].upper()}{word[1:]}" for word in words] * (STOP_WORDS // 2)
    yield from ["\n" + " " * depth + "x" for depth in range(2, DEEPEST + 1)] * STOP_WORDS


def learn(texts: Sequence[str], single: Sequence[str], count: int) -> list[tuple[str, str]]:
    """The `count` merges of characters that byte-pair encoding learns from texts, in order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    alphabet = [*map(chr, range(128)), *single]
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + count,
        initial_alphabet=alphabet,
        max_token_length=LONGEST,
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return [(first, second) for first, second in json.loads(tokenizer.to_str())["model"]["merges"]]


def spelled(text: str) -> str:
    """A text as byte-level vocabularies write it."""
    return "".join(_LETTERS[byte] for byte in text.encode())


def assembled(pieces: Sequence[str], merges: Sequence[tuple[str, str]]) -> str:
    """The tokenizer.json with these pieces in the order of their ids, then the control tokens."""
    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex(SPLIT), "isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, letters])
    tokenizer.decoder = decoders.ByteLevel()
    source: dict[str, Any] = json.loads(tokenizer.to_str())
    source["model"]["vocab"] = {piece: number for number, piece in enumerate(pieces)}
    source["model"]["merges"] = [f"{first} {second}" for first, second in merges]
    tokenizer = Tokenizer.from_str(json.dumps(source))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in WRITTEN])
    return tokenizer.to_str() + "\n"


def _coded(codec: str, firsts: Sequence[int], seconds: Sequence[int]) -> set[str]:
    """The characters that a codec writes in two bytes."""
    decoded = (bytes([first, second]).decode(codec, "ignore") for first in firsts for second in seconds)
    return {text for text in decoded if len(text) == 1 and not text.isascii()}


if __name__ == "__main__":
    main()
