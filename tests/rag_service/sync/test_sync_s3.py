"""`rag sync s3://…` against a real server of the S3 protocol, on loopback."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from rag_service.cli.api import Api, Rejected
from rag_service.client import calls
from rag_service.sync import s3_source
from rag_service.sync.s3_source import S3Source
from rag_service.sync.source import Entry, ReadFailed, SourceUnavailable
from tests.support.command_line import rag

pytestmark = pytest.mark.usefixtures("own_folder")
BUCKET = "archive"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def s3(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A client with an empty bucket; the same credentials are in the environment."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)
    client = boto3.client("s3", endpoint_url=server)
    client.create_bucket(Bucket=BUCKET)
    yield client
    while items := client.list_objects_v2(Bucket=BUCKET).get("Contents", ()):
        objects = [{"Key": item["Key"]} for item in items]
        client.delete_objects(Bucket=BUCKET, Delete={"Objects": objects})
    client.delete_bucket(Bucket=BUCKET)
    client.close()


@pytest.fixture
def api(live_url: str) -> Iterator[Api]:
    with Api(live_url) as api:
        yield api
        with contextlib.suppress(Rejected):
            api.send(calls.delete_collection("synced"))


def put(s3: Any, key: str, text: str) -> None:
    s3.put_object(Bucket=BUCKET, Key=key, Body=text.encode())


def sync(api: Api, server: str, *options: str, source: str = f"s3://{BUCKET}/docs", status: int = 0) -> Any:
    command = ("sync", source, "-c", "synced", "--endpoint-url", server, "--json", "--url", api.address.base_url)
    told = rag(*command, *options)
    assert told.exit_code == status, told.output
    return json.loads(told.stdout) if told.stdout else told.stderr


def test_objects_stay_in_step(api: Api, s3: Any, server: str) -> None:
    for key in ("docs/a.md", "docs/b.md", "docs/deep/c.md", "docs/.hidden/x.md", "docs/old/y.md", "other/z.md"):
        put(s3, key, f"# About {key}\n\nThe text of {key}.")
    put(s3, "docs/folder/", "")
    put(s3, "docs/image.png", "?")
    first = sync(api, server, "--exclude", "old/")
    assert first["added"] == ["a.md", "b.md", "deep/c.md"]
    assert first["skipped"] == [{"path": "image.png", "reason": ".png is not supported"}]
    ids = {one["name"]: one["document_id"] for one in api.json(calls.documents("synced", 99, ""))["documents"]}
    assert set(ids) == {"docs/a.md", "docs/b.md", "docs/deep/c.md"}
    assert sync(api, server, "--exclude", "old/")["unchanged"] == 3

    put(s3, "docs/a.md", "# About a\n\nAnother text.")
    s3.copy_object(Bucket=BUCKET, Key="docs/moved.md", CopySource=f"{BUCKET}/docs/b.md")
    for key in ("docs/b.md", "docs/deep/c.md"):
        s3.delete_object(Bucket=BUCKET, Key=key)
    second = sync(api, server, "--exclude", "old/", "--yes")
    assert (second["changed"], second["renamed"]) == (["a.md"], [{"from": "b.md", "to": "moved.md"}])
    assert (second["added"], second["removed"]) == ([], ["deep/c.md"])
    after = {one["name"]: one["document_id"] for one in api.json(calls.documents("synced", 99, ""))["documents"]}
    assert after == {"docs/a.md": ids["docs/a.md"], "docs/moved.md": ids["docs/b.md"]}


def test_more_objects_than_a_page_has(s3: Any, server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_source, "PAGE", 2)
    for number in range(5):
        put(s3, f"many/{number}.md", "x")
    assert len(S3Source(f"s3://{BUCKET}/many/", endpoint_url=server).listing().entries) == 5


def test_an_empty_prefix_or_a_missing_bucket_removes_nothing(api: Api, s3: Any, server: str) -> None:
    put(s3, "docs/a.md", "# A\n\nA text.")
    sync(api, server)
    s3.delete_object(Bucket=BUCKET, Key="docs/a.md")
    refused = sync(api, server, "--yes", "--delete-many", status=1)
    assert refused["removed"] == []
    assert "no files now" in refused["refusal"]
    missing = sync(api, server, "--yes", source="s3://no-such-bucket/docs", status=1)
    assert "cannot be listed" in missing
    assert "NoSuchBucket" in missing
    assert len(api.json(calls.documents("synced", 99, ""))["documents"]) == 1


def test_an_object_that_changed_after_the_listing_waits(s3: Any, server: str) -> None:
    put(s3, "docs/a.md", "one")
    source = S3Source(f"s3://{BUCKET}/docs", endpoint_url=server)
    (entry,) = source.listing().entries
    with source.read(entry).file as file:
        assert file.read() == b"one"
    put(s3, "docs/a.md", "two")
    with pytest.raises(ReadFailed, match="changed after it was listed"):
        source.read(entry)
    with pytest.raises(ReadFailed, match="changed after it was listed"):
        source.read(Entry("gone.md", 1, '"x"'))


def test_a_server_that_is_away_and_a_missing_boto3_are_named(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(SourceUnavailable, match="cannot be listed: Could not connect"):
        S3Source(f"s3://{BUCKET}", endpoint_url="http://127.0.0.1:1").listing()
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(SourceUnavailable, match=r"run pip install -e '\.\[s3\]' in the project's folder"):
        S3Source(f"s3://{BUCKET}")
