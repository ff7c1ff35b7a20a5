// The API key: asked for only if the service wants one, and kept for this tab only.

import { clearKey, hasKey, setKey } from "./api.js";
import { byId, el } from "./dom.js";
import { t } from "./language.js";

let asking = null;

/** Stores the key of the address that `rag up` prints and removes it from the address. Returns whether there was one. */
export function keyFromAddress() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (key === null) return false;
  history.replaceState(null, "", location.pathname + location.search);
  if (/^rag_[\w-]+$/.test(key)) setKey(key);
  const dialog = byId("key");
  if (dialog.open) dialog.close("entered");
  return true;
}

/** Resolves to whether a key was entered. All requests that wait for a key share one dialog. */
export function askForKey(problem) {
  const refused = hasKey();
  clearKey();
  asking ??= ask(problem, refused).finally(() => { asking = null; });
  return asking;
}

function ask(problem, refused) {
  const dialog = byId("key");
  return new Promise((resolve) => {
    const input = el("input", { id: "key-field", type: "password", required: true, autocomplete: "off",
      spellcheck: "false", placeholder: "rag_…" });
    const form = el("form", { onsubmit: (event) => {
      event.preventDefault();
      setKey(input.value.trim());
      dialog.close("entered");
    } },
    el("h2", { id: "key-title", text: t("API key") }),
    el("p", { text: refused ? problem.detail
      : t("This service needs an API key. Open the address that “rag up” prints, or enter a key. Whoever runs the service creates keys with “rag keys create NAME”.") }),
    el("label", { class: "unseen", for: "key-field", text: t("API key") }), input,
    el("p", { class: "place", text: t("The key is kept in this tab only, until the tab is closed.") }),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: t("Use this key") })));
    dialog.replaceChildren(form);
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "entered"), { once: true });
    dialog.returnValue = "";
    dialog.showModal();
    input.focus();
  });
}
