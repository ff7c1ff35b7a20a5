"""The service's own tokenizer gives every text back, and single characters of many scripts are single tokens."""

from __future__ import annotations

import importlib.util
import json
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workers.tokens.call_form import CallForm
from workers.tokens.chat_template import Shape
from workers.tokens.own_tokens import own_tokens
from workers.tokens.text_stream import TextStream

CONTROL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
TRICKY = (
    "<|im_",
    "start|>",
    "👩‍👩‍👧‍👦",
    "\ud83d",
    "\ude00",
    "e\u0301",
    "กี่",
    "हिन्दी",
    "\r\n",
    "  \n ",
    "\x00",
    "²",
    "漢字",
    "\ue0f0",
)
ONE_TOKEN = (
    "abcXYZ059.,;:!?()[]{}<>|#*`~",
    "äöüßÄÖÜéèêëàâçñíóúýøåæœłśćźżąęğışțșăőűčřžðþẞ",
    "αβγδεζηθικλμνξοπρστυφχψωάέήίόύώϊΑΒΓΔΩ",
    "абвгдежзийклмнопрстуфхцчшщъыьэюяёіїєґўЖЯ",
    "אבגדהוזחטיכלמנסעפצקרשתםןץ",
    "ابتثجحخدذرزسشصضطظعغفقكلمنهويءآأؤإئةىپچژگ",
    "अआइईउऊएऐओऔकखगघचछजझटठडढणतथदधनपफबभमयरलवशषसह",
    "กขคงจฉชซญฎฐณดตถทธนบปผฝพฟภมยรลวศษสหฬอฮะาเแโใไ",
    "的一是不了人我在有他这为之大来以个中上们国和地到",
    "國學會來時說對發經過後龍",
    "あいうえおかきくけこアイウエオカキクケコ々ー日本語東京駅働込",
    "가나다라마바사한국어서울은는이를",
    "،。、「」„“”‘’–—…€£¥§°±×÷→≤≥∞",
)
SAMPLES = [
    (
        "Employees may carry over up to five days of leave into the next year, if their manager agrees in writing "
        "before the end of December. Days that are not taken by the end of March are lost, unless illness was the "
        "reason.",
        4.1,
    ),
    (
        "Beschäftigte dürfen bis zu fünf Urlaubstage in das nächste Jahr übertragen, wenn die Vorgesetzte vor Ende "
        "Dezember schriftlich zustimmt. Tage, die bis Ende März nicht genommen werden, verfallen, außer bei Krankheit.",
        3.9,
    ),
    (
        "Medewerkers mogen ten hoogste vijf vakantiedagen meenemen naar het volgende jaar, als hun leidinggevende daar "
        "vóór eind december schriftelijk mee instemt. Dagen die eind maart niet zijn opgenomen, vervallen, tenzij "
        "ziekte de reden was.",
        2.7,
    ),
    (
        "如果主管在十二月底之前书面同意，员工最多可以把五天年假转到下一年。三月底之前没有使用的假期将会作废，因病不能休假的情况除外。",
        1.04,
    ),
    (
        "พนักงานสามารถยกวันลาพักร้อนไปใช้ในปีถัดไปได้ไม่เกินห้าวัน หากหัวหน้าอนุมัติเป็นลายลักษณ์อักษรก่อนสิ้นเดือนธันวาคม "
        "วันลาที่ไม่ได้ใช้ภายในสิ้นเดือนมีนาคมจะหมดอายุ เว้นแต่เจ็บป่วย",
        1.35,
    ),
    (
        "Οι εργαζόμενοι μπορούν να μεταφέρουν έως πέντε ημέρες άδειας στο επόμενο έτος, αν ο προϊστάμενός τους "
        "συμφωνήσει γραπτώς πριν από το τέλος Δεκεμβρίου. Όσες ημέρες δεν έχουν ληφθεί έως το τέλος Μαρτίου χάνονται, "
        "εκτός αν υπήρχε ασθένεια.",
        1.55,
    ),
]

texts = st.text(st.characters(), max_size=40) | st.lists(
    st.sampled_from([*TRICKY, *CONTROL]) | st.text(st.characters(), max_size=3), max_size=12
).map("".join)


def written(text: str) -> str:
    """A text with question marks for lone surrogates."""
    return text.encode("utf-8", "replace").decode()


def script() -> ModuleType:
    path = Path(__file__).parents[3] / "benchmarks" / "learn_tokenizer.py"
    spec = importlib.util.spec_from_file_location("learn_tokenizer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@given(pieces=st.lists(texts, max_size=6))
@example(pieces=["\ud83d", "\ude00", "a\ud800"])
@example(pieces=["👩", "\u200d", "👧", "", "🏽"])
@settings(max_examples=200, deadline=None)
def test_pieces_encoded_one_by_one_give_their_text_back(pieces: list[str]) -> None:
    tokens, expected = own_tokens(), written("".join(pieces))
    ids = [token for piece in pieces for token in tokens.encode_content(piece).ids]
    assert tokens.decode(ids) == expected
    stream = TextStream(tokens)
    assert "".join(stream.push(token)[0] for token in ids) + stream.flush() == expected


@given(text=texts)
@settings(max_examples=200, deadline=None)
def test_offsets_are_code_points_and_leave_nothing_out(text: str) -> None:
    tokens, expected = own_tokens(), written(text)
    encoding = tokens.encode_content(text)
    assert b"".join(map(tokens.token_bytes, encoding.ids)) == expected.encode()
    for token, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
        assert 0 <= start < end <= len(expected)
        assert tokens.token_bytes(token) in expected[start:end].encode()
    borders = [(0, 0), *encoding.offsets, (len(expected), len(expected))]
    for before, after in pairwise(borders):
        assert after[0] == before[1] or (after == before and before[1] == before[0] + 1)


@given(text=texts)
@example(text="".join(CONTROL))
@settings(max_examples=200, deadline=None)
def test_content_holds_no_control_tokens(text: str) -> None:
    tokens = own_tokens()
    control = {tokens.encode_template(token)[0] for token in CONTROL}
    assert len(control) == len(CONTROL)
    assert not control & set(tokens.encode_content(text).ids)


def test_what_is_special_and_what_is_text() -> None:
    tokens = own_tokens()
    for text in CONTROL:
        (token,) = tokens.encode_template(text)
        assert tokens.token_bytes(token) == (b"" if "|" in text else text.encode())
        assert tokens.encode_written(text) == ([token] if "|" not in text else tokens.encode_content(text).ids)


@pytest.mark.parametrize("characters", ONE_TOKEN)
def test_single_characters_are_single_tokens(characters: str) -> None:
    tokens = own_tokens()
    assert [character for character in characters if len(tokens.encode_content(character).ids) != 1] == []


def test_every_character_of_the_script_is_one_token_whatever_stands_beside_it() -> None:
    tokens, single = own_tokens(), script().characters()
    assert len(single) > 16_000
    assert [one for one in single if len(tokens.encode_content(one).ids) != 1] == []
    for start in range(0, len(single), 500):
        text = "".join(single[start : start + 500])
        offsets = tokens.encode_content(text).offsets
        assert [end for _, end in offsets[:-1]] == [start for start, _ in offsets[1:]]


def test_digits_are_tokens_of_their_own() -> None:
    assert own_tokens().encode_content("1234567890").offsets == [(n, n + 1) for n in range(10)]


@pytest.mark.parametrize(("text", "least"), SAMPLES, ids=["en", "de", "nl", "zh", "th", "el"])
def test_characters_a_token(text: str, least: float) -> None:
    assert len(text) / len(own_tokens().encode_content(text).ids) >= least


def test_the_template_is_chatml_and_adds_no_message() -> None:
    tokens = own_tokens()
    assert tokens.append_only
    assert not tokens.strips_content
    assert tokens.eos_ids == set(tokens.encode_template("<|im_end|>"))
    turns = [{"role": role} for role in ("system", "user", "assistant", "user")]
    ends, asks = "<|im_end|>\n<|im_start|>", "<|im_end|>\n<|im_start|>assistant\n"
    assert tokens.template_pieces(turns[1:2]) == ["<|im_start|>user\n", 0, asks]
    assert tokens.template_pieces(turns) == [
        *("<|im_start|>system\n", 0, f"{ends}user\n", 1, asks, 2, f"{ends}user\n", 3, asks)
    ]


def test_tools_join_the_only_system_message() -> None:
    tokens = own_tokens()
    assert tokens.call_form == CallForm()
    pieces = tokens.tool_pieces(
        [Shape("system"), Shape("user"), Shape("assistant", False, 1), Shape("tool"), Shape("tool")], 1
    )
    assert [piece for piece in pieces if isinstance(piece, int)] == [0, 7, 1, 5, 6, 3, 4]
    control = "".join(piece for piece in pieces if isinstance(piece, str))
    assert control.count("<|im_start|>system\n") == 1
    assert control.count("<|im_start|>user\n") == 2
    assert control.count("<|im_start|>") == control.count("<|im_end|>") + 1


def test_the_script_gives_the_same_bytes_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"turns": ["the wug and the wug\n\u3400", "the wug"] * 500}) + "\n", encoding="utf-8")
    learned = []
    for name in ("a.json", "b.json"):
        out = tmp_path / name
        monkeypatch.setattr(sys, "argv", ["learn_tokenizer.py", str(prompts), "--size", "18000", "--out", str(out)])
        script().main()
        learned.append(out.read_bytes())
    assert learned[0] == learned[1]
    vocabulary = json.loads(learned[0])["model"]["vocab"]
    assert "Ġwug" in vocabulary
    assert len(vocabulary) + len(CONTROL) == 18_000
