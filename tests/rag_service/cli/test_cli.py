"""The command line: what it prints, what it refuses, and its exit status. No stack of processes is started here."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from rag_service.cli.api import Api
from rag_service.cli.commands.ingest import Source, find_sources
from rag_service.cli.console import CliError
from rag_service.cli.stack import running
from rag_service.client.calls import batches
from rag_service.settings import Settings
from tests.support.command_line import nowhere, rag

pytestmark = pytest.mark.usefixtures("own_folder")
TOY = "smollm2-135m, a small demo model for tests; its answers are often wrong"


@pytest.mark.decoder_only("it tells of passes and drafts")
def test_ask_prints_answer_citations_passages_and_decoding(api_url: str, world: Any) -> None:
    quiet = rag("ask", "What jumps?", "-c", "animals", "--speculation", "casd", "--url", api_url)
    assert quiet.exit_code == 0, quiet.output
    assert "MAT" not in quiet.stdout
    result = rag("ask", "What jumps?", "-c", "animals", "--speculation", "casd", "--url", api_url, "-v")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == world.stage.text
    assert any(line.startswith("  [1] copied “The quick brown fox") and "(foxes 9–84)" in line for line in lines)
    assert any("MAT" in line and "drafter casd" in line and "accepted" in line for line in lines)
    assert "\x1b" not in result.stdout
    assert result.stderr == f"Model: {TOY}\n"


def test_ask_json_is_the_answer(api_url: str, world: Any) -> None:
    result = rag("ask", "What jumps?", "-c", "animals", "--seed", "5", "--json", "--url", api_url)
    answer = json.loads(result.stdout)
    assert (answer["answer"], answer["seed"], answer["status"]) == (world.stage.text, 5, "succeeded")
    assert result.stderr == ""


def test_ask_continues_a_session(api_url: str) -> None:
    turns = [
        json.loads(rag("ask", "What jumps?", "-c", "animals", "-s", "cli-talk", "--json", "--url", api_url).stdout)[
            "turn"
        ]
        for _ in range(2)
    ]
    assert turns == [1, 2]


def test_ask_says_where_the_passages_do_not_hold_the_answer(api_url: str, world: Any) -> None:
    world.stage.text = "Bananas ripen."
    result = rag("ask", "What ripens?", "-c", "animals", "--url", api_url)
    assert "probably do not state this answer" in result.stdout


def test_refusals_are_one_line_and_status_1(api_url: str) -> None:
    for arguments, said in (
        (("ask", "x", "-c", "none"), "no collection 'none'"),
        (("search", "x", "-c", "none"), "no collection 'none'"),
        (("ingest", "missing.txt"), "missing.txt does not exist"),
        (("ingest", "."), "no files"),
    ):
        result = rag(*arguments, "--url", api_url)
        assert result.exit_code == 1, result.output
        assert said in result.stderr
        assert result.stderr.startswith("Error: ")
        assert "Traceback" not in result.output


def test_wrong_usage_is_status_2_and_names_the_option() -> None:
    for arguments, said in (
        (("ask",), "QUESTION"),
        (("ask", "x", "--max-tokens", "many"), "--max-tokens"),
        (("ask", "x", "--max-tokens", "0"), "--max-tokens"),
        (("ask", "x", "--temperature", "-1"), "--temperature"),
        (("ask", "x", "--speculation", "turbo"), "--speculation': 'turbo' is not a drafter; choose one of off, auto,"),
        (("edit", "a", "x", "--exact", "mostly"), "--exact"),
        (("search", "x", "--mode", "fuzzy"), "--mode"),
        (("search", "x", "--top-k", "0"), "--top-k"),
        (("verify", "x", "--drafter", "turbo"), "--drafter"),
        (("ask", "x", "--url", "ftp://x"), "ftp://x is not an address"),
        (("ask", "x", "--url", "not an address"), "not an address; give one like"),
        (("ask", "x", "--url", "http://["), "http://[ is not an address"),
        (("up", "--port", "70000"), "--port"),
        (("dance",), "dance"),
    ):
        result = rag(*arguments)
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert "Traceback" not in result.output


def test_values_that_the_service_alone_can_judge_are_status_2(api_url: str) -> None:
    for arguments, said in (
        (("ask", " "), "question is empty"),
        (("ask", "x", "-c", "no/name"), "collection name"),
        (("ask", "x", "--temperature", "9"), "temperature"),
        (("ask", "x", "--top-k", "99"), "top_k"),
    ):
        result = rag(*arguments, "--url", api_url)
        assert result.exit_code == 2, result.output
        assert said in result.stderr
        assert result.stderr.startswith("Error: ")


def test_nothing_there_is_status_3_and_says_how_to_start() -> None:
    Path("file.txt").write_text("text")
    for arguments in (("ask", "x"), ("ingest", "file.txt"), ("search", "x")):
        result = rag(*arguments, "--url", nowhere())
        assert result.exit_code == 3
        assert "rag up" in result.stderr


def test_ingest_reports_failures_by_name_and_reason(api_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    (folder / "sub").mkdir(parents=True)
    (folder / "good.md").write_text("# Kiwis\n\nKiwis are green.")
    (folder / "sub" / "deep.txt").write_text("Deep text.")
    (folder / "broken.pdf").write_bytes(b"%PDF-1.4 no")
    (folder / "strange.xyz").write_bytes(b"?")
    (folder / ".hidden").write_text("not this")
    result = rag("ingest", str(folder), "-c", "papers", "--url", api_url)
    assert result.exit_code == 1
    assert "2 of 4 files are in 'papers'" in result.stdout
    assert "papers/broken.pdf: " in result.stderr
    assert "papers/strange.xyz: " in result.stderr
    for name in ("broken.pdf", "strange.xyz"):
        (folder / name).unlink()
    again = rag("ingest", str(folder), "-c", "papers", "--json", "--url", api_url)
    assert again.exit_code == 0
    told = json.loads(again.stdout)
    assert len(told.pop("jobs")) == 1
    counts = {"added": 0, "replaced": 0, "unchanged": 2}
    assert told == {"collection": "papers", "files": 2, **counts, "failures": []}
    with Api(api_url) as api:
        names = {d["name"] for d in api.request("GET", "/v1/collections/papers/documents")["documents"]}
        assert names == {"papers/good.md", "papers/sub/deep.txt"}
    found = rag("search", "kiwis", "-c", "papers", "--top-k", "1", "--url", api_url)
    assert "Kiwis are green." in found.stdout


def test_links_that_leave_a_folder_are_named_and_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key.txt").write_text("secret")
    folder = tmp_path / "papers"
    (folder / "sub").mkdir(parents=True)
    (folder / "own.txt").write_text("own")
    (folder / "file.txt").symlink_to(tmp_path / "secret" / "key.txt")
    (folder / "dir").symlink_to(tmp_path / "secret")
    (folder / "up").symlink_to("..")
    (folder / "sub" / "round").symlink_to(folder)
    (folder / "itself").symlink_to("itself")
    (folder / "again.txt").symlink_to("own.txt")
    found = list(find_sources([folder]))
    assert [one.name for one in found if not one.problem] == ["papers/again.txt", "papers/own.txt"]
    named = {one.name: one.problem for one in found if one.problem}
    assert sorted(named) == ["papers/dir", "papers/file.txt", "papers/up"]
    assert all("leads out of the folder" in problem for problem in named.values())
    (direct,) = find_sources([folder / "file.txt"])
    assert (direct.name, direct.problem) == ("file.txt", "")
    (tmp_path / "link").symlink_to(folder)
    through_a_link = [one.name for one in find_sources([tmp_path / "link"]) if not one.problem]
    assert through_a_link == ["papers/again.txt", "papers/own.txt"]


def test_a_file_that_may_not_be_looked_at_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("closed.md", "open.md"):
        (tmp_path / name).write_text("x")
    lstat = Path.lstat

    def denied(path: Path) -> os.stat_result:
        if path.name == "closed.md":
            raise PermissionError(13, "Permission denied", str(path))
        return lstat(path)

    monkeypatch.setattr(Path, "lstat", denied)
    problems = {source.path.name: source.problem for source in find_sources([tmp_path])}
    assert problems == {"closed.md": "the file cannot be read: Permission denied", "open.md": ""}


def test_bad_file_names_fail_alone(api_url: str, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    for name in (b"caf\xe9.md", b"two\nlines.md", b"esc\x1b[2J.md", b"good.md"):
        (folder / os.fsdecode(name)).write_text(f"Text of {name!r}.")
    long = tmp_path / ("x" * 5000 + ".md")
    (folder / "out.md").symlink_to("/etc/passwd")
    result = rag("ingest", str(folder), str(long), "-c", "odd", "--json", "--url", api_url)
    assert result.exit_code == 1, result.output
    told = json.loads(result.stdout)
    assert told["files"] == 6
    reasons = {failure["name"]: failure["reason"] for failure in told["failures"]}
    assert len(reasons) == 5
    assert "leads out of the folder" in reasons.pop("odd/out.md")
    assert "too long" in reasons.pop(long.name[:500])
    assert set(reasons) == {"odd/caf\ufffd.md", "odd/two\ufffdlines.md", "odd/esc\ufffd[2J.md"}
    assert all("rename the file" in reason for reason in reasons.values())
    with Api(api_url) as api:
        documents = api.request("GET", "/v1/collections/odd/documents")["documents"]
    assert [document["name"] for document in documents] == ["odd/good.md"]


def test_files_of_one_name_stay_apart(tmp_path: Path) -> None:
    for part in ("a", "b"):
        (tmp_path / part).mkdir()
        (tmp_path / part / "x.md").write_text(part)
    found = list(find_sources([tmp_path / "a" / "x.md", tmp_path / "b" / "x.md", tmp_path / "a"]))
    assert [source.name for source in found] == ["x.md", (tmp_path / "b" / "x.md").as_posix(), "a/x.md"]


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_service.client.calls.BATCH_BYTES", 10)
    sources = []
    for number, size in enumerate((4, 4, 4, 30, 1)):
        path = tmp_path / str(number)
        path.write_bytes(b"x" * size)
        sources.append(Source(path, path.name))
    names = [[source.name for source in batch] for batch in batches(sources, path_of=lambda source: source.path)]
    assert names == [["0", "1"], ["2"], ["3"], ["4"]]


def test_a_broken_stream_is_resumed_where_it_broke_off() -> None:
    import httpx

    asked: list[tuple[str, str | None]] = []
    headers = {"Content-Type": "text/event-stream"}

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append((request.url.path, request.headers.get("Last-Event-ID")))
        if request.method == "POST":
            return httpx.Response(
                200, headers=headers, text='id: 1-0\nevent: passages\ndata: {"answer_id": "a"}\n\n: still here\n\n'
            )
        if len(asked) == 2:
            return httpx.Response(503, json={"code": "redis_unavailable", "detail": "Away."})
        return httpx.Response(
            200,
            headers=headers,
            text='id: 2-0\nevent: token\ndata: {"text": "x"}\n\nid: 3-0\nevent: done\ndata: {}\n\n',
        )

    with Api("http://rag", transport=httpx.MockTransport(answer)) as api:
        events = [event.name for event in api.events("/v1/query", {})]
    assert events == ["passages", "token", "done"]
    assert asked == [("/v1/query", None), ("/v1/answers/a/events", "1-0"), ("/v1/answers/a/events", "1-0")]


def test_requests_refused_as_too_early_are_sent_again() -> None:
    import httpx

    replies = [httpx.Response(503, headers={"Retry-After": "0"}, json={"detail": "Wait."}), httpx.Response(200, json=1)]
    with Api("http://rag", patience=30, transport=httpx.MockTransport(lambda _: replies.pop(0))) as api:
        assert api.request("GET", "/x") == 1


def test_patience_is_not_for_a_service_that_is_not_there() -> None:
    import httpx

    asked = []

    def nobody(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        raise httpx.ConnectError("refused")

    with Api("http://rag", 60.0, httpx.MockTransport(nobody)) as api, pytest.raises(CliError, match="rag up") as away:
        api.request("GET", "/x")
    assert away.value.status == 3
    assert len(asked) == 1


def test_a_service_that_takes_too_long_is_not_said_to_be_away() -> None:
    import httpx

    def never(request: httpx.Request) -> httpx.Response:
        raise httpx.ReadTimeout("slow")

    with Api("http://rag", transport=httpx.MockTransport(never)) as api, pytest.raises(CliError, match="busy") as slow:
        next(api.events("/v1/query", {}))
    assert slow.value.status == 3


def test_a_citation_is_shown_once() -> None:
    from rich.console import Console

    from rag_service.cli.answers import show_sources

    cited = {"kind": "copied", "chunk_id": "c", "document_id": "d", "source_start": 0, "source_end": 4}
    places = [{"answer_start": start, "answer_end": start + 4} for start in (0, 5)]
    other = {**cited, **places[0], "source_start": 9, "source_end": 13}
    passage = {"chunk_id": "c", "rank": 1, "title": "", "heading": "", "page": None, "in_prompt": True}
    answer = {
        "answer": "same same",
        "citations": [*({**cited, **place} for place in places), other],
        "passages": [{**passage, "earlier": False, "document_id": "d"}],
    }
    with (screen := Console(width=200)).capture() as captured:
        show_sources(answer, screen)
    assert [line for line in captured.get().splitlines() if "copied" in line] == [
        "  [1] copied “same” (d 0–4)",
        "  [1] copied “same” (d 9–13)",
    ]


def test_a_server_of_another_kind_is_told_from_the_service() -> None:
    import httpx

    replies = {
        "GET": httpx.Response(404, text="Not found"),
        "POST": httpx.Response(501, text="<html>"),
        "PUT": httpx.Response(200, text="<html>"),
        "HEAD": httpx.Response(404, json={"detail": "Not Found"}),
    }
    with Api("http://rag:81/x", transport=httpx.MockTransport(lambda asked: replies[asked.method])) as api:
        for method, reply in replies.items():
            with pytest.raises(CliError, match="Another program answers at http://rag:81 ") as wrong:
                api.request(method, "/v1/collections")
            assert f"(status {reply.status_code})" in str(wrong.value)
            assert "--url or RAG_URL" in str(wrong.value)
            assert wrong.value.status == 3
    proxy = httpx.MockTransport(lambda asked: httpx.Response(502, text="<html>"))
    with Api("http://rag", transport=proxy) as api, pytest.raises(CliError, match="answered with status 502"):
        api.request("GET", "/v1/collections")


def test_up_refuses_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = rag("up", "--port", str(port))
    assert result.exit_code == 1
    assert f"127.0.0.1:{port}" in result.stderr
    assert "--port" in result.stderr


def test_serve_and_worker_need_a_redis() -> None:
    for command in ("serve", "worker"):
        result = rag(command)
        assert result.exit_code == 3
        assert "RAG_REDIS_URL" in result.stderr


def test_config_shows_values_without_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_REDIS_URL", "redis://me:secret@host:1/0")
    monkeypatch.setenv("RAG_STORE_URL", "postgresql://me:secret@host/rag?password=secret")
    shown = rag("config", "show").stdout
    assert "RAG_REDIS_URL=redis://me:***@host:1/0" in shown
    assert "RAG_RETRIEVAL__TOP_K=5" in shown
    assert "secret" not in shown


def test_run_json_of_a_stack_that_is_gone_is_ignored(tmp_path: Path) -> None:
    running.write(tmp_path, running.Running(os.getpid(), "http://a", "redis://b"))
    assert running.read(tmp_path) == running.Running(os.getpid(), "http://a", "redis://b")
    assert running.api_url(Settings(data_dir=tmp_path)) == "http://a"
    assert running.run_file(tmp_path).stat().st_mode & 0o077 == 0
    running.write(tmp_path, running.Running(2**22 - 1, "http://a", "redis://b"))
    assert running.read(tmp_path) is None
    running.run_file(tmp_path).write_text("{")
    assert running.read(tmp_path) is None
    assert running.api_url(Settings(data_dir=tmp_path, host="0.0.0.0")) == "http://127.0.0.1:8080"


def test_heads_of_a_model_are_found_and_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench
    from decoder.induction_heads import Head, InductionHeads

    asked: list[dict[str, Any]] = []

    def find(model: str, **options: Any) -> tuple[Path, InductionHeads]:
        options["progress"](1, 2, 20)
        asked.append({"model": model, **options})
        return tmp_path / "h.json", InductionHeads("tiny", 2, 4, 2, 40, (Head(1, 3, 0.5), Head(0, 0, 0.25)))

    monkeypatch.setattr(bench, "find_heads", find)
    told = rag("models", "heads", "tiny", "--out", "h.json", "--data", "texts.jsonl", "--limit", "2")
    assert told.exit_code == 0
    assert "2 of 8 heads" in told.stdout
    assert "layer 1, head 3; it looked at the source of 50% of 40 copied tokens" in " ".join(told.stdout.split())
    assert asked[0]["model"] == "tiny"
    assert (asked[0]["out"], asked[0]["data"], asked[0]["limit"]) == (Path("h.json"), Path("texts.jsonl"), 2)
    shown = json.loads(rag("models", "heads", "tiny", "--json").stdout)
    assert shown["heads"] == [[1, 3], [0, 0]]


def test_the_quality_of_a_number_format_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    from decoder import bench
    from decoder.bench.format_quality import Quality

    asked: list[dict[str, Any]] = []

    def compare(model: str, **options: Any) -> Quality:
        options.pop("progress")("int8", 1, 2)
        asked.append({"model": model, **options})
        return Quality(model, "int8", "bfloat16", 1000, 8.7, 8.6, 0.98, 0.002, 10**9, 3 * 10**9)

    monkeypatch.setattr(bench, "compare_formats", compare)
    told = rag("models", "quality", "tiny", "--dtype", "int8", "--reference", "bfloat16", "--file", "t.txt")
    assert told.exit_code == 0
    shown = " ".join(told.stdout.split())
    assert "bfloat16: perplexity 8.600, 3.00 GB" in shown
    assert "int8: perplexity 8.700, 1.00 GB" in shown
    assert "the same at 98.0% of the tokens" in shown
    assert (asked[0]["dtype"], asked[0]["reference"], asked[0]["file"]) == ("int8", "bfloat16", Path("t.txt"))
    assert json.loads(rag("models", "quality", "tiny", "--json").stdout)["agreement"] == 0.98


def test_the_quality_of_a_format_that_is_none_says_what_to_do() -> None:
    refused = rag("models", "quality", "smollm2-135m")
    assert refused.exit_code == 1
    assert "rag models pull smollm2-135m" in refused.stderr


def test_heads_of_a_model_that_is_not_there_say_what_to_do() -> None:
    refused = rag("models", "heads", "smollm2-135m")
    assert refused.exit_code == 1
    assert "rag models pull smollm2-135m" in refused.stderr
