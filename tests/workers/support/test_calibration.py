"""Two chances from signals: fitted, stored and found again."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from rag_service.prompting.template import Templates
from workers.support.calibration import BEFORE, ENGINE, MOST_ODDS, Calibration, Logistic, find, fit, read, shipped

ROOT = Path(__file__).parents[3]
PROMPT = Templates().digest
FLAT = Logistic(0.0, {"check": 1.0}, {"check": 2.0}, {"check": 4.0})
OWN = Calibration("own", "float32", ENGINE, "abc", FLAT, FLAT, 0.3, 10, ["en"])


def test_a_chance_is_the_logistic_function_of_the_standardised_signals() -> None:
    assert FLAT.chance({"check": 6.0}) == pytest.approx(1 / (1 + math.exp(-1)))
    assert FLAT.chance({"check": 6.0, "unknown": 9.0}) == FLAT.chance({"check": 6.0})


def test_a_missing_signal_counts_as_its_mean() -> None:
    assert FLAT.chance({}) == FLAT.chance({"check": 2.0}) == 0.5


def test_chances_never_reach_their_ends() -> None:
    assert FLAT.chance({"check": 1e9}) == pytest.approx(1 / (1 + math.exp(-MOST_ODDS)))
    assert 0 < FLAT.chance({"check": -1e9}) < 1e-5


def test_a_fit_finds_the_chances_that_made_the_labels() -> None:
    draw = random.Random(1)
    signals = [{"evidence": draw.random(), "check": draw.gauss(0, 2)} for _ in range(4000)]
    truth = [1 / (1 + math.exp(-(4 * s["evidence"] - 2 + s["check"]))) for s in signals]
    model = fit(signals, [draw.random() < chance for chance in truth])
    worst = max(abs(model.chance(s) - chance) for s, chance in zip(signals, truth, strict=True))
    assert worst < 0.06
    assert set(model.weights) == {"evidence", "check"}, "signals that nothing has are left out"


def test_a_fit_bears_missing_and_constant_signals() -> None:
    signals = [{"evidence": n / 20, "asked": 0.5, **({"check": 1.0} if n % 2 else {})} for n in range(20)]
    model = fit(signals, [n >= 10 for n in range(20)])
    assert model.chance({"evidence": 1.0}) > 0.5 > model.chance({"evidence": 0.0})


def test_answers_of_one_kind_cannot_be_fitted() -> None:
    with pytest.raises(ValueError, match="right and wrong"):
        fit([{"evidence": 0.5}], [True])


def test_a_calibration_is_read_as_it_was_saved(tmp_path: Path) -> None:
    OWN.save(tmp_path / "own.json")
    assert read((tmp_path / "own.json").read_text(encoding="utf-8")) == OWN


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"model": 1}', json.dumps({"support": {}, "answerable": {}})])
def test_another_file_is_no_calibration(text: str) -> None:
    with pytest.raises(ValueError, match="--calibrate"):
        read(text)


def test_the_operators_own_is_used_where_it_holds() -> None:
    assert find("own", "float32", "abc", "en", OWN) == (OWN, True)


@pytest.mark.parametrize(
    ("model", "dtype", "prompt", "language"),
    [
        ("x", "float32", "abc", "en"),
        ("own", "bfloat16", "abc", "en"),
        ("own", "float32", "d", "en"),
        ("own", "float32", "abc", "nl"),
    ],
)
def test_another_model_dtype_prompt_or_language_is_uncalibrated(
    model: str, dtype: str, prompt: str, language: str
) -> None:
    assert find(model, dtype, prompt, language, OWN) == (OWN, False)


def test_another_number_format_is_calibrated_if_the_file_names_it_with_its_measurement() -> None:
    shared = replace(OWN, other_dtypes={"bfloat16": "measured.json"})
    assert find("own", "float32", "abc", "en", shared) == (shared, True)
    assert find("own", "bfloat16", "abc", "en", shared) == (shared, True)
    assert find("own", "int8", "abc", "en", shared) == (shared, False)
    assert find("other", "bfloat16", "abc", "en", shared) == (shared, False)
    assert find("own", "bfloat16", "another prompt", "en", shared) == (shared, False)


def test_the_package_names_number_formats_only_with_a_measurement_of_them() -> None:
    named = [(one, dtype, path) for one in shipped() for dtype, path in one.other_dtypes.items()]
    for one, dtype, path in named:
        measured = json.loads((ROOT / path).read_text(encoding="utf-8"))
        assert measured["environment"][dtype]["model"] == measured["environment"][one.dtype]["model"] == one.model
        assert measured["formats"][dtype]["questions"] >= 60
    assert named


def test_the_default_models_calibration_for_english_alone_holds_in_other_number_formats() -> None:
    fitted = find("qwen2.5-coder-1.5b", "bfloat16", PROMPT, "en")
    assert fitted[1]
    assert find("qwen2.5-coder-1.5b", "float32", PROMPT, "en") == fitted
    assert find("qwen2.5-coder-1.5b", "int8", PROMPT, "en") == fitted
    assert find("qwen2.5-coder-1.5b", "int4", PROMPT, "en") == fitted
    assert find("qwen2.5-coder-1.5b", "float32", PROMPT, "de")[1] is False
    assert find("qwen2.5-coder-1.5b", "float16", PROMPT, "en")[1] is False


def test_no_two_of_the_packages_calibrations_hold_for_the_same_answer() -> None:
    held = [
        (one.model, dtype, one.prompt, language)
        for one in shipped()
        for dtype in (one.dtype, *one.other_dtypes)
        for language in one.languages
    ]
    assert len(held) == len(set(held))


def test_the_packages_calibrations_say_what_they_hold_for() -> None:
    for one in shipped():
        assert one.engine == ENGINE
        assert 0 < one.threshold < 1
        assert one.support.weights["evidence"] > 0
        for dtype in (one.dtype, *one.other_dtypes):
            for language in one.languages:
                assert find(one.model, dtype, one.prompt, language) == (one, True)


def test_what_no_calibration_holds_for_takes_one_of_the_same_model_else_of_none() -> None:
    default = find("qwen2.5-coder-1.5b", "bfloat16", "another prompt", "en")
    assert (default[0].model, default[1]) == ("qwen2.5-coder-1.5b", False)
    in_german = find("qwen2.5-coder-1.5b", "float32", PROMPT, "de")
    assert ("de" in in_german[0].languages, in_german[1]) == (True, False), "its language before its number format"
    other = find("unknown", "float32", "", "en")
    assert (other[0].model, other[1]) == ("", False)
    assert "readout" not in other[0].support.weights
    assert "check" in other[0].support.weights


def test_what_the_readout_is_needed_for_is_known_before_the_answer() -> None:
    for one in shipped():
        if "readout" in one.support.weights:
            assert set(one.answerable.weights) <= set(BEFORE)
