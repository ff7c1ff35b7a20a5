"""`rag doctor`, and what `rag up` says of settings and models before it starts anything."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import typer
from rich.console import Console

from decoder.bench.format_times import FormatTimes
from decoder.catalogue import DEFAULT_MODEL
from rag_service.access import running
from rag_service.cli.stack import doctor, up
from rag_service.cli.stack.doctor import _device, _dtype, _text_recognition
from rag_service.cli.stack.fastest_format import fastest_format
from rag_service.cli.stack.finding import Finding
from rag_service.cli.stack.up import _pull
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings
from tests.support.command_line import nowhere, rag
from tests.support.storage.postgres import PostgresServer

TIMES = {"float32": {1: 0.02, 8: 0.03, 64: 0.08}, "int8": {1: 0.01, 8: 0.02, 64: 0.07}}
pytestmark = pytest.mark.usefixtures("own_folder")


def test_a_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PORT", "high")
    result = rag("doctor")
    assert result.exit_code == 2
    assert "RAG_PORT" in result.stderr


def test_settings_that_are_none_are_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PROT", "9")
    monkeypatch.setenv("RAG_URL", nowhere())
    for command in (("config", "show"), ("serve",), ("worker",)):
        assert "Warning: RAG_PROT is not a setting; did you mean RAG_PORT?" in rag(*command).stderr
    looked = rag("doctor")
    assert "look    settings: RAG_PROT is not a setting" in looked.stdout
    assert looked.stderr == ""


def test_doctor_says_what_is_missing_and_how_to_fix_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", "unix:///nowhere/redis.sock")
    monkeypatch.setenv("RAG_URL", nowhere())
    result = rag("doctor", "--json")
    assert result.exit_code == 1
    found = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert found["Python"]["ok"]
    assert found["packages"]["ok"]
    for what, fix in (("target model", "rag models pull"), ("Redis", "RAG_REDIS_URL")):
        assert not found[what]["ok"]
        assert fix in found[what]["fix"]


def test_doctor_advises_no_pull_of_a_name_that_is_misspelt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_URL", nowhere())
    monkeypatch.setenv("RAG_MODEL", "qwen2.5-coder-1.5")
    monkeypatch.setenv("RAG_RERANKER", "./none")
    found = {finding["what"]: finding["fix"] for finding in json.loads(rag("doctor", "--json").stdout)}
    assert "RAG_MODEL: there is no model 'qwen2.5-coder-1.5'. Did you mean qwen2.5-coder-1.5b?" in found["target model"]
    assert found["reranker"].startswith("RAG_RERANKER: ./none is not a folder")
    assert "models pull" not in found["target model"] + found["reranker"]
    assert "`rag models pull all-minilm-l6-v2`" in found["embedding model"]


def test_a_stack_that_is_not_running_is_no_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAG_URL", nowhere())
    assert "look    service: not running" in rag("doctor").stdout
    found = {finding["what"]: finding for finding in json.loads(rag("doctor", "--json").stdout)}
    assert found["service"]["ok"]
    assert "`rag up`" in found["service"]["fix"]
    (tmp_path / ".rag").mkdir(exist_ok=True)
    running.write(tmp_path / ".rag", running.Running(os.getpid(), nowhere(), "redis://127.0.0.1:1/0"))
    assert "MISSING service: nothing answers" in rag("doctor").stdout, "one that runs must answer"


def test_doctor_looks_for_models_where_the_running_stack_has_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAG_URL", nowhere())
    monkeypatch.delenv("RAG_MODELS_DIR", raising=False)
    (tmp_path / ".rag").mkdir(exist_ok=True)
    for models, named in (("", ".rag/models"), (str(tmp_path / "elsewhere"), "elsewhere")):
        stack = running.Running(os.getpid(), nowhere(), "redis://127.0.0.1:1/0", models)
        running.write(tmp_path / ".rag", stack)
        found = {finding["what"]: finding["found"] for finding in json.loads(rag("doctor", "--json").stdout)}
        assert found["target model"].endswith(named), "whatever the command's own folder would be"


def store(monkeypatch: pytest.MonkeyPatch, url: str) -> dict[str, Any]:
    monkeypatch.setenv("RAG_STORE_URL", url)
    monkeypatch.setenv("RAG_URL", nowhere())
    result = rag("doctor", "--json")
    assert "hush" not in result.output
    return {finding["what"]: finding for finding in json.loads(result.stdout)}["store"]


def test_doctor_looks_at_the_database(
    monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer, postgres_url: str
) -> None:
    found = store(monkeypatch, postgres_url)
    assert (found["ok"], found["fix"]) == (True, "")
    assert "pgvector 0." in found["found"]
    found = store(monkeypatch, postgres_url.replace("rag@", "postgres@"))
    assert (found["ok"], "no superuser" in found["fix"]) == (True, True)
    found = store(monkeypatch, "postgresql://me:hush@127.0.0.1:1/rag")
    assert (found["ok"], "RAG_STORE_URL" in found["fix"]) == (False, True)
    assert "127.0.0.1:1/rag cannot be used" in found["found"]
    with postgres.database(vector=False) as url:
        assert "CREATE EXTENSION vector" in store(monkeypatch, url)["found"]


@pytest.mark.parametrize(
    ("listed", "languages", "found", "fix"),
    [
        ("List of available languages (2):\neng\nnld", "eng", "Tesseract, for eng", ""),
        ("List of available languages (2):\neng\nnld", "nld+tha", "Tesseract lacks tha", "RAG_OCR__LANGUAGES"),
        (None, "eng", "not installed", "install Tesseract"),
    ],
)
def test_doctor_says_whether_scans_can_be_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listed: str | None, languages: str, found: str, fix: str
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    if listed is not None:
        (folder / "tesseract").write_text(f"#!/bin/sh\n[ $1 = --list-langs ] && echo '{listed}'\n")
        (folder / "tesseract").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/bin" if listed else str(folder))
    finding = _text_recognition(languages, 300)
    assert (finding.ok, found in finding.found, fix in finding.fix) == (True, True, True)
    assert bool(finding.fix) == bool(fix)


def test_a_store_that_is_no_postgresql_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_STORE_URL", "mysql://me:hush@host/rag")
    result = rag("doctor")
    assert result.exit_code == 2
    assert "RAG_STORE_URL: " in result.stderr
    assert "hush" not in result.output


def test_doctor_says_what_a_device_wants(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    assert _device("cpu").ok
    finding = _device("cuda")
    assert not finding.ok
    assert finding.found.startswith("this torch has no CUDA: ")
    assert "RAG_DEVICE" in finding.fix


@pytest.mark.parametrize(
    ("dtype", "device", "flags", "advice"),
    [
        ("float32", "cpu", "avx2", ""),
        ("bfloat16", "cuda", "avx2", ""),
        ("bfloat16", "cpu", "avx2 amx_bf16", ""),
        ("bfloat16", "cpu", "avx2 avx512f", "RAG_DTYPE=float32"),
        ("float16", "cpu", "avx2 amx_bf16", "RAG_DTYPE=float32"),
    ],
)
def test_doctor_knows_which_number_formats_a_processor_is_slow_in(
    dtype: str, device: str, flags: str, advice: str, tmp_path: Path
) -> None:
    processor = tmp_path / "cpuinfo"
    processor.write_text(f"processor\t: 0\nflags\t\t: fpu {flags} sse\nbugs\t\t: avx512_bf16\n")
    finding = _dtype(dtype, device, processor)
    assert finding.ok
    assert (advice in finding.fix) if advice else not finding.fix


def test_doctor_says_which_format_is_fastest_and_what_it_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench

    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    monkeypatch.setattr(bench, "time_formats", lambda blocks: FormatTimes(TIMES, 1.4))
    (finding,) = fastest_format("float32", 0)
    assert finding.ok
    assert finding.found == (
        "int8 (ms for 150 million weights and 1 / 8 / 64 rows: float32 20 / 30 / 80, int8 10 / 20 / 70)"
    )
    assert "RAG_DTYPE=int8" in finding.fix
    assert "rag models quality" in finding.fix, "it changes the model"
    assert [finding.fix for finding in fastest_format("int8", 0)] == [""]
    monkeypatch.setattr(bench, "time_formats", lambda blocks: None)
    assert list(fastest_format("float32", 0)) == [], "memory is short"


def test_doctor_gives_no_format_up_for_one_that_is_hardly_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench

    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    times = {"bfloat16": {1: 0.0105, 8: 0.02}, "int8": {1: 0.01, 8: 0.02}, "float32": {1: 0.02, 8: 0.02}}
    monkeypatch.setattr(bench, "time_formats", lambda blocks: FormatTimes(times, 1.0))
    (finding,) = fastest_format("bfloat16", 0)
    assert finding.found.startswith("int8, with bfloat16 nearly as fast (ms for 150 million weights")
    assert not finding.fix
    (finding,) = fastest_format("float32", 0)
    assert "RAG_DTYPE=int8" in finding.fix


@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_doctor_recommends_nothing_on_a_busy_machine(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench

    cores = os.cpu_count() or 1
    fix = f"Keep RAG_DTYPE={dtype} until `rag doctor` has measured while nothing else runs."
    monkeypatch.setattr(os, "getloadavg", lambda: (0.8 * cores, 0.0, 0.0))
    monkeypatch.setattr(bench, "time_formats", lambda blocks: pytest.fail("it would say nothing"))
    assert list(fastest_format(dtype, 0)) == [
        Finding("fastest number format", True, "not measured, because the machine is busy", fix)
    ]
    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 0.0, 0.0))
    monkeypatch.setattr(bench, "time_formats", lambda blocks: FormatTimes(TIMES, 1.6))
    (finding,) = fastest_format(dtype, 0)
    assert finding.found.startswith("not known, because the machine was slower in some rounds than in others (ms for")
    assert finding.fix == fix


def test_doctor_says_that_a_model_has_no_integers_of_four_bits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from decoder import bench

    monkeypatch.setattr(os, "getloadavg", lambda: (0.0, 9.0, 9.0))
    asked: list[bool] = []
    monkeypatch.setattr(bench, "time_formats", asked.append)
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    monkeypatch.setenv("RAG_MODEL", str(tmp_path / "model"))
    monkeypatch.setenv("RAG_DTYPE", "int4")
    monkeypatch.setenv("RAG_URL", nowhere())
    found = {finding["what"]: finding for finding in json.loads(rag("doctor", "--json").stdout)}
    missing = found["integers of four bits"]
    assert not missing["ok"]
    assert "RAG_DTYPE=int8" in missing["fix"]
    assert "rag models pull" in missing["fix"]
    (tmp_path / "model" / "blocks.gguf").write_bytes(b"")
    assert "integers of four bits" not in {one["what"] for one in json.loads(rag("doctor", "--json").stdout)}
    assert asked == [False, True]


def test_doctor_measures_nothing_beside_running_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench

    monkeypatch.setattr(bench, "time_formats", lambda blocks: pytest.fail("it slows them down"))
    for answers, said in ((1, "1 answer is running"), (3, "3 answers are running")):
        (finding,) = fastest_format("float32", answers)
        assert (finding.ok, finding.found) == (True, f"not measured, because {said}")
        assert "again" in finding.fix


def test_doctor_says_on_a_terminal_what_it_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_URL", nowhere())
    monkeypatch.setenv("TERM", "xterm")
    for terminal, options in ((True, ()), (True, ("--json",)), (False, ())):
        screen = Console(file=StringIO(), force_terminal=terminal, width=200)
        monkeypatch.setattr(doctor, "err", lambda screen=screen: screen)
        rag("doctor", *options)
        said = screen.file.getvalue()  # type: ignore[attr-defined]
        assert bool(said) == ("Checking the service …" in said) == (terminal and not options)


def test_doctor_prints_each_check_as_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def check(settings: Settings, begins: Any) -> Iterator[Finding]:
        yield Finding("first", True, "fine")
        raise KeyboardInterrupt  # of someone who waits no longer

    monkeypatch.setattr(doctor, "check", check)
    assert "first: fine" in rag("doctor").stdout


def test_doctor_refuses_int8_on_a_gpu(tmp_path: Path) -> None:
    finding = _dtype("int8", "cuda", tmp_path / "none")
    assert not finding.ok
    assert "the device cpu" in finding.fix
    assert _dtype("int8", "cpu", tmp_path / "none").ok


def test_doctor_finds_a_running_service(api_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_URL", api_url)
    assert f"service: ready at {api_url}" in rag("doctor").stdout


def test_doctor_tells_a_stack_that_is_still_starting(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "service: not running" in rag("doctor").stdout
    monkeypatch.setattr("rag_service.cli.stack.addresses.is_in_use", lambda folder: True)
    shown = rag("doctor").stdout
    assert "service: still starting" in shown
    assert "Try again once it says that it is ready" in " ".join(shown.split())
    assert "Start it with" not in shown


def test_doctor_tells_a_service_on_another_data_folder(
    api_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RAG_URL", api_url)
    shown = rag("doctor").stdout
    assert f"data folder: .rag in {tmp_path}, " in shown
    assert f"{DEFAULT_MODEL} is not in {tmp_path / '.rag' / 'models'}" in shown
    assert "other than this one" in shown
    (tmp_path / ".rag").mkdir()
    running.write(tmp_path / ".rag", running.Running(os.getpid(), api_url, "redis://127.0.0.1:1/0"))
    assert "other than this one" not in rag("doctor").stdout


@pytest.mark.parametrize(
    ("setting", "before", "after"),
    [
        ({}, "", ""),
        ({"data_dir": Path("my data")}, "RAG_DATA_DIR='{}/my data' ", ""),
        ({"data_dir": Path("data"), "url": "http://other:1"}, "RAG_DATA_DIR={}/data ", " --url http://[::1]:9"),
    ],
)
def test_up_says_how_a_fresh_terminal_finds_it(
    setting: dict[str, Any], before: str, after: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With a data folder of one's own it named the address alone, and the key was not found."""
    settings = Settings(_env_file=None, open_without_key=True, **setting)
    up._welcome(settings, "http://[::1]:9")
    before = before.format(tmp_path)
    assert capfd.readouterr().out.splitlines()[-3:-1] == [
        f"  {before}rag ingest PATH…{after}",
        f'  {before}rag ask "…"{after}',
    ]


@pytest.mark.parametrize("model", ["/nowhere/model", "./model", "~/none/model", "a/b/c"])
def test_a_path_is_not_pulled(model: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    settings = Settings(_env_file=None, data_dir=tmp_path, embedding_model=model)  # type: ignore[call-arg]
    (tmp_path / "models" / settings.model).mkdir(parents=True)
    (tmp_path / "models" / settings.model / "manifest.json").touch()
    with pytest.raises(InvalidSettings, match=f"^RAG_EMBEDDING_MODEL: {model} is not a folder with a model"):
        _pull(settings, cast(Any, None))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            {"model": "qwen2.5-coder-1.5"},
            "RAG_MODEL: there is no model 'qwen2.5-coder-1.5'. Did you mean qwen2.5-coder",
        ),
        ({"model": "zebra"}, "'zebra'. Give one of smollm2-135m, qwen2.5-coder-0.5b, qwen2.5-coder-1.5b, a hub id"),
        (
            {"embedding_model": "zebra"},
            "RAG_EMBEDDING_MODEL: there is no model 'zebra'. Give one of all-minilm-l6-v2, ",
        ),
        ({"reranker": "zebra"}, "RAG_RERANKER: there is no model 'zebra'. Give a hub id"),
    ],
)
def test_a_misspelt_name_is_not_pulled(
    setting: dict[str, str], said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It said that it was pulling, and failed after that."""
    settings = Settings(_env_file=None, data_dir=tmp_path, **setting)  # type: ignore[arg-type]
    with pytest.raises(InvalidSettings, match=re.escape(said)):
        _pull(settings, cast(Any, None))
    assert capfd.readouterr() == ("", "")


def test_a_pull_that_fails_says_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up.sys, "executable", shutil.which("false"))
    monkeypatch.chdir(tmp_path)
    settings = Settings(_env_file=None, data_dir=tmp_path / "other")  # type: ignore[call-arg]
    with pytest.raises(typer.Exit) as ended:
        _pull(settings, cast(Any, SimpleNamespace(check=lambda: None)))
    assert ended.value.exit_code == 1
    said = [f"Pulling {DEFAULT_MODEL} and all-minilm-l6-v2, this once …"]
    assert capfd.readouterr().err.splitlines() == said
    for model in (DEFAULT_MODEL, "all-minilm-l6-v2"):
        (tmp_path / ".rag" / "models" / model).mkdir(parents=True)
    with pytest.raises(typer.Exit):
        _pull(settings, cast(Any, SimpleNamespace(check=lambda: None)))
    said.append("(They are in .rag/models, too: RAG_MODELS_DIR=.rag/models uses those instead.)")
    assert capfd.readouterr().err.splitlines() == said
    reranked = settings.model_copy(update={"reranker": "owner/reranker"})
    with pytest.raises(typer.Exit):
        _pull(reranked, cast(Any, SimpleNamespace(check=lambda: None)))
    assert "and owner/reranker, this once" in capfd.readouterr().err
