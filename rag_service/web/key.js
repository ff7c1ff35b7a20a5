// Signing in: with the key in the address, or with one that is asked for, or at the service's OpenID provider. The
// browser then has a cookie, and the page keeps no key.

import { asProblem, signIn } from "./api.js";
import { button, byId, el } from "./dom.js";
import { t } from "./language.js";

let asking = null;
let refused = null; // why the key in the address signed nobody in
let denied = null; // the code of why the provider signed nobody in

const BACK = "rag-back"; // the fragment of the page before the way to the provider

/**
 * Signs in with the key of the address that `rag up` prints and removes it from the address. Returns whether there was
 * one. Also reads what the address says after the way to the provider.
 */
export async function keyFromAddress() {
  backFromProvider();
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return false;
  history.replaceState(null, "", location.pathname + location.search);
  if (/^rag_[\w-]+$/.test(key)) await signIn(key).then(() => { refused = null; }, (error) => { refused = asProblem(error); });
  const dialog = byId("key");
  if (dialog.open) dialog.close("entered");
  return true;
}

/** Resolves to whether somebody signed in. All requests that wait for that share one dialog. */
export function askForKey(problem) {
  asking ??= ask(problem).finally(() => { asking = null; });
  return asking;
}

function ask(problem) {
  const dialog = byId("key");
  const { provider } = problem;
  const known = denied ? { detail: reasonOf(denied, provider ?? "") }
    : refused ?? (problem.code === "signed_out" ? problem : null);
  refused = denied = null;
  return new Promise((resolve) => {
    const input = el("input", { id: "key-field", type: "password", required: true, autocomplete: "off",
      spellcheck: "false", placeholder: "rag_…" });
    const reason = el("p", { "aria-live": "polite", text: known?.detail ?? (provider
      ? t("Sign in with {provider}, or enter an API key.", { provider }) : null)
      ?? t("This service needs an API key. Open the address that “rag up” prints, or enter a key. On the service's machine, yours is in the file .rag/key; whoever runs the service creates others with “rag keys create NAME”.") });
    const form = el("form", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await signIn(input.value.trim());
        dialog.close("entered");
      } catch (error) {
        const { code, detail } = asProblem(error);
        reason.textContent = code === "invalid_key"
          ? t("This key is not valid: it is misspelt, was revoked or has expired. Ask whoever runs the service for another one.")
          : detail;
        input.select();
      }
    } },
    el("h2", { id: "key-title", text: provider ? t("Sign in") : t("API key") }), reason,
    provider && el("div", { class: "row" },
      button(t("Sign in with {provider}", { provider }), toProvider, { class: "primary" })),
    el("label", { class: "unseen", for: "key-field", text: t("API key") }), input,
    el("p", { class: "place", text: t("This browser stays signed in for some days. The page keeps no key.") }),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: t("Use this key") })));
    dialog.replaceChildren(form);
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "entered"), { once: true });
    dialog.returnValue = "";
    dialog.showModal();
    input.focus();
  });
}

function toProvider() {
  sessionStorage.setItem(BACK, location.hash);
  location.assign("sign-in/oidc");
}

/** Back from the provider: why nobody is signed in, or else the conversation that was open before. */
function backFromProvider() {
  const code = new URLSearchParams(location.hash.slice(1)).get("sign-in");
  const before = sessionStorage.getItem(BACK);
  if (code === null && (before === null || location.hash)) return;
  sessionStorage.removeItem(BACK);
  denied = code;
  history.replaceState(null, "", location.pathname + location.search + (before ?? ""));
}

function reasonOf(code, provider) {
  switch (code) {
    case "cancelled":
      return t("{provider} signed nobody in: it was cancelled or denied there.", { provider });
    case "clocks_differ":
      return t("The clocks of this service and of {provider} differ. Whoever runs the service must set them.", { provider });
    case "not_admitted":
      return t("You are signed in at {provider}, but none of your groups there may use this service. Ask whoever runs it to admit one.", { provider });
    case "not_begun_here":
      return t("This browser did not begin that sign-in, or it took longer than ten minutes. Sign in again, and allow cookies.");
    case "unreachable":
      return t("{provider} cannot be reached. Try again; whoever runs the service finds the reason in its log.", { provider });
    default:
      return t("{provider} and this service do not understand each other. Whoever runs the service finds the reason in its log.", { provider });
  }
}
