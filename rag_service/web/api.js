// Requests to the service this page came from: the API key, problems, JSON. Addresses are relative, so that the page
// also works below a path of a proxy.

const KEY = "rag.key";

/** What the service said went wrong. `detail` is written for people and says what to do. */
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

let wantsKey = async () => false;
/** `ask(problem)` resolves to whether a key was given. */
export function whenKeyIsWanted(ask) {
  wantsKey = ask;
}

export const setKey = (key) => sessionStorage.setItem(KEY, key);
export const clearKey = () => sessionStorage.removeItem(KEY);
export const hasKey = () => sessionStorage.getItem(KEY) !== null;

export function authorization() {
  const key = sessionStorage.getItem(KEY);
  return key ? { Authorization: `Bearer ${key}` } : {};
}

/** A response that is fine. Raises Problem. Asks for a key, once or more, where one is wanted. */
export async function open(method, path, { body, headers = {}, signal } = {}) {
  for (;;) {
    const sent = { ...headers, ...authorization() };
    if (body !== undefined) sent["Content-Type"] = "application/json";
    let response;
    try {
      response = await fetch(path, {
        method, headers: sent, signal, cache: "no-store", credentials: "same-origin",
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      throw signal?.aborted ? error : unreachable();
    }
    if (response.ok) return response;
    const problem = await problemOf(response);
    if (response.status !== 401 || !(await wantsKey(problem))) throw problem;
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

/** A problem from the text of a response, whoever wrote it. */
export function problemFrom(text, status, retryAfter = null) {
  try {
    const body = JSON.parse(text);
    if (typeof body.detail === "string") return new Problem(body, status, retryAfter);
  } catch { /* a proxy's own page */ }
  return new Problem({
    title: "The service answered with an error",
    detail: `It sent status ${status} without saying more. Try again; if that does not help, look at its log.`,
  }, status, retryAfter);
}

export function unreachable() {
  return new Problem({
    title: "The service cannot be reached",
    detail: "Check that it is running (rag up) and that you are online, then try again.",
    code: "unreachable",
  });
}

export const asProblem = (error) => error instanceof Problem ? error : new Problem({
  title: "The page made a mistake", detail: `${error?.message ?? error} Reload the page; nothing is lost.`,
});

export const part = encodeURIComponent;
