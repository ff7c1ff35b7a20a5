// The events of an answer as they come. A stream that breaks is resumed over a new connection.

import { open, Problem, unreachable } from "../api.js";

const RESUMES = 30;
const SILENCE_MS = 45_000; // the service sends something every 15 seconds

/**
 * Follow an answer to its end.
 *
 * @param begin {path, body} of a request, or {answerId} of an answer that exists.
 * @param handle called with (name, data) of each event, in order, each once.
 * @param signal stops following; the answer itself goes on.
 * Raises Problem: the stream could not start, or could not be resumed.
 */
export async function follow(begin, handle, signal) {
  let { answerId } = begin;
  let last = null;
  let failures = 0;
  for (;;) {
    const attempt = new AbortController();
    const stop = () => attempt.abort();
    signal?.addEventListener("abort", stop);
    let watch = 0; // from the first byte on: a request may wait for its turn in silence
    const alive = () => {
      clearTimeout(watch);
      watch = setTimeout(stop, SILENCE_MS);
    };
    try {
      const response = answerId
        ? await open("GET", `v1/answers/${answerId}/events`, {
          headers: last ? { "Last-Event-ID": last } : {}, signal: attempt.signal })
        : await open("POST", begin.path, { body: { ...begin.body, stream: true }, signal: attempt.signal });
      if (response.status === 204) return;
      alive();
      for await (const event of parse(response.body, alive)) {
        if (event.id === null && event.name === "error") throw new Problem(event.data);
        if (event.id !== null) last = event.id;
        failures = 0;
        answerId ??= event.data.answer_id;
        handle(event.name, event.data);
        if (event.name === "done" || event.name === "error") return;
      }
      throw unreachable();
    } catch (error) {
      if (signal?.aborted) return;
      if (!answerId) throw error instanceof Problem ? error : unreachable();
      if (error instanceof Problem && error.status && ![429, 500, 502, 503, 504].includes(error.status)) throw error;
      if (++failures > RESUMES) throw error instanceof Problem ? error : unreachable();
      await pause(Math.min(250 * failures, 3000));
    } finally {
      clearTimeout(watch);
      signal?.removeEventListener("abort", stop);
      attempt.abort(); // frees the connection of an abandoned stream
    }
  }
}

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** The events of a body: {id, name, data}. An event that was cut off is dropped. */
async function* parse(body, alive) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    alive();
    text += value;
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const event = parseBlock(text.slice(0, end));
      text = text.slice(end + 2);
      if (event) yield event;
    }
  }
}

function parseBlock(block) {
  let id = null;
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment
    const value = line.slice(colon + 1).replace(/^ /, "");
    const field = line.slice(0, colon);
    if (field === "id") id = value;
    else if (field === "event") name = value;
    else if (field === "data") data.push(value);
  }
  return data.length ? { id, name, data: JSON.parse(data.join("\n")) } : null;
}
