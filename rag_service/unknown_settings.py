"""Finds variables that look like settings but are not, such as misspelt names, which pydantic ignores silently.

Reads the environment and `.env` as `settings` does. Knows names; knows no values.
"""

from __future__ import annotations

from pydantic_settings import DotEnvSettingsSource, EnvSettingsSource

from rag_service.settings import PREFIX, Settings, setting_names, unknown_setting_message

COMPOSE_VARIABLES = frozenset(
    {
        "RAG_API_CPUS",
        "RAG_API_EMBEDDING_DEVICE",
        "RAG_API_IMAGE",
        "RAG_API_MEMORY",
        "RAG_BIND",
        "RAG_GPU_0",
        "RAG_GPU_1",
        "RAG_GPU_2",
        "RAG_GPU_3",
        "RAG_IMAGE_TAG",
        "RAG_LLAMACPP_CONTEXT",
        "RAG_LLAMACPP_CPUS",
        "RAG_LLAMACPP_FILE",
        "RAG_LLAMACPP_FOLDER",
        "RAG_LLAMACPP_IMAGE",
        "RAG_LLAMACPP_MEMORY",
        "RAG_LLAMACPP_PARALLEL",
        "RAG_PIDS",
        "RAG_POSTGRES_CPUS",
        "RAG_POSTGRES_IMAGE",
        "RAG_POSTGRES_MEMORY",
        "RAG_POSTGRES_PASSWORD",
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
"""Variables of `docker-compose.yml`, which reads the same `.env`."""


def unknown_settings() -> list[str]:
    """An error message for each `RAG_…` variable that is not a setting."""
    settings = set(setting_names())
    sections = {name.partition("__")[0] for name in settings if "__" in name}  # each also accepted as JSON
    variables = {*DotEnvSettingsSource(Settings).env_vars, *EnvSettingsSource(Settings).env_vars}
    names = sorted({name.upper() for name in variables} - settings - sections - COMPOSE_VARIABLES)
    return [unknown_setting_message(name) for name in names if name.startswith(PREFIX)]
