"""Files from the model hub: whole model folders, and single files that are also found elsewhere.

Knows huggingface_hub, whose variables (HF_HUB_OFFLINE, HF_ENDPOINT, …) apply; knows no named model.
"""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from decoder.weights.model_folder import HUB_PATTERNS, IncompleteModel, ModelError, check_folder
from decoder.weights.wheels import POLL_SECONDS, Progress, PullFailed, has_sha256, largest_file

ASK_SECONDS = 6.0
"""How long the hub may take to say which file it has."""
STALL_SECONDS = 45.0
"""How long a download may bring no byte."""


class UnknownRepository(ModelError):
    """The hub id has a form that no repository has."""


class HubMissed(Exception):
    """The hub did not give the file; the text is a short reason."""


@dataclass(frozen=True)
class HubFile:
    """A file of a hub repository.

    Attributes:
        repository: owner/name.
        name: of the file.
    """

    repository: str
    name: str

    def fetch(self, sha256: str, size: int, folder: Path, progress: Progress) -> Path:
        """Download into `folder`. A lost connection is taken up again; a download that was killed begins anew.

        Args:
            sha256: the hash that the file must have. If the hub says that it has another file, nothing is downloaded.
            size: bytes of the file.
            folder: a folder of its own; what a killed download left there is deleted.
            progress: called with ("hub", bytes, size).

        Raises:
            HubMissed: the hub is switched off, not reached in time, or has another file.
        """
        from huggingface_hub import constants, get_hf_file_metadata, hf_hub_download, hf_hub_url

        if constants.HF_HUB_OFFLINE:
            raise HubMissed("HF_HUB_OFFLINE is set")
        progress("hub", 0, size)
        url = hf_hub_url(self.repository, self.name)
        asked = _Call(lambda: get_hf_file_metadata(url, timeout=ASK_SECONDS))
        asked.wait(ASK_SECONDS)
        found = asked.result("hub not reached")
        if found.etag and len(found.etag) == len(sha256) and found.etag != sha256:
            raise HubMissed("hub has another file")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        revision = found.commit_hash
        download = _Call(lambda: hf_hub_download(self.repository, self.name, revision=revision, local_dir=folder))
        arrived, since = 0, time.monotonic()
        while not download.wait(POLL_SECONDS):
            now = largest_file(folder)
            if now != arrived:
                arrived, since = now, time.monotonic()
            if time.monotonic() - since > STALL_SECONDS:
                raise HubMissed("hub stopped sending")
            progress("hub", min(arrived, size), size)
        path = Path(download.result("hub download failed"))
        if not has_sha256(path, sha256):
            raise HubMissed("hub has another file")
        progress("hub", size, size)
        return path


def hub_folder(hub_id: str, cache_dir: Path) -> Path:
    """The folder of `owner/name` or `owner/name@revision`, downloaded unless it is complete in the cache.

    Raises:
        UnknownRepository: the id has a wrong form.
        PullFailed: the hub is not reachable, or has no such model.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    repository, _, revision = hub_id.partition("@")

    def snapshot(local: bool) -> Path:
        return Path(
            snapshot_download(
                repository,
                revision=revision or None,
                cache_dir=cache_dir,
                allow_patterns=list(HUB_PATTERNS),
                ignore_patterns=["consolidated*"],  # the same weights once more, in Mistral's own layout
                local_files_only=local,
            )
        )

    try:
        return check_folder(snapshot(local=True))
    except (LocalEntryNotFoundError, IncompleteModel):
        pass  # not in the cache, or an interrupted download
    except HFValidationError as error:
        raise UnknownRepository(str(error)) from error
    try:
        return check_folder(snapshot(local=False))
    except (HfHubHTTPError, OSError) as error:
        raise PullFailed(
            f"could not download {hub_id} from the hub: {type(error).__name__}: {str(error).splitlines()[0]}; "
            "check the name and the network, or download the model elsewhere and give its folder"
        ) from error


class _Call:
    """A call in a thread that the process does not wait for: a name server may take longer than every timeout."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._value: Any = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._value = self._function()
        except Exception as error:  # whatever the library raises, the file can come from elsewhere
            self._error = error

    def wait(self, seconds: float) -> bool:
        """Whether the call has ended, after waiting for at most this long."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def result(self, failure: str) -> Any:
        """What the function returned; raises HubMissed with `failure` if it raised or has not ended."""
        if self._error is not None or self._thread.is_alive():
            raise HubMissed(failure) from self._error
        return self._value
