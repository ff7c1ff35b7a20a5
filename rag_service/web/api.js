// Requests to the service that this page came from: signing in, problems, JSON. Addresses are relative, so that the
// page also works below a path of a proxy. The browser sends the cookie of the sign-in by itself.

import { said, t } from "./language.js";

/** An error of the service. `detail` is a sentence for people that says what to do. */
export class Problem extends Error {
  constructor(body, status = 0, retryAfter = null) {
    super(body.detail);
    this.title = said(body.title ?? "");
    this.detail = said(body.detail);
    this.code = body.code;
    this.provider = body.provider; // at which one can sign in, if the service wants that
    this.status = status || body.status || 0;
    this.retryAfter = retryAfter;
  }
}

let askForKey = async () => false;
/** `ask(problem)` asks the user for a key and resolves to whether one signed them in. */
export function onMissingKey(ask) {
  askForKey = ask;
}

/** Signs the browser in with a key, which the page then forgets. Raises Problem. */
export const signIn = (key) => once("POST", "v1/sign-in", { body: { key } });

/** A successful response. Asks for a key as often as the service wants one. Raises Problem. */
export async function open(method, path, options) {
  for (;;) {
    try {
      return await once(method, path, options);
    } catch (problem) {
      if (problem.status !== 401 || !(await askForKey(problem))) throw problem;
    }
  }
}

async function once(method, path, { body, headers = {}, signal } = {}) {
  const allHeaders = body === undefined ? headers : { ...headers, "Content-Type": "application/json" };
  let response;
  try {
    response = await fetch(path, {
      method, headers: allHeaders, signal, cache: "no-store", credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    throw signal?.aborted ? error : unreachable();
  }
  if (response.ok) return response;
  throw await problemOf(response);
}

export async function json(method, path, options) {
  const response = await open(method, path, options);
  return response.status === 204 ? null : response.json();
}

export async function problemOf(response) {
  const retryAfter = Number(response.headers.get("Retry-After")) || null;
  return problemFrom(await response.text().catch(() => ""), response.status, retryAfter);
}

/** A problem from the text of a response of the service or of a proxy. */
export function problemFrom(text, status, retryAfter = null) {
  try {
    const body = JSON.parse(text);
    if (typeof body.detail === "string") return new Problem(body, status, retryAfter);
  } catch { /* a proxy's own page */ }
  return new Problem({
    title: t("The service answered with an error"),
    detail: t("It sent status {status} without an explanation. Try again; if that does not help, see its log.", { status }),
  }, status, retryAfter);
}

export function unreachable() {
  return new Problem({
    title: t("The service cannot be reached"),
    detail: t("Check that it is running (rag up) and that you are online, then try again."),
    code: "unreachable",
  });
}

export const asProblem = (error) => error instanceof Problem ? error : new Problem({
  title: t("The page has an error"),
  detail: t("{error} Reload the page; nothing is lost.", { error: error?.message ?? error }),
});

/** A name as one part of a path. Browsers resolve `.` and `..`, so that a request would be about something else. */
export function part(name) {
  if (name === "." || name === "..") {
    throw new Problem({ detail: t("The page cannot address “{name}”; use `rag docs` on the command line.", { name }) });
  }
  return encodeURIComponent(name);
}

export function documentPath(collection, documentId) {
  return `v1/collections/${part(collection)}/documents/${part(documentId)}`;
}
