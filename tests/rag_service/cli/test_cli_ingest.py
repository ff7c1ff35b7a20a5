"""`rag ingest`: the files it finds, what fails of them and why, and the batches it sends."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from rag_service.cli.api import Api
from rag_service.cli.commands.documents import ingest
from rag_service.cli.commands.documents.ingest import Source, find_sources
from rag_service.cli.commands.documents.jobs import print_failures
from rag_service.client.calls import batches
from tests.support.command_line import nowhere, rag

pytestmark = pytest.mark.usefixtures("own_folder")


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


def test_a_collection_that_an_ingest_makes_for_nothing_is_not_left_behind(api_url: str, tmp_path: Path) -> None:
    bad, good = tmp_path / "bad.md", tmp_path / "good.md"
    bad.write_text("")
    good.write_text("Pears are sweet.")
    result = rag("ingest", str(bad), "-c", "pears", "--url", api_url)
    assert (result.exit_code, "0 of 1 file is in 'pears'" in result.stdout) == (1, True)
    assert "There is no collection 'pears'" in rag("docs", "list", "-c", "pears", "--url", api_url).stderr
    assert rag("ingest", str(bad), str(good), "-c", "pears", "--url", api_url).exit_code == 1
    assert rag("ingest", str(bad), "-c", "pears", "--url", api_url).exit_code == 1, "it was there before"
    assert "good.md" in rag("docs", "list", "-c", "pears", "--url", api_url).stdout


@pytest.mark.parametrize("command", ["ask", "search"])
def test_an_empty_question_says_what_to_do(api_url: str, command: str) -> None:
    result = rag(command, "", "-c", "animals", "--url", api_url)
    assert (result.exit_code, "question is empty; write a question" in result.stderr) == (2, True)


def test_progress_leaves_nothing_where_there_is_no_terminal(api_url: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# Kiwis\n\nKiwis are green.")
    done = rag("ingest", "a.md", "-c", "quiet", "--url", api_url)
    assert (done.stdout, done.stderr) == ("1 of 1 file is in 'quiet': 1 new.\n", "")
    found = rag("search", "kiwis", "-c", "quiet", "--url", api_url)
    assert found.stdout.endswith("Kiwis are green.\n")
    assert not found.stdout.endswith("\n\n")


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
    assert (direct.name, direct.problem) == ("papers/file.txt", "")
    (tmp_path / "link").symlink_to(folder)
    through_a_link = [one.name for one in find_sources([tmp_path / "link"]) if not one.problem]
    assert through_a_link == ["papers/again.txt", "papers/own.txt"]


def test_files_that_change_while_they_are_sent_are_as_they_were(
    api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, cut, gone, good = (tmp_path / name for name in ("log.txt", "cut.txt", "gone.txt", "good.txt"))
    for file in (log, cut, gone, good):
        file.write_text(f"Plums of {file.stem}.")
    fstat = os.fstat

    def grows(number: int) -> os.stat_result:
        found = fstat(number)
        name = os.readlink(f"/proc/self/fd/{number}")
        if name == str(log):
            with log.open("a") as more:
                more.write(" LATER")
        if name == str(cut):
            os.truncate(cut, 5)
        return found

    monkeypatch.setattr(os, "fstat", grows)
    monkeypatch.setattr(ingest, "batches", lambda sources, path_of: (gone.unlink(), batches(sources, path_of))[1])
    files = list(map(str, (log, cut, gone, good)))
    told = json.loads(rag("ingest", *files, "-c", "plums", "--json", "--url", api_url).stdout)
    assert told["added"] == 3
    (failure,) = told["failures"]
    assert failure["name"].endswith("gone.txt")
    assert failure["reason"] == "the file cannot be read: No such file or directory"
    with Api(api_url) as api:
        documents = api.request("GET", "/v1/collections/plums/documents")["documents"]
        sizes = {one["name"].rpartition("/")[2]: one["bytes"] for one in documents}
    assert sizes == {"log.txt": len("Plums of log."), "cut.txt": 5, "good.txt": len("Plums of good.")}


def test_what_is_no_regular_file_is_refused_without_reading_it(api_url: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "good.md").write_text("Figs are sweet.")
    told = json.loads(rag("ingest", "pipe", "/dev/zero", "good.md", "-c", "figs", "--json", "--url", api_url).stdout)
    assert told["added"] == 1
    assert [one["name"].rpartition("/")[2] for one in told["failures"]] == ["pipe", "zero"]
    assert all("not a regular file; save what it gives" in one["reason"] for one in told["failures"])


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
    files = [tmp_path / part / "x.md" for part in ("a", "b", "b/a")]
    for file in files:
        file.parent.mkdir()
        file.write_text(str(file))
    found = list(find_sources([*files, tmp_path / "a"]))
    assert [source.name for source in found] == ["a/x.md", "b/x.md", files[2].as_posix()]


def test_batches_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_service.client.calls.BATCH_BYTES", 10)
    sources = []
    for number, size in enumerate((4, 4, 4, 30, 1)):
        path = tmp_path / str(number)
        path.write_bytes(b"x" * size)
        sources.append(Source(path, path.name))
    names = [[source.name for source in batch] for batch in batches(sources, path_of=lambda source: source.path)]
    assert names == [["0", "1"], ["2"], ["3"], ["4"]]


def test_a_service_that_goes_away_meanwhile_leaves_a_command_that_goes_on(
    api_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        (tmp_path / f"{name}.md").write_text(f"# {name}")
    uploads = iter(range(3))
    upload = ingest._upload

    def lost(api: Api, *rest: Any) -> str:
        return upload(api if next(uploads) < 2 else Api(nowhere()), *rest)

    with monkeypatch.context() as patched:
        patched.setattr("rag_service.client.calls.BATCH_BYTES", 3)
        patched.setattr(ingest, "_upload", lost)
        stopped = rag("ingest", str(tmp_path), "-c", "stopped", "--url", api_url)
    assert stopped.exit_code == 3
    assert stopped.stderr.startswith("1 of 3 files so far\n2 of 3 files so far\nError: Nothing answers")
    assert stopped.stderr.endswith("the same command goes on: files that are in already cost nothing.\n")
    again = rag("ingest", str(tmp_path), "-c", "stopped", "--url", api_url)
    assert again.stdout == "3 of 3 files are in 'stopped': 1 new, 2 unchanged.\n"


def test_failures_are_grouped_by_reason(capsys: pytest.CaptureFixture[str]) -> None:
    unsupported = [{"name": f"{letter}.xyz", "reason": ".xyz is not supported"} for letter in "abcdefg"]
    empty = {"name": "x.md", "reason": "the file is empty"}
    locked = [{"name": name, "reason": "protected by a password"} for name in ("one.pdf", "two.pdf")]
    print_failures([*unsupported[:3], empty, *unsupported[3:], *locked])
    assert capsys.readouterr().err.splitlines() == [
        "7 files: .xyz is not supported (a.xyz, b.xyz, c.xyz, d.xyz, e.xyz and 2 more)",
        "x.md: the file is empty",
        "2 files: protected by a password (one.pdf, two.pdf)",
    ]
