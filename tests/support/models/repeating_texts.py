"""Texts that repeat themselves for good reasons: tables, listings, drawings, poems, lists; and texts that are stuck.

`pieces` splits a text about as a tokenizer does: words with their space, single digits, runs of one sign.
"""

from __future__ import annotations

import re

_PIECE = re.compile(r" ?[^\W\d_]+|\d|([^\w\s]|_)\1{0,7}|\n+| +|\s")


def pieces(text: str) -> list[int]:
    """Token ids of a text; equal pieces have equal ids."""
    return [int.from_bytes(match.group().encode(), "big") % (2**31 - 1) for match in _PIECE.finditer(text)]


def _table(rows: int, row: str, columns: str = "| item | price | in stock |") -> str:
    return "\n".join([columns, "|" + " --- |" * (columns.count("|") - 1), *(row.format(i) for i in range(rows))])


REASONABLE: dict[str, str] = {
    "a Markdown table": _table(24, "| bolt M{0} | {0}.50 | yes |"),
    "a table of the same cells": _table(9, "| n/a | n/a | n/a |"),
    "an empty form": _table(8, "|  |  |  |"),
    "a wide rule": "Name" + " " * 60 + "Amount\n" + "-" * 300 + "\nRent" + " " * 60 + "900\n" + "=" * 300 + "\n",
    "dot leaders": "\n".join(
        f"{title} {'. ' * 40}{page}" for page, title in enumerate(["Aims", "Means", "Costs", "Risks"])
    ),
    "an identity matrix": "\n".join(
        "[" + ", ".join("1" if i == j else "0" for j in range(10)) + "]," for i in range(10)
    ),
    "a matrix of zeros": "[\n" + "    [0, 0, 0, 0, 0, 0, 0, 0],\n" * 8 + "]",
    "a drawing": "\n".join(["+" + "-" * 18 + "+", *(["|" + " " * 18 + "|"] * 12), "+" + "-" * 18 + "+"]),
    "an empty chessboard": "r n b q k b n r\np p p p p p p p\n"
    + ". . . . . . . .\n" * 4
    + "P P P P P P P P\nR N B Q K B N R",
    "a listing": "def reset(board):\n"
    + "".join(f"    board[{i}] = None\n" for i in range(20))
    + "\n".join(["    try:", "        pass", "    except ValueError:", "        pass"] * 3),
    "test cases": "".join(f"    assert area({i}, {i + 1}) == {i * (i + 1)}\n" for i in range(25)),
    "closing tags": "<div><p>Hello</p>" + "</div>\n" * 12,
    "nested brackets": "(" * 40 + "x" + ")" * 40,
    "a poem with a refrain": "\n".join(
        f"{line}\nRow, row, row your boat, gently down the stream,\nmerrily, merrily, merrily, merrily,\n"
        for line in ("The sun is up.", "The wind is still.", "The night is near.", "The stars are out.")
    ),
    "a song that calls and answers": "We are going home,\nwe are going home,\nwe are going home tonight.\n" * 3,
    "numbers in order": ", ".join(map(str, range(300))),
    "a column of numbers": "\n".join(["0"] * 30 + ["1"] * 30),
    "opening hours": "\n".join(
        f"{day}: 09:00–17:00"
        for day in ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"] * 2
    ),
    "objects": "[" + '{"id": 0, "name": "", "tags": []}, ' * 4 + "]",
    "numbered steps": "\n".join(f"{i}. Turn the screw by one notch and read the dial again." for i in range(1, 30)),
}
"""None of them repeats too much, not even without a source."""

STUCK: dict[str, str] = {
    "a sentence": "The answer is in the second passage, which names the date of the treaty. " * 20,
    "a line": "The cat:\n" + "\n* It eats fish and drinks a bowl of milk" * 40,
    "a paragraph": "First, we add the numbers.\nThen we divide the sum by their count, which gives the mean of all.\n"
    * 20,
    "two words": "A list of countries: Chad" + ", Africa" * 200,
    "one sign": "Yes" + "!" * 4000,
    "lines": "Done." + "\n \n" * 400,
    "code": "x = 1\n" + "if x > 0:\n    x = x - 1\n    print(x)\n" * 30,
}
"""All of them do."""
