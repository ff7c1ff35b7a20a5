// Uploads files and follows their ingest. XMLHttpRequest, because fetch does not report progress.

import { json, part, Problem, problemFrom, unreachable } from "../api.js";
import { count, t } from "../language.js";

const MOST_FILES = 50;
const MOST_BYTES = 48 * 2 ** 20; // of one request; a larger file is sent alone
const POLL_MS = 300;

/** @param report called with (text, share from 0 to 1). Returns the files that could not be read: [{name, reason}]. */
export async function ingest(collection, files, report) {
  const failures = [];
  const totalBytes = files.reduce((bytes, file) => bytes + file.size, 0) || 1;
  let before = 0;
  for (const batch of batches(files)) {
    const bytes = batch.reduce((sum, file) => sum + file.size, 0);
    const share = (within) => (before + bytes * within) / totalBytes;
    const jobId = await send(collection, batch, (sent) =>
      report(t("Sending {files}…", { files: count(files.length, "{n} file", "{n} files") }), share(0.5 * sent)));
    const job = await wait(jobId, ({ done, total }) =>
      report(t("Reading: {part} of {all}…", { part: done, all: total }), share(0.5 + 0.5 * done / Math.max(1, total))));
    failures.push(...job.failures);
    before += bytes;
    if (job.status === "failed" && !job.failures.length) {
      throw new Problem({ title: t("The files could not be added"), detail: t("The worker gave up on them. Try again.") });
    }
  }
  return failures;
}

/** Puts a file in a document's place; the document keeps its id. Returns what could not be read, as `ingest` does. */
export async function replace(collection, documentId, file) {
  const described = JSON.stringify([{ id: documentId }]);
  const job = await wait(await send(collection, [file], () => {}, described), () => {});
  return job.status === "failed" && !job.failures.length
    ? [{ name: file.name, reason: t("The worker gave up on it. Try again.") }] : job.failures;
}

function* batches(files) {
  let batch = [];
  let bytes = 0;
  for (const file of files) {
    if (batch.length && (batch.length >= MOST_FILES || bytes + file.size > MOST_BYTES)) {
      yield batch;
      [batch, bytes] = [[], 0];
    }
    batch.push(file);
    bytes += file.size;
  }
  if (batch.length) yield batch;
}

function send(collection, files, report, described = null) {
  const form = new FormData();
  if (described) form.append("documents", described);
  for (const file of files) form.append("files", file, file.name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `v1/collections/${part(collection)}/documents`);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) report(event.loaded / event.total);
    });
    request.addEventListener("error", () => reject(unreachable()));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(JSON.parse(request.responseText).job_id);
      else reject(problemFrom(request.responseText, request.status, Number(request.getResponseHeader("Retry-After")) || null));
    });
    request.send(form);
  });
}

async function wait(jobId, report) {
  for (;;) {
    const job = await json("GET", `v1/jobs/${part(jobId)}`);
    report(job);
    if (job.status !== "queued" && job.status !== "running") return job;
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}
