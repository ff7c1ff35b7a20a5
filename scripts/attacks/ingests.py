"""Ingests: no job is lost, blocks the others for ever, or reads files outside its folder."""

from __future__ import annotations

import threading
import time

from service import Service, expect
from stack import Stack

JOBS, FILES = 10, 30


def four_at_once(service: Service) -> None:
    """Four jobs posted to one collection at once all succeed."""
    name = service.collection()
    jobs = [
        service.add(name, [{"id": f"{job}-{n}", "text": f"Text {n} of {job}."} for n in range(5)]) for job in range(4)
    ]
    for job in jobs:
        assert service.ended(job)["status"] == "succeeded"
    assert expect(service.ask("GET", f"/v1/collections/{name}"), 200).json["documents"] == 20


def cancelled_at_once(service: Service) -> None:
    """A cancelled waiting job ends at once, and the metrics count jobs by state and age."""
    name = service.collection()
    documents = [{"id": str(n), "text": f"A long text about {n}. " * 400} for n in range(40)]
    jobs = [
        service.add(name, [{**document, "id": f"{job}{document['id']}"} for document in documents]) for job in range(3)
    ]
    expect(service.ask("DELETE", f"/v1/jobs/{jobs[2]}"), 200)
    assert service.ask("GET", f"/v1/jobs/{jobs[2]}").json["status"] == "cancelled"
    metrics = expect(service.ask("GET", "/metrics"), 200).body.decode()
    assert 'rag_ingest_jobs{status="running"}' in metrics
    assert 'rag_ingest_jobs_oldest_seconds{status="queued"}' in metrics
    for job in jobs[:2]:
        expect(service.ask("DELETE", f"/v1/jobs/{job}"), 200)
        service.ended(job)


def odd_names(service: Service) -> None:
    """A file whose name is not UTF-8 or has 5,000 characters fails alone and is listed; the others are ingested."""
    name = service.collection()
    files = [(b"good.md", b"Pears are green."), (b"\xff\xfe.md", b"Plums."), (b"n" * 5000 + b".md", b"Figs.")]
    job = service.ended(str(expect(service.upload(name, files), 202).json["job_id"]))
    assert job["status"] == "succeeded", job
    assert len(job["failures"]) == 2, job["failures"]
    assert expect(service.ask("GET", f"/v1/collections/{name}"), 200).json["documents"] == 1


def deep_pages(service: Service) -> None:
    """A page of 300,000 nested elements is rejected and delays no other file."""
    name = service.collection()
    started = time.monotonic()
    page = b"<html><body>" + b"<div>" * 300_000 + b"deep"
    job = service.ended(
        str(expect(service.upload(name, [(b"deep.html", page), (b"ok.md", b"Pears.")]), 202).json["job_id"])
    )
    assert [failure["name"] for failure in job["failures"]] == ["deep.html"], job
    assert time.monotonic() - started < 30


def links_out_of_a_folder(stack: Stack) -> None:
    """A link that leads out of an ingested folder is skipped and listed."""
    folder = stack.folder / "documents"
    folder.mkdir()
    (folder / "own.md").write_text("Pears are green.")
    (folder / "passwd.txt").symlink_to("/etc/passwd")
    (folder / "etc").symlink_to("/etc")
    (folder / "loop").symlink_to(folder)
    done = stack.rag("ingest", str(folder), "-c", "linked")
    assert "passwd.txt" in done.stdout + done.stderr, done
    listed = expect(stack.service.ask("GET", "/v1/collections/linked/documents"), 200).json["documents"]
    assert [document["name"] for document in listed] == ["documents/own.md"], listed


def a_full_disk(stack: Stack) -> str | None:
    """A full disk gives 507, and ingests work again once there is room."""
    if not stack.disk:
        return "this account cannot mount a small disk"
    name = stack.service.collection()
    filler = stack.data / "filler"
    try:
        with filler.open("wb") as file:
            while True:
                file.write(b"x" * 65536)
                file.flush()
    except OSError:
        pass
    try:
        reply = stack.service.upload(name, [(b"big.md", b"Pears. " * 200_000)])
        expect(reply, 507, code="storage_full")
    finally:
        filler.unlink()
    job = str(expect(stack.service.upload(name, [(b"small.md", b"Pears are green.")]), 202).json["job_id"])
    assert stack.service.ended(job)["status"] == "succeeded"
    return None


def crashes(stack: Stack) -> None:
    """Ten jobs of three tenants, with the worker killed twice and Redis once, store each of 300 documents once."""
    services = []
    for number in range(3):
        created = stack.rag("keys", "create", f"tenant {number}", "--tenant", f"tenant{number}")
        assert created.returncode == 0, created.stderr
        services.append(stack.service.with_key(created.stdout.strip()))
        services[-1].ask("POST", "/v1/collections", {"name": "all"})
    jobs: dict[str, Service] = {}

    def post(number: int) -> None:
        service = services[number % 3]
        files = [(f"{number}-{n}.md".encode(), f"Job {number} says {n}. ".encode() * 40) for n in range(FILES)]
        jobs[str(expect(service.upload("all", files), 202).json["job_id"])] = service

    threads = [threading.Thread(target=post, args=(number,)) for number in range(JOBS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(jobs) == JOBS
    for word in (r"\bworker\b", "redis|valkey", r"\bworker\b"):
        stack.kill(word)
        time.sleep(1.0)
    for job, service in jobs.items():
        assert service.ended(job, 200.0)["status"] == "succeeded", job
    names: list[str] = []
    for service in services:
        after = ""
        while after is not None:
            page = expect(service.ask("GET", f"/v1/collections/all/documents?limit=100&after={after}"), 200).json
            names += [document["name"] for document in page["documents"]]
            after = page["next"]
    assert sorted(names) == sorted(f"{number}-{n}.md" for number in range(JOBS) for n in range(FILES)), len(names)
    uploads = list((stack.data / "uploads").glob("*/[0-9]*"))
    assert not uploads, "uploads of ended jobs remain"


OVER_HTTP = [four_at_once, cancelled_at_once, odd_names, deep_pages]
ON_A_STACK = [links_out_of_a_folder, a_full_disk, crashes]
