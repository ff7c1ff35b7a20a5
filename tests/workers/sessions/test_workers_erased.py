"""When Redis's append-only file is rewritten, so that nothing of what was erased stays in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from workers.broker import keys
from workers.broker.app import make_redis
from workers.broker.embedded_redis import EmbeddedRedis
from workers.sessions import erased


def test_the_file_is_rewritten_once_for_all_that_was_erased(tmp_path: Path) -> None:
    with EmbeddedRedis(tmp_path) as server:
        client = make_redis(server.url)
        assert not erased.rewrite(client), "nothing was erased"
        erased.note(client)
        erased.note(client)
        assert erased.rewrite(client)
        assert not erased.rewrite(client)
        erased.note(client)
        assert not erased.rewrite(client), "not again so soon"
        assert client.exists(keys.ERASED), "but later"
        client.delete(keys.ERASED_PAUSE)
        while client.info("persistence")["aof_rewrite_in_progress"]:
            pass
        assert erased.rewrite(client)
        client.close()


def test_a_rewriting_that_runs_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may have begun before something was erased, and then has it."""
    with EmbeddedRedis(tmp_path) as server:
        client = make_redis(server.url)

        def busy() -> None:
            client.eval("return redis.error_reply('ERR Background append only file rewriting already in progress')", 0)

        monkeypatch.setattr(client, "bgrewriteaof", busy)
        erased.note(client)
        assert not erased.rewrite(client)
        assert client.exists(keys.ERASED)
        client.close()
