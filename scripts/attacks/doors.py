"""Access: keys, hosts, origins, proxies, other accounts."""

from __future__ import annotations

import os
import stat
import subprocess
import sys

from service import Service, expect
from stack import Stack

ASK = "/v1/collections"


def no_key(service: Service) -> None:
    """Without a key, every request below /v1 but signing in and out gets 401, on loopback too.

    Outside, there are the probes, counts, and the ways to an OpenID provider, which a service without one has not.
    """
    paths = expect(service.ask("GET", "/openapi.json"), 200).json["paths"]
    stranger = service.with_key(None)
    open_to_all = []
    for path, operations in paths.items():
        for method, operation in operations.items():
            if path.startswith("/v1/") and {} in operation.get("security", []):
                open_to_all.append((method, path))
            elif path.startswith("/v1/"):
                expect(stranger.ask(method.upper(), path.replace("{", "").replace("}", "")), 401)
    assert open_to_all == [("post", "/v1/sign-in"), ("delete", "/v1/sign-in")], open_to_all  # its key is in the body
    sign_in = {"/sign-in/oidc", "/sign-in/oidc/callback", "/sign-in/oidc/sign-out"}
    assert {path for path in paths if not path.startswith("/v1/")} == {"/healthz", "/readyz", "/metrics", *sign_in}
    for path in sign_in:
        expect(stranger.ask("GET", f"{path}?code=x&state=y"), 404)
    expect(service.ask("GET", ASK), 200)


def malformed_authorization(service: Service) -> None:
    """A malformed Authorization header gets 401."""
    stranger = service.with_key(None)
    assert service.key is not None
    wrong = ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer é", "bearer\tx", "Bearer rag_000000000000_" + "A" * 43]
    key = service.key
    for text in (*wrong, key, f"Bearer {key[:-1]}", f"Bearer {key}x", f"Bearer {key} {key}"):
        expect(stranger.ask("GET", ASK, headers={"Authorization": text}), 401)


def proxies(service: Service) -> None:
    """A forwarded request without a key gets 401."""
    stranger = service.with_key(None)
    for name in ("X-Forwarded-For", "Forwarded", "X-Forwarded-Host", "X-Real-IP", "Via", "CF-Connecting-IP"):
        expect(stranger.ask("GET", ASK, headers={name: "127.0.0.1"}), 401)


def hosts(service: Service) -> None:
    """A foreign host name gets 421 (DNS rebinding)."""
    for host in ("evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example"):
        for path in (ASK, "/", "/openapi.json"):
            expect(service.ask("GET", path, headers={"Host": host}), 421, code="unknown_host")


def origins(service: Service) -> None:
    """A page of another site gets 403."""
    for headers in (
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"http://127.0.0.1:{service.port + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):
        expect(service.ask("POST", ASK, {"name": "foreign"}, headers=headers), 403)
        expect(service.ask("GET", ASK, headers=headers), 403)
    reply = service.ask(
        "OPTIONS", ASK, headers={"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    )
    assert not any(name.startswith("access-control") for name in reply.headers)
    own = f"http://{service.host}:{service.port}"
    expect(service.ask("GET", ASK, headers={"Origin": own, "Sec-Fetch-Site": "same-origin"}), 200)


def content_types(service: Service) -> None:
    """A form of another site cannot add documents: JSON must have the type application/json."""
    name = service.collection()
    body = b'{"documents": [{"id": "x", "text": "planted"}]}'
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/octet-stream", "multipart/x"):
        reply = service.ask("POST", f"/v1/collections/{name}/documents", body=body, headers={"Content-Type": kind})
        expect(reply, 400, 415)
    expect(service.ask("POST", "/v1/query", body=b'{"question": "x"}', headers={"Content-Type": "text/plain"}), 415)
    assert expect(service.ask("GET", f"/v1/collections/{name}/documents"), 200).json["documents"] == []


def private_folder(stack: Stack) -> None:
    """Only the user can read the data folder and its key, and the rag commands use the key."""
    assert stat.S_IMODE(stack.data.stat().st_mode) == 0o700
    key = stack.data / "key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    loose = [path for path in stack.data.rglob("*") if path.is_file() and path.stat().st_mode & 0o077]
    assert not loose, f"others may read {loose[:5]}"
    assert stack.rag("collections", "list").returncode == 0
    assert "#key=" in stack.output.read_text(), "rag up prints an address that signs the browser in"


def another_account(stack: Stack) -> str | None:
    """Another account of the machine cannot use the folder, the socket, the key or the API."""
    if os.getuid() != 0:
        return "only root can act as another account"
    socket = stack.run["redis_url"].removeprefix("unix://").partition("?")[0]
    tries = [
        f"cat {stack.data}/key",
        f"ls {stack.data}",
        f"cat {stack.data}/logs/api.log",
        f"""{sys.executable} -c 'import socket; socket.socket(socket.AF_UNIX).connect("{socket}")'""",
        *(f"cat /proc/{pid}/environ" for pid in stack.pids("")),
    ]
    os.chmod(stack.folder, 0o755)
    for command in tries:
        done = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", command],
            capture_output=True, check=False, cwd="/",
        )  # fmt: skip
        assert done.returncode != 0, f"{command} worked: {done.stdout[:200]!r}"
    key = stack.service.key or ""
    for pid in stack.pids(""):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            assert key.encode() not in file.read(), "a command line holds the key"
    expect(stack.service.with_key(None).ask("GET", ASK), 401)
    return None


def people(stack: Stack) -> None:
    """Two people of one tenant share documents and never see each other's chats; a reader cannot change anything."""
    anna, ben = (_key(stack, name, role) for name, role in (("anna", "editor"), ("ben", "reader")))
    name = anna.collection()
    anna.ended(anna.add(name, [{"id": "d", "text": "The pass to the roof is blue."}]))
    reply = expect(
        anna.ask("POST", "/v1/query", {"question": "Which pass?", "collection": name, "max_tokens": 4}), 200
    ).json
    session, answer = reply["session_id"], reply["answer_id"]
    expect(ben.ask("POST", f"/v1/collections/{name}/search", {"question": "pass"}), 200)
    for path in (
        f"/v1/sessions/{session}",
        f"/v1/answers/{answer}",
        f"/v1/answers/{answer}/events",
        f"/v1/answers/{answer}/versions",
    ):
        expect(anna.ask("GET", path), 200)
        expect(ben.ask("GET", path), 404)
    expect(ben.ask("DELETE", f"/v1/sessions/{session}"), 404)
    assert expect(ben.ask("GET", "/v1/sessions"), 200).json["sessions"] == []
    expect(ben.ask("POST", "/v1/collections", {"name": "bens"}), 403)
    expect(ben.ask("POST", f"/v1/collections/{name}/documents", {"documents": [{"text": "x"}]}), 403)
    expect(ben.ask("DELETE", f"/v1/collections/{name}"), 403)


def _key(stack: Stack, name: str, role: str) -> Service:
    created = stack.rag("keys", "create", name, "--tenant", "people", "--role", role)
    assert created.returncode == 0, created.stderr
    return stack.service.with_key(created.stdout.strip())


OVER_HTTP = [no_key, malformed_authorization, proxies, hosts, origins, content_types]
ON_A_STACK = [private_folder, another_account, people]
