// The collection chooser in the bar. The choice is kept for this tab.

import { json } from "../api.js";
import { byId, el } from "../dom.js";
import { t } from "../language.js";

const CHOSEN = "rag.collection";
const NONE = "\u0000none"; // no collection has this name

export class Collections {
  constructor(onchange) {
    this._select = byId("collection");
    this._onchange = onchange;
    this.all = [];
    this._select.addEventListener("change", () => {
      sessionStorage.setItem(CHOSEN, this._select.value);
      onchange();
    });
  }

  /** The chosen collection; null to ask without documents. */
  get name() {
    return this._select.value === NONE || !this._select.value ? null : this._select.value;
  }

  async load() {
    this.all = (await json("GET", "v1/collections")).collections;
    const known = this.all.map((collection) => collection.name);
    const current = this._select.value || sessionStorage.getItem(CHOSEN);
    this._select.replaceChildren(
      ...this.all.map(({ name, documents }) => el("option", { value: name, text: `${name} (${documents})` })),
      el("option", { value: NONE, text: t("Without documents") }));
    const largest = this.all.reduce((best, one) => (one.documents > (best?.documents ?? 0) ? one : best), null);
    const preset = known.includes("default") ? "default" : largest?.name ?? known[0] ?? NONE;
    this._select.value = current === NONE || known.includes(current) ? current : preset;
    this._onchange();
  }

  choose(name) {
    if (!this.all.some((collection) => collection.name === name)) return;
    this._select.value = name;
    sessionStorage.setItem(CHOSEN, name);
    this._onchange();
  }

  get haveNoDocuments() {
    return this.all.every((collection) => collection.documents === 0);
  }
}
