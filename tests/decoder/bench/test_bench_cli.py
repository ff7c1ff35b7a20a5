"""The benchmarks from the command line, on a tiny model in a folder: decode, then record, then simulate."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from decoder import load_engine
from decoder.bench import find_heads, main
from decoder.induction_heads import FILE, InductionHeadsError
from decoder.recording.chat import Chat
from decoder.recording.copy_texts import TEXTS
from decoder.recording.prompts import BenchError, Item
from tests.support.tiny_models import tiny_model

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    tiny_model(seed=3, memory=0.05).save_pretrained(folder)
    vocabulary = {chr(30 + number): number for number in range(61)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="#"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=chr(32), unk_token="#")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "items.jsonl"
    items = [
        {"id": "a", "benchmark": "bench", "category": "qa", "turns": ["WHO?"], "context": ["HE IS HE.", "SHE IS."]},
        {"id": "b", "benchmark": "bench", "category": "chat", "turns": ["SAY THIS.", "SAY THAT."], "context": None},
    ]
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return path


def test_decode_record_and_simulate(
    folder: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", str(folder), "--dtype", "float64", "--max-tokens", "20", "--data", str(data)]
    decoded, recorded, simulated = tmp_path / "d.json", tmp_path / "r.jsonl", tmp_path / "s.json"
    assert main(["decode", *model, "--drafters", "casd,pld:max_ngram=2", "--json", str(decoded)]) == 0
    keep = ["--keep-logits", "--keep-hidden", "0,1"]
    assert main(["record", *model, "--out", str(recorded), "--batch", "2", *keep]) == 0
    assert len(list((tmp_path / "r.jsonl.d").glob("*.npz"))) == 3
    drafters = ["--drafters", "casd,pld:max_ngram=2,oracle"]
    assert main(["simulate", "--recorded", str(recorded), *drafters, "--json", str(simulated)]) == 0, (
        capsys.readouterr()
    )
    rows = {(r["category"], r["turn"], r["drafter"]): r for r in json.loads(decoded.read_text())["rows"]}
    scored = {(r["category"], r["turn"], r["drafter"]): r for r in json.loads(simulated.read_text())["rows"]}
    assert {key[2] for key in rows} == {"plain", "casd", "pld:max_ngram=2"}
    for key in [("qa", 1, "casd"), ("chat", 1, "pld:max_ngram=2"), ("chat", 2, "casd")]:
        for name in ("tokens", "mat", "acceptance_rate", "copied_fraction", "drafted_per_step"):
            assert rows[key][name] == scored[key][name], (key, name)
    assert all(row["divergent"] == 0 for row in rows.values())


def test_peers_rows_stand_beside_drafters_and_the_promise_can_be_read_again(
    folder: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "d.json"
    modes = ["casd", "auto", "small_model", "hf", "hf:prompt_lookup=10", f"hf:assistant={folder}"]
    model = ["--model", str(folder), "--draft-model", str(folder), "--dtype", "float64", "--max-tokens", "20"]
    arguments = ["decode", *model, "--data", str(data), "--drafters", ",".join(modes), "--json", str(out)]
    assert main(arguments) == 0, capsys.readouterr()
    result = json.loads(out.read_text())
    rows = {(row["category"], row["turn"], row["drafter"]): row for row in result["rows"]}
    assert {key[2] for key in rows} == {"plain", *modes}
    assert all(row["divergent"] == 0 for row in rows.values())
    lookup, ours = rows["qa", 1, "hf:prompt_lookup=10"], rows["qa", 1, "casd"]
    assert lookup["mat"] > 1
    assert lookup["overhead"] is None
    assert 0 < ours["overhead"] < 1
    assert sum(ours["by_kind"].values()) == ours["by_source"]["casd"][1] > 0
    assert result["cost_curve"]["rows"][0] == 1
    kept = out.read_bytes()
    prompts = out.with_suffix(".prompts.jsonl").read_bytes()
    assert main(arguments) == 0, capsys.readouterr()
    assert json.loads(out.read_text())["rows"] == json.loads(kept)["rows"]  # taken from the answers that were kept
    assert out.with_suffix(".prompts.jsonl").read_bytes() == prompts
    again = tmp_path / "promise.json"
    assert main(["promise", str(out), "--json", str(again)]) in {0, 1}
    assert json.loads(again.read_text())["promise"] == result["promise"]


def test_a_prompts_parts_are_told_by_what_their_tokens_begin_in(folder: Path) -> None:
    chat = Chat.load(folder)
    item = Item("a", "spec_bench", "rag", ("WHO?", "WHY?"), ("HE.", "SHE."))
    prompt = "<user>HE.#SHE.#WHO?<assistant>HER<user>WHY?<a>"
    segments = chat.segments(item, ["HER"])
    assert sum(part.length for part in segments) == len(chat.prompt_ids(item, ["HER"])) == len(prompt)
    marks = {"template": "t", "passage": "p", "message": "m", "answer": "c"}
    assert "".join(marks[part.kind] * part.length for part in segments) == (
        "tttttt" + "ppp" + "m" + "pppp" + "mmmmm" + "ttttttttttt" + "ccc" + "tttttt" + "mmmm" + "ttt"
    )
    edit = Item("a", "edits", "edit", ("MEND: HE IS.",), (), "HE IS.")
    parts = [(part.kind, part.length) for part in chat.segments(edit, [])]
    assert parts[1:3] == [("message", 6), ("edited", 6)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--drafters", "hf:magic=1"], "has the option 'magic'"),
        (["--drafters", "hf", "--temperature", "1"], "greedy"),
        (["--drafters", "magic"], "no drafter 'magic'"),
        (["--data", "nothing.jsonl"], "there is no file nothing.jsonl"),
        (["--limit", "0"], "--limit must be at least 1"),
        (["--max-tokens", "0"], "max_tokens must be at least 1"),
        (["--model", "no-such-model"], "no-such-model"),
    ],
)
def test_errors_take_one_line_and_say_what_to_do(
    folder: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], change: list[str], message: str
) -> None:
    usual = ["--model", str(folder), "--data", str(data), "--drafters", "casd", "--json", str(tmp_path / "out.json")]
    assert main(["decode", *usual, *change]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert message in error
    assert not (tmp_path / "out.json").exists()


def test_runs_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "decoder.bench", "--help"], capture_output=True, text=True, check=True)
    assert all(command in done.stdout for command in ("decode", "promise", "record", "simulate"))


def many(folder: Path, *, texts: bool) -> Path:
    """Eight texts to repeat, or eight items, which differ enough for some head to look at what is copied."""
    path = folder / "many.jsonl"
    words = [f"{chr(65 + n)}{chr(66 + n)}{chr(70 + n)} " * (3 + n) for n in range(8)]
    lines = [
        {"text": word} if texts else {"id": word, "benchmark": "b", "category": "c", "turns": [word, "AGAIN"]}
        for word in words
    ]
    path.write_text("".join(json.dumps(line) + "\n\n" for line in lines))
    return path


def test_heads_are_found_beside_the_model_and_loaded_with_it(folder: Path, tmp_path: Path) -> None:
    path, heads = find_heads(str(folder), dtype="float64", limit=1)
    try:
        assert path == folder / FILE
        assert heads.prompts == 1
        engine = load_engine(str(folder), drafter="plain", dtype="float64")
        assert engine.context.induction_heads == heads.pairs
        assert load_engine(str(folder), drafter="plain", induction_heads=False).context.induction_heads == ()
        elsewhere = tmp_path / "heads.json"
        of_items = find_heads(str(folder), data=many(tmp_path, texts=False), out=elsewhere, dtype="float64")
        assert of_items[0] == elsewhere
        assert of_items[1].prompts == 8
        named = load_engine(str(folder), drafter="plain", induction_heads=elsewhere)
        assert named.context.induction_heads == of_items[1].pairs
        path.write_text(path.read_text().replace('"layers": 2', '"layers": 9'))
        with pytest.raises(InductionHeadsError, match="9 layers"):
            load_engine(str(folder), drafter="plain")
    finally:
        path.unlink()
    assert load_engine(str(folder), drafter="plain").context.induction_heads == ()


def test_texts_to_repeat_come_from_a_file(folder: Path, tmp_path: Path) -> None:
    assert len(TEXTS) == len(set(TEXTS)) >= 10
    texts = many(tmp_path, texts=True)
    calls: list[tuple[int, int, int]] = []
    _, heads = find_heads(
        str(folder), data=texts, out=tmp_path / "h.json", dtype="float64", limit=5, progress=lambda *p: calls.append(p)
    )
    assert [(answered, prompts) for answered, prompts, _ in calls] == [(i, 5) for i in range(1, 6)]
    assert calls[-1][2] == heads.tokens > 0
    assert heads.prompts == 5
    for content, message in [
        ('{"text": "A"}\n{"words": "B"}\n', "line 2 has no text"),
        ("", "no item is left"),
        ('{"id": 3}\n', "has no id"),
    ]:
        texts.write_text(content)
        with pytest.raises(BenchError, match=message):
            find_heads(str(folder), data=texts, out=tmp_path / "h.json")
    texts.write_text(json.dumps({"text": "A" * 600}))
    with pytest.raises(BenchError, match="no prompt fits"):
        find_heads(str(folder), data=texts, out=tmp_path / "h.json", dtype="float64")
    with pytest.raises(BenchError, match="there is no file"):
        find_heads(str(folder), data=tmp_path / "nothing", out=tmp_path / "h.json")
    with pytest.raises(BenchError, match="at least 1"):
        find_heads(str(folder), limit=0)
