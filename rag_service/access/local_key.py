"""The local key: the file `key` in the data folder. Who can read it may do everything as the default tenant.

The service makes it at its first start; commands and the Python client on the same machine send it to loopback alone.
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
    """The file is there and is of no use. The message is a sentence that says what to do."""


def key_file(data_dir: Path) -> Path:
    return data_dir / "key"


def ensure(data_dir: Path) -> str:
    """The local key, made if there is none. Of processes that start together all get the same one.

    Raises:
        LocalKeyError: the file cannot be read or made, holds no key, or everyone on the machine can read it.
    """
    while (key := read(data_dir)) is None:
        _make(data_dir)
    file = key_file(data_dir)
    if file.stat().st_mode & 0o007:
        raise LocalKeyError(
            f"Every user of this machine can read the local key {file}: delete that file and start again, and a new "
            "one is made."
        )
    return key


def read(data_dir: Path) -> str | None:
    """The local key; None where there is none.

    Raises:
        LocalKeyError: the file cannot be read, or holds no key.
    """
    file = key_file(data_dir)
    try:
        text = file.read_bytes()[:1000].decode("ascii", "replace").strip()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LocalKeyError(
            f"The local key {file} cannot be read ({error.strerror}); let the service's user own it, or set another "
            "RAG_DATA_DIR."
        ) from None
    if not KEY.fullmatch(text):
        raise LocalKeyError(f"The local key {file} is not a key; delete that file and start again: it is made anew.")
    return text


def for_address(url: str, data_dir: Path) -> str | None:
    """The local key where it may be sent: to loopback. None elsewhere, and where there is none.

    Raises:
        LocalKeyError: as `read`.
    """
    return read(data_dir) if is_loopback(url) else None


def is_loopback(url: str) -> bool:
    """Whether an address is this machine's own; False for names other than `localhost`."""
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _make(data_dir: Path) -> None:
    """Write a whole file apart, then give it its name unless another process was first."""
    new = data_dir / f".key-{secrets.token_hex(8)}"
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(f"{new_key()[1]}\n")
                file.flush()
                os.fsync(descriptor)
            os.link(new, key_file(data_dir))
        except FileExistsError:
            pass
        finally:
            new.unlink()
    except OSError as error:
        raise LocalKeyError(
            f"The local key {key_file(data_dir)} cannot be made ({error.strerror}); set RAG_DATA_DIR to a folder that "
            "you can write to."
        ) from None
