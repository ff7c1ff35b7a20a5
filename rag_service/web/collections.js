// Which documents are asked: the chooser in the bar. The choice is kept for this tab.

import { json } from "./api.js";
import { byId, el } from "./dom.js";

const CHOSEN = "rag.collection";
const NONE = "\u0000none"; // no collection is named so

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
    const before = this._select.value || sessionStorage.getItem(CHOSEN);
    this._select.replaceChildren(
      ...this.all.map(({ name, documents }) => el("option", { value: name, text: `${name} (${documents})` })),
      el("option", { value: NONE, text: "Without documents" }));
    const fullest = this.all.reduce((best, one) => (one.documents > (best?.documents ?? 0) ? one : best), null);
    const usual = known.includes("default") ? "default" : fullest?.name ?? known[0] ?? NONE;
    this._select.value = before === NONE || known.includes(before) ? before : usual;
    this._onchange();
  }

  choose(name) {
    if (!this.all.some((collection) => collection.name === name)) return;
    this._select.value = name;
    sessionStorage.setItem(CHOSEN, name);
    this._onchange();
  }

  /** Whether there is nothing to ask about. */
  get bare() {
    return this.all.every((collection) => collection.documents === 0);
  }
}
