"""A bucket of S3-compatible storage, or the objects below a prefix, as a source.

boto3 finds the credentials, as its own documentation says: environment, profiles, roles.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from rag_service.contract.file_names import sendable
from rag_service.sync.selection import Selection, refusal
from rag_service.sync.source import Entry, Fetched, Listing, ReadFailed, Skipped, SourceUnavailable, fetched

SCHEME = "s3://"
BLOCK_BYTES = 2**20
PAGE = 1000
"""Objects that one request lists."""


class S3Source:
    """Objects of a bucket.

    Args:
        address: `s3://BUCKET` or `s3://BUCKET/PREFIX`.
        name: default: the last part of the prefix, else the bucket's name.
        endpoint_url: the server, if it is not Amazon's.
        selection: which of its objects, by their paths below the prefix.

    Raises:
        SourceUnavailable: the address is not one, or boto3 is not installed or not set up.
    """

    def __init__(
        self,
        address: str,
        name: str | None = None,
        *,
        endpoint_url: str | None = None,
        selection: Selection | None = None,
    ) -> None:
        self._bucket, _, prefix = address.removeprefix(SCHEME).partition("/")
        prefix = prefix.strip("/")
        if not address.startswith(SCHEME) or not self._bucket:
            raise SourceUnavailable(f"{address} is not an address; write s3://BUCKET or s3://BUCKET/PREFIX.")
        self._prefix = f"{prefix}/" if prefix else ""
        self.name = name or prefix.rpartition("/")[2] or self._bucket
        self._address = address
        self._selection = selection or Selection()
        self._client = _client(endpoint_url)

    def listing(self) -> Listing:
        from botocore.exceptions import BotoCoreError, ClientError

        entries: list[Entry] = []
        skipped: list[Skipped] = []
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix, PaginationConfig={"PageSize": PAGE}
        )
        try:
            for page in pages:
                for item in page.get("Contents", ()):
                    path = str(item["Key"]).removeprefix(self._prefix)
                    if not path or path.endswith("/") or not self._selection.takes(path) or self._excluded(path):
                        continue
                    if reason := refusal(path, self.name):
                        skipped.append(Skipped(sendable(path), reason))
                    else:
                        entries.append(Entry(path, int(item["Size"]), str(item["ETag"])))
        except (BotoCoreError, ClientError) as error:
            raise SourceUnavailable(f"{self._address} cannot be listed: {_reason(error)}.") from None
        entries.sort(key=lambda entry: entry.path)
        return Listing(tuple(entries), tuple(skipped))

    def read(self, entry: Entry) -> Fetched:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + entry.path, IfMatch=entry.stamp)
            return fetched(_blocks(answer["Body"]))
        except ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") in (404, 412):
                raise ReadFailed("the object changed after it was listed; the next sync takes it") from None
            raise ReadFailed(f"the object cannot be read: {_reason(error)}") from None
        except BotoCoreError as error:
            raise ReadFailed(f"the object cannot be read: {_reason(error)}") from None

    def _excluded(self, path: str) -> bool:
        """Whether a folder above the object is left out."""
        parts = path.split("/")[:-1]
        return any(not self._selection.enters("/".join(parts[: count + 1])) for count in range(len(parts)))


def _client(endpoint_url: str | None) -> Any:
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
    except ImportError:
        raise SourceUnavailable(
            "Reading s3:// needs boto3: run pip install -e '.[s3]' in the project's folder."
        ) from None
    style = {"addressing_style": "path"} if endpoint_url else {}  # other servers seldom have a host name a bucket
    config = Config(retries={"mode": "standard"}, s3=style)
    try:
        return boto3.client("s3", endpoint_url=endpoint_url, config=config)
    except (BotoCoreError, ValueError) as error:
        raise SourceUnavailable(f"S3 is not set up: {_reason(error)}.") from None


def _blocks(body: Any) -> Iterator[bytes]:
    yield from body.iter_chunks(BLOCK_BYTES)


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()).rstrip(".")
