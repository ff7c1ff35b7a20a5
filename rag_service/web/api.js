// Requests to the service that this page came from: the API key, problems, JSON. Addresses are relative, so that the
// page also works below a path of a proxy.

import { t } from "./language.js";

const KEY = "rag.key";

/** An error of the service. `detail` is a sentence for people that says what to do. */
export class Problem extends Error {
  constructor(body, status = 0, retryAfter = null) {
    super(body.detail);
    this.title = body.title;
    this.detail = body.detail;
    this.code = body.code;
    this.status = status || body.status || 0;
    this.retryAfter = retryAfter;
  }
}

let askForKey = async () => false;
/** `ask(problem)` asks the user for a key and resolves to whether one was entered. */
export function onMissingKey(ask) {
  askForKey = ask;
}

export const setKey = (key) => sessionStorage.setItem(KEY, key);
export const clearKey = () => sessionStorage.removeItem(KEY);
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

export function authorization() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** A successful response. Asks for a key as often as the service wants one. Raises Problem. */
export async function open(method, path, { body, headers = {}, signal } = {}) {
  for (;;) {
    const allHeaders = { ...headers, ...authorization() };
    if (body !== undefined) allHeaders["Content-Type"] = "application/json";
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
    const problem = await problemOf(response);
    if (response.status !== 401 || !(await askForKey(problem))) throw problem;
  }
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

export const part = encodeURIComponent;

export function documentPath(collection, documentId) {
  return `v1/collections/${part(collection)}/documents/${documentId.split("/").map(part).join("/")}`;
}
