"""The shipped texts' counts: in any tokenizer's tokens, kept in a file, and what an engine starts from."""

from __future__ import annotations

import errno
import lzma
from pathlib import Path

import pytest
from test_load import WORDS, folder_of
from transformers import AutoTokenizer

from decoder import load_engine
from decoder.drafters.learning import shipped_texts
from decoder.drafters.learning.next_tokens import NextTokens


@pytest.fixture
def texts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Texts of a tiny tokenizer's words, in place of the shipped ones."""
    path = tmp_path / "texts.xz"
    path.write_bytes(lzma.compress("\f".join(["w5 w6 w7", "w5 w6 w8", "w7 w5 w6 w7"] * 10).encode()))
    monkeypatch.setattr(shipped_texts, "TEXTS", path)
    monkeypatch.setattr(shipped_texts, "LEAST_TOKENS", 1)
    monkeypatch.setattr(shipped_texts, "_KEPT", {})
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(folder_of(tmp_path / "model", 0, WORDS))


def test_they_are_counted_once_and_read_afterwards(texts: Path, model: Path, tmp_path: Path) -> None:
    tokenizer, folder = AutoTokenizer.from_pretrained(model), tmp_path / "kept"
    counted = shipped_texts.shipped(tokenizer, 61, folder)
    assert counted is not None
    (file,) = folder.iterdir()
    assert NextTokens(counted).likeliest(5, 6, 1, 1, 0.0)[1] == [7]

    def again() -> None:
        shipped_texts._KEPT.clear()
        read = shipped_texts.shipped(tokenizer, 61, folder)
        assert read is not None
        assert all(before.tolist() == after.tolist() for before, after in zip(counted, read, strict=True))
        assert [path.name for path in folder.iterdir()] == [file.name]

    again()
    whole = file.read_bytes()
    for damaged in (whole[:100], b""):
        file.write_bytes(damaged)
        again()
        assert file.stat().st_size > 100, "a damaged file is replaced"


def test_another_tokenizer_has_its_own_counts(texts: Path, model: Path, tmp_path: Path) -> None:
    swapped = {word: len(WORDS) - 1 - number for word, number in WORDS.items()}
    other = AutoTokenizer.from_pretrained(folder_of(tmp_path / "other", 0, swapped))
    folder = tmp_path / "kept"
    shipped_texts.shipped(AutoTokenizer.from_pretrained(model), 61, folder)
    counted = shipped_texts.shipped(other, 61, folder)
    assert len(list(folder.iterdir())) == 2
    assert NextTokens(counted).likeliest(55, 54, 1, 1, 0.0)[1] == [53]


def test_tokens_that_the_model_lacks_are_left_out(texts: Path, model: Path, tmp_path: Path) -> None:
    counted = shipped_texts.shipped(AutoTokenizer.from_pretrained(model), 7, tmp_path / "kept")
    assert counted is not None
    assert counted[1].max() == 6
    table = NextTokens(counted)
    assert table.likeliest(-1, 5, 4, 1, 0.0)[1] == [6]
    assert table.likeliest(5, 6, 4, 1, 0.0)[1] == []


def test_a_folder_that_cannot_be_written_is_done_without(
    texts: Path, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a full disk leaves nothing half written behind."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    (tmp_path / "file").write_text("in the way")
    assert shipped_texts.shipped(tokenizer, 61, tmp_path / "file" / "kept") is not None

    def full(path: Path, **values: object) -> None:
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("numpy.savez", full)
    shipped_texts._KEPT.clear()
    assert shipped_texts.shipped(tokenizer, 61, tmp_path / "kept") is not None
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_tokenizer_in_python_or_of_few_tokens_has_none(
    texts: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = AutoTokenizer.from_pretrained(model)
    monkeypatch.setattr(shipped_texts, "LEAST_TOKENS", 1000)
    assert shipped_texts.shipped(tokenizer, 61) is None
    monkeypatch.setattr(shipped_texts, "LEAST_TOKENS", 1)
    assert shipped_texts.shipped(tokenizer, 61) is not None
    assert shipped_texts.shipped(object(), 61) is None


def test_an_engine_starts_from_them(texts: Path, model: Path, tmp_path: Path) -> None:
    """Where it recycles, and not beside a neural drafter, which knows more."""
    engine = load_engine(str(model), state_dir=tmp_path / "state")
    assert engine.context.next_tokens.of("any").likeliest(5, 6, 1, 1, 0.0)[1] == [7]
    assert list((tmp_path / "state").glob("next-tokens-*.npz"))
    plain = load_engine(str(model), drafter="plain", dtype="bfloat16", state_dir=tmp_path / "plain")
    assert not list(tmp_path.glob("plain/*")), "an engine that does not draft counts nothing"
    assert plain.context.next_tokens.of("any").likeliest(5, 6, 1, 1, 0.0)[1] == [7], "unless it is asked to"
    load_engine(str(model), draft_model=str(model), state_dir=tmp_path / "beside")
    assert not list(tmp_path.glob("beside/next-tokens-*"))


def test_the_shipped_texts_can_be_read() -> None:
    texts = lzma.decompress(shipped_texts.TEXTS.read_bytes()).decode("utf-8").split("\f")
    assert len(texts) > 5000
    assert all(text.strip() for text in texts)
