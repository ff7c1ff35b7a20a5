"""Variables that look like settings and are none: a slip of the pen that would otherwise be ignored in silence.

Reads the environment and `.env` as `settings` does. Knows names; knows no values.
"""

from __future__ import annotations

from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

from rag_service.settings import PREFIX, Settings, no_setting, setting_names

NOT_OURS = frozenset(
    {
        "RAG_API_CPUS",
        "RAG_API_MEMORY",
        "RAG_BIND",
        "RAG_IMAGE_TAG",
        "RAG_PIDS",
        "RAG_PYTHON_IMAGE",
        "RAG_REDIS_CPUS",
        "RAG_REDIS_IMAGE",
        "RAG_REDIS_MAXMEMORY",
        "RAG_REDIS_MEMORY",
        "RAG_REDIS_PASSWORD",
        "RAG_WORKER_CPUS",
        "RAG_WORKER_MEMORY",
    }
)
"""What `docker-compose.yml` reads; it shares `.env`."""


def unknown_settings() -> list[str]:
    """A sentence for each `RAG_…` variable that is no setting, naming the one that was meant where that can be told."""
    known = set(setting_names())
    sections = {name.partition("__")[0] for name in known if "__" in name}  # JSON of all that is in them
    found = {*DotEnvSettingsSource(Settings).env_vars, *EnvSettingsSource(Settings).env_vars}
    names = sorted({name.upper() for name in found} - known - sections - NOT_OURS)
    return [no_setting(name) for name in names if name.startswith(PREFIX)]
