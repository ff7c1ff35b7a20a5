// Signing in: with the key in the address, or with one that is asked for. The browser then has a cookie, and the page
// keeps no key.

import { asProblem, signIn } from "./api.js";
import { byId, el } from "./dom.js";
import { t } from "./language.js";

let asking = null;
let refused = null; // why the key in the address signed nobody in

/** Signs in with the key of the address that `rag up` prints and removes it from the address. Returns whether there was one. */
export async function keyFromAddress() {
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
  const known = refused ?? (problem.code === "signed_out" ? problem : null);
  refused = null;
  return new Promise((resolve) => {
    const input = el("input", { id: "key-field", type: "password", required: true, autocomplete: "off",
      spellcheck: "false", placeholder: "rag_…" });
    const reason = el("p", { "aria-live": "polite", text: known?.detail
      ?? t("This service needs an API key. Open the address that “rag up” prints, or enter a key. On the service's machine, yours is in the file .rag/key; whoever runs the service creates others with “rag keys create NAME”.") });
    const form = el("form", { onsubmit: async (event) => {
      event.preventDefault();
      try {
        await signIn(input.value.trim());
        dialog.close("entered");
      } catch (error) {
        reason.textContent = asProblem(error).detail;
        input.select();
      }
    } },
    el("h2", { id: "key-title", text: t("API key") }), reason,
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
