"""The local key: the file `key` in the data folder. Whoever can read it is an admin of the default tenant.

The service creates it at its first start. Commands and the Python client on the same machine send it only to loopback.
Knows files and addresses; knows no settings and no HTTP.
"""

from __future__ import annotations

import ipaddress
import os
import secrets
from pathlib import Path
from urllib.parse import urlsplit

from rag_service.access.key_form import KEY, new_key


class LocalKeyError(ValueError):
    """The local key cannot be used. The message is a sentence that says what to do."""


def key_file(data_dir: Path) -> Path:
    return data_dir / "key"


def ensure(data_dir: Path) -> str:
    """The local key, created if it does not exist. Processes that start at the same time get the same key.

    Raises:
        LocalKeyError: the file cannot be read or created, does not contain a key, or every user can read it.
    """
    while (key := read(data_dir)) is None:
        _create(data_dir)
    file = key_file(data_dir)
    if file.stat().st_mode & 0o007:
        raise LocalKeyError(
            f"Every user of this machine can read the local key {file}. Delete that file and start again to create a "
            "new key."
        )
    return key


def read(data_dir: Path) -> str | None:
    """The local key; None if the file does not exist.

    Raises:
        LocalKeyError: the file cannot be read, or does not contain a key.
    """
    file = key_file(data_dir)
    try:
        text = file.read_bytes()[:1000].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalKeyError(
            f"The local key {file} cannot be read ({error.strerror}). Make the service's user its owner, or set "
            "another RAG_DATA_DIR."
        ) from None
    if not KEY.fullmatch(text):
        raise LocalKeyError(f"The local key {file} is not a key. Delete that file and start again to create a new key.")
    return text


def for_address(url: str, data_dir: Path) -> str | None:
    """The local key to send to an address: None if the address is not loopback, or there is no local key.

    Raises:
        LocalKeyError: as for `read`.
    """
    return read(data_dir) if is_loopback(url) else None


def is_loopback(url: str) -> bool:
    """Whether an address is a loopback address; False for names other than `localhost`."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _create(data_dir: Path) -> None:
    """Write a temporary file, then link it as the key file unless another process was first."""
    temporary = data_dir / f".key-{secrets.token_hex(8)}"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{new_key()[1]}\n")
                file.flush()
                os.fsync(descriptor)
            os.link(temporary, key_file(data_dir))
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    except OSError as error:
        raise LocalKeyError(
            f"The local key {key_file(data_dir)} cannot be created ({error.strerror}). Set RAG_DATA_DIR to a folder "
            "that you can write to."
        ) from None
