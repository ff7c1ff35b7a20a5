"""The tests' own PostgreSQL: it has pgvector, survives a crash, and ends with its starter."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys

import psutil
import psycopg
import pytest

from tests.support.storage.postgres import PostgresServer


def test_a_database_of_ones_own(postgres: PostgresServer, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT '[1,2]'::halfvec <#> '[3,4]'").fetchone() == (-11.0,)
        assert connection.execute("SELECT usesuper FROM pg_user WHERE usename = current_user").fetchone() == (False,)
    with postgres.database(vector=False) as bare, psycopg.connect(bare) as connection:
        assert connection.execute("SELECT 1 FROM pg_extension WHERE extname = 'vector'").fetchone() is None


def test_what_is_committed_survives_a_crash(postgres: PostgresServer, postgres_url: str) -> None:
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE t (n int)")
        connection.execute("INSERT INTO t VALUES (7)")
    postgres.kill()
    with pytest.raises(psycopg.OperationalError):
        psycopg.connect(postgres_url)
    postgres.start()
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT n FROM t").fetchall() == [(7,)]


def test_it_ends_with_its_starter() -> None:
    script = (
        "import os, signal; from tests.support.storage.postgres import PostgresServer; "
        "server = PostgresServer().__enter__(); "
        "print(server.pid, server.folder, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    pid, folder = done.stdout.split()
    with contextlib.suppress(psutil.NoSuchProcess):
        psutil.Process(int(pid)).wait(30)
    shutil.rmtree(folder)
