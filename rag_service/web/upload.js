// Sending files and following their ingest. XMLHttpRequest, because fetch does not tell how much was sent.

import { authorization, json, part, Problem, problemFrom, unreachable } from "./api.js";
import { count } from "./dom.js";

const MOST_FILES = 50;
const MOST_BYTES = 48 * 2 ** 20; // of one request; a larger file goes alone, and the service says if it is too large
const LOOK_MS = 300;

/** @param tell called with (text, share from 0 to 1). Returns the files that could not be read: [{name, reason}]. */
export async function ingest(collection, files, tell) {
  const failures = [];
  const total = files.reduce((bytes, file) => bytes + file.size, 0) || 1;
  let before = 0;
  for (const batch of batches(files)) {
    const bytes = batch.reduce((sum, file) => sum + file.size, 0);
    const share = (within) => (before + bytes * within) / total;
    const jobId = await send(collection, batch, (sent) =>
      tell(`Sending ${count(files.length, "file")}…`, share(0.5 * sent)));
    const job = await ended(jobId, (done) =>
      tell(`Reading: ${done.done} of ${done.total}…`, share(0.5 + 0.5 * done.done / Math.max(1, done.total))));
    failures.push(...job.failures);
    before += bytes;
    if (job.status === "failed" && !job.failures.length) {
      throw new Problem({ title: "The files could not be added", detail: "The worker gave up on them; try again." });
    }
  }
  return failures;
}

export function* batches(files) {
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

function send(collection, files, tell) {
  const form = new FormData();
  for (const file of files) form.append("files", file, file.name);
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `v1/collections/${part(collection)}/documents`);
    for (const [name, value] of Object.entries(authorization())) request.setRequestHeader(name, value);
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable) tell(event.loaded / event.total);
    });
    request.addEventListener("error", () => reject(unreachable()));
    request.addEventListener("load", () => {
      if (request.status === 202) resolve(JSON.parse(request.responseText).job_id);
      else reject(problemFrom(request.responseText, request.status, Number(request.getResponseHeader("Retry-After")) || null));
    });
    request.send(form);
  });
}

async function ended(jobId, tell) {
  for (;;) {
    const job = await json("GET", `v1/jobs/${part(jobId)}`);
    tell(job);
    if (job.status !== "queued" && job.status !== "running") return job;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
