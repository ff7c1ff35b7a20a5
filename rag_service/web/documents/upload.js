// Uploads files and follows their ingest. XMLHttpRequest, because fetch does not report progress.

import { json, part, Problem, problemFrom, unreachable } from "../api.js";
import { said, t } from "../language.js";

const MOST_FILES = 10;
const MOST_BYTES = 2 ** 20; // of one request; a larger file is sent alone. A job tells of its files when it ends
const POLL_MS = 300;

/**
 * Adds files to a collection, a few in each request.
 *
 * @param tell called with (number of a file, state, reason, if it is refused). States: "sending", "reading", "added",
 *   "refused".
 * @param report called with the share of all bytes that is done, from 0 to 1.
 * Raises Problem; files that have neither been added nor refused by then may not be in the collection.
 */
export async function ingest(collection, files, tell, report) {
  const totalBytes = files.reduce((bytes, file) => bytes + file.size, 0) || 1;
  let [number, before] = [0, 0];
  for (const batch of batches(files)) {
    const first = number;
    const bytes = batch.reduce((sum, file) => sum + file.size, 0);
    const share = (within) => report((before + bytes * within) / totalBytes);
    const tellAll = (state) => batch.forEach((_, index) => tell(first + index, state));
    tellAll("sending");
    const jobId = await send(collection, batch, (sent) => share(0.5 * sent));
    tellAll("reading");
    const job = await wait(jobId, ({ done, total }) => share(0.5 + 0.5 * done / Math.max(1, total)));
    if (job.status === "cancelled") {
      throw new Problem({ title: t("The ingest was cancelled"), detail: t("Some of the files may have been added before. Try again to add the rest.") });
    }
    if (job.status === "failed" && !job.failures.length) {
      throw new Problem({ title: t("The files could not be added"), detail: t("The worker gave up on them. Try again.") });
    }
    reasons(batch, job).forEach((reason, index) =>
      tell(first + index, reason === null ? "added" : "refused", reason));
    number += batch.length;
    before += bytes;
  }
}

/** Why each file of an ended job was refused, in order; null for one that is in. */
function reasons(batch, { status, failures }) {
  const left = [...failures];
  const found = batch.map(() => null);
  for (let index = batch.length - 1; index >= 0; index--) { // of two of one name, the later one was refused
    const at = left.findIndex(({ name }) => name === nameSent(batch[index]));
    if (at >= 0) found[index] = said(left.splice(at, 1)[0].reason);
  }
  // A job that failed as a whole names its collection in place of a file.
  return status === "failed" && left.length ? found.map((reason) => reason ?? said(left[0].reason)) : found;
}

/** A file's name as a form sends it. */
const nameSent = (file) => file.name.replace(/["\r\n]/g, encodeURIComponent);

/** Puts a file in a document's place; the document keeps its id. Returns the files that could not be read: [{name, reason}]. */
export async function replace(collection, documentId, file) {
  const described = JSON.stringify([{ id: documentId }]);
  const job = await wait(await send(collection, [file], () => {}, described), () => {});
  return job.status === "failed" && !job.failures.length
    ? [{ name: file.name, reason: t("The worker gave up on it. Try again.") }] : job.failures.map(({ name, reason }) => ({ name, reason: said(reason) }));
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
