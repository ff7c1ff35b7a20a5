// The API key: asked for only when the service wants one, kept for this tab alone.

import { clearKey, hasKey, setKey } from "./api.js";
import { byId, el } from "./dom.js";

let asking = null;

/** Takes the key of the address that `rag up` prints, and takes it out of the address. Returns whether one was there. */
export function keyFromAddress() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given === null) return false;
  history.replaceState(null, "", location.pathname + location.search);
  if (/^rag_[\w-]+$/.test(given)) setKey(given);
  const dialog = byId("key");
  if (dialog.open) dialog.close("given");
  return true;
}

/** Resolves to true once a key was entered; every request that waits for one shares the question. */
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
      dialog.close("given");
    } },
    el("h2", { id: "key-title", text: "API key" }),
    el("p", { text: refused ? problem.detail
      : "This service wants an API key. Open the address that “rag up” prints, or enter a key here: whoever runs the "
        + "service makes one with “rag keys create NAME”." }),
    el("label", { class: "unseen", for: "key-field", text: "API key" }), input,
    el("p", { class: "place", text: "It is kept in this tab only, and forgotten when the tab is closed." }),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: "Use this key" })));
    dialog.replaceChildren(form);
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "given"), { once: true });
    dialog.returnValue = "";
    dialog.showModal();
    input.focus();
  });
}
