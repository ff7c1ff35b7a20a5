"""The Redis and the API that a command uses: those of the settings, else those of the stack on the data folder."""

from __future__ import annotations

from urllib.parse import quote, urlsplit, urlunsplit

from rag_service.access import running
from rag_service.cli.stack.data_folder import is_in_use
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings


def redis_url(settings: Settings) -> str | None:
    """The configured Redis, with its password, else that of the running stack.

    Raises:
        InvalidSettings: the file with the password cannot be read.
    """
    if settings.redis_url is not None:
        return with_password(settings)
    found = running.read(settings.data_dir)
    return found.redis_url if found else None


def with_password(settings: Settings) -> str:
    """The configured Redis, with the password from RAG_REDIS_PASSWORD_FILE, if set. Raises InvalidSettings."""
    assert settings.redis_url is not None
    parts, file = urlsplit(settings.redis_url), settings.redis_password_file
    if file is None or parts.password is not None:
        return settings.redis_url
    try:
        password = quote(file.read_text(encoding="utf-8").strip(), safe="")
    except OSError as error:
        raise InvalidSettings(
            f"RAG_REDIS_PASSWORD_FILE: {file} cannot be read ({error.strerror}); name a file that holds the password."
        ) from None
    return urlunsplit(parts._replace(netloc=f"{parts.username or ''}:{password}@{parts.netloc.rpartition('@')[2]}"))


def not_found(settings: Settings, url: str | None = None) -> str:
    """A sentence for a command whose address is the default: in which data folder no stack runs. Else ""."""
    if running.known_address(settings.data_dir, url, settings.url):
        return ""
    return (
        f"No running service was found in the data folder {settings.data_dir.resolve()}: run this command in the "
        "folder where `rag up` was started, or set RAG_DATA_DIR to its data folder."
    )


def starting(settings: Settings, url: str | None = None) -> str:
    """A sentence for such a command whose stack is not ready yet. Else ""."""
    if running.known_address(settings.data_dir, url, settings.url) or not is_in_use(settings.data_dir):
        return ""
    return (
        f"`rag up` is still starting in the data folder {settings.data_dir.resolve()}: it loads the model first. Try "
        "again once it says that it is ready."
    )


def api_url(settings: Settings, url: str | None = None) -> str:
    """The address of the API: `url`, else the setting's, else the running stack's, else the default."""
    if address := running.known_address(settings.data_dir, url, settings.url):
        return address.rstrip("/")
    host = "127.0.0.1" if settings.host in ("0.0.0.0", "::", "") else settings.host
    return f"http://{host}:{settings.port}"
