"""Checks of scripts/compose-test on a running stack through a real nginx; standard library only.

    RAG_API_KEY=… PYTHONPATH=examples python scripts/compose_proxies.py URL

The checks run through the server block of docs/how-to/behind-nginx.md, and through one that only passes requests on.
Requests without a key get 401. With the key, streams arrive while they are written, and an upload of 20 MB succeeds.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from compose_check import check
from rag_client import Rag

HOW_TO = Path(__file__).parents[1] / "docs" / "how-to" / "behind-nginx.md"
PLAIN = """
server {
    listen 443 ssl;
    client_max_body_size 100m;
    location / { proxy_pass http://127.0.0.1:8080; }
}
"""
MAIN = """
daemon off;
pid %(folder)s/pid;
error_log %(folder)s/error.log;
worker_processes 1;
events {}
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    %(server)s
}
"""
COLLECTION = "proxied"
PATIENCE_S = 20.0


def main(url: str) -> None:
    shipped = re.search(r"```nginx\n(.*?)```", HOW_TO.read_text(encoding="utf-8"), re.DOTALL)
    check(shipped is not None, "docs/how-to/behind-nginx.md has a server block")
    assert shipped is not None
    for name, server in (("the server block of behind-nginx.md", shipped[1]), ("a plain proxy_pass", PLAIN)):
        with nginx(server, urlsplit(url).netloc) as proxied:
            print(f"  behind {name}", flush=True)
            refuses_without_key(proxied)
            uploads(Rag(proxied))
            streams(Rag(proxied))


def refuses_without_key(url: str) -> None:
    try:
        urllib.request.urlopen(f"{url}/v1/collections", timeout=20).close()
        check(False, "a request without a key is refused")
    except urllib.error.HTTPError as error:
        check(error.code == 401, f"a request without a key is refused: {error}")


def uploads(rag: Rag) -> None:
    with tempfile.TemporaryDirectory() as folder:
        large = Path(folder) / "large.html"
        padding = "<!-- " + "x" * (20 * 2**20) + " -->"
        large.write_text(f"<html><body>{padding}<p>The tide tables are kept in the harbour office.</p></body></html>")
        job = rag.upload(COLLECTION, [large])
    check(job["status"] == "succeeded", f"20 MB are ingested: {job}")


def streams(rag: Rag) -> None:
    """The first words arrive while the answer is still being written."""
    events = rag.stream("Where are the tide tables kept? Tell a long story.", collection=COLLECTION, max_tokens=400)
    seen, answer_id, running = [], "", None
    for name, data in events:
        seen.append(name)
        if name == "passages":
            answer_id = data["answer_id"]
        elif name == "token" and running is None:
            running = rag.call("GET", f"/v1/answers/{answer_id}")["status"]
    check(seen[0] == "passages" and seen[-1] == "done", f"a stream is complete: {len(seen)} events")
    check(running in ("queued", "running"), f"the first words arrive while the answer is {running}")


@contextlib.contextmanager
def nginx(server: str, upstream: str) -> Iterator[str]:
    """Run a server block in front of the stack, without TLS on a free port. Yields its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = re.sub(r"listen 443 ssl;", f"listen 127.0.0.1:{port};", server)
    server = re.sub(r"\s*ssl_certificate.*", "", server).replace("127.0.0.1:8080", upstream)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)  # its worker may have a user of its own
        config = Path(folder) / "nginx.conf"
        config.write_text(MAIN % {"folder": folder, "server": server})
        process = subprocess.Popen(["nginx", "-p", folder, "-c", str(config)])
        try:
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=5).close()
                    break
                except urllib.error.URLError:
                    check(process.poll() is None and time.monotonic() < deadline, "waiting for nginx")
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
