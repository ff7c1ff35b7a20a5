"""docker-compose.yml passes every setting on, holds nothing unlimited that can be limited, and shows no secret."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import redis
import yaml

from rag_service.cli.stack import addresses
from rag_service.errors import InvalidSettings
from rag_service.settings import Settings, setting_names
from rag_service.unknown_settings import COMPOSE_VARIABLES
from workers.broker.keys import WORKERS

ROOT = Path(__file__).parents[3]
FILE = ROOT / "docker-compose.yml"
FIXED = {
    "RAG_REDIS_URL": "redis://redis:6379/0",
    "RAG_REDIS_PASSWORD_FILE": "/secrets/redis_password",
    "RAG_DATA_DIR": "/data",
    "RAG_MODELS_DIR": "/models",
    "RAG_HOST": "0.0.0.0",
    "RAG_PORT": "8080",
}
"""What containers have of their own."""
OF_THE_API = {"RAG_HOST", "RAG_PORT", "RAG_URL", "RAG_API_KEY"}
SETTINGS = sorted({*setting_names(), *FIXED} & {*setting_names()})


def described() -> dict[str, Any]:
    services: dict[str, Any] = yaml.safe_load(FILE.read_text())["services"]
    return services


@pytest.mark.parametrize("name", SETTINGS)
def test_every_setting_is_passed_on(name: str) -> None:
    for service in ("api",) if name in OF_THE_API else ("api", "worker", "worker-gpu", "models"):
        environment = described()[service]["environment"]
        assert name in environment, f"{service} does not get {name}: name it in docker-compose.yml's x-settings"
        value = environment[name]
        if (service, name) == ("api", "RAG_EMBEDDING_DEVICE"):
            assert value == "${RAG_API_EMBEDDING_DEVICE:-workers}"  # its image has no torch
        elif name in FIXED:
            assert value == FIXED[name]
        else:
            assert value is None or value.startswith(f"${{{name}:-")


def test_each_gpu_worker_has_a_gpu_of_its_own() -> None:
    workers = {name: service for name, service in described().items() if name.startswith("worker-gpu")}
    of_profile = {
        profile: [
            device["device_ids"]
            for service in workers.values()
            if profile in service["profiles"]
            for device in service["deploy"]["resources"]["reservations"]["devices"]
        ]
        for profile in ("gpu", "gpu2", "gpu4")
    }
    wanted = [[f"${{RAG_GPU_{number}:-{number}}}"] for number in range(4)]
    assert of_profile == {"gpu": wanted[:1], "gpu2": wanted[:2], "gpu4": wanted}
    assert all(service["environment"] == workers["worker-gpu"]["environment"] for service in workers.values())


@pytest.mark.skipif(shutil.which("docker") is None, reason="docker is not installed")
def test_every_setting_of_an_env_file_reaches_the_containers(tmp_path: Path) -> None:
    values = {name: "8123" if name == "RAG_PORT" else f"value of {name}" for name in setting_names()}
    (tmp_path / ".env").write_text("".join(f"{name}='{value}'\n" for name, value in values.items()))
    command = ["docker", "compose", "--env-file", str(tmp_path / ".env"), "-f", str(FILE), "--profile", "gpu"]
    if subprocess.run([*command[:2], "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    got = subprocess.run([*command, "config", "--format", "json"], capture_output=True, text=True, check=True)
    services = json.loads(got.stdout)["services"]
    for service in ("api", "worker", "worker-gpu"):
        for name in set(setting_names()) - (set() if service == "api" else OF_THE_API):
            expected = (
                "workers" if (service, name) == ("api", "RAG_EMBEDDING_DEVICE") else FIXED.get(name, values[name])
            )
            assert services[service]["environment"][name] == expected, (service, name)


def test_compose_2_22_reads_the_file() -> None:
    configs = yaml.safe_load(FILE.read_text()).get("configs", {})
    assert not [name for name, config in configs.items() if "content" in config], "needs Compose 2.23.1"


def test_variables_that_only_compose_reads_are_known() -> None:
    read = set(re.findall(r"\$\{(RAG_\w+)", FILE.read_text()))
    assert read - set(setting_names()) <= COMPOSE_VARIABLES
    example = (ROOT / ".env.example").read_text()
    assert not [name for name in COMPOSE_VARIABLES - {"RAG_IMAGE_TAG"} if f"#{name}=" not in example]


@pytest.mark.parametrize("service", ["worker", "worker-gpu"])
def test_a_workers_check_sees_its_recent_heartbeat(service: str, redis_server: str) -> None:
    check = described()[service]["healthcheck"]["test"]
    assert check[:3] == ["CMD", "python", "-c"]
    command, environment = [sys.executable, *check[2:]], {**os.environ, "RAG_REDIS_URL": redis_server}

    def healthy() -> bool:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
        assert done.stderr == ""
        return done.returncode == 0

    with redis.Redis.from_url(redis_server) as server:
        assert not healthy()
        server.zadd(WORKERS, {f"{socket.gethostname()}:1": time.time() - 60})
        assert not healthy(), "it was too long ago"
        server.zadd(WORKERS, {f"{socket.gethostname()}:1": time.time()})
        assert healthy()
        server.delete(WORKERS)


def test_every_service_has_limits_and_a_pinned_image() -> None:
    for name, service in described().items():
        assert "pids_limit" in service, name
        if name not in ("secrets", "models"):  # these end
            assert {"mem_limit", "cpus"} <= set(service), name
    assert re.fullmatch(r"\$\{RAG_REDIS_IMAGE:-redis:\d+\.\d+\.\d+-\w+\}", described()["redis"]["image"])
    assert re.fullmatch(r"\$\{RAG_POSTGRES_IMAGE:-pgvector/pgvector:pg\d+\}", described()["postgres"]["image"])
    llamacpp = described()["llamacpp"]["image"]  # the project tags no versions of its server's image
    assert llamacpp == "${RAG_LLAMACPP_IMAGE:-ghcr.io/ggml-org/llama.cpp:server}"
    assert re.search(r"^ARG PYTHON_IMAGE=python:3\.\d+\.\d+-slim-\w+$", (ROOT / "Dockerfile").read_text(), re.M)


def test_redis_wants_a_password_that_no_command_line_shows(tmp_path: Path) -> None:
    redis = described()["redis"]
    assert redis["command"][-2:] == ["--include", "/secrets/redis.conf"]
    assert "requirepass" not in " ".join(redis["command"])
    assert {"--maxmemory", "noeviction"} <= set(redis["command"])


@pytest.mark.parametrize(
    ("url", "with_password"),
    [
        ("redis://redis:6379/0", "redis://:p%40ss%2Fword@redis:6379/0"),
        ("rediss://me@redis/1", "rediss://me:p%40ss%2Fword@redis/1"),
        ("redis://:other@redis:6379/0", "redis://:other@redis:6379/0"),
    ],
)
def test_the_password_of_redis_is_read_from_its_file(url: str, with_password: str, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("p@ss/word\n")
    settings = Settings(_env_file=None, redis_url=url, redis_password_file=tmp_path / "password")  # type: ignore[call-arg]
    assert addresses.redis_url(settings) == with_password


def test_a_password_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, redis_url="redis://redis", redis_password_file=tmp_path / "none")  # type: ignore[call-arg]
    with pytest.raises(InvalidSettings, match=r"RAG_REDIS_PASSWORD_FILE: .*none cannot be read"):
        addresses.redis_url(settings)
