// Questions to begin with, from the headings of the chosen collection's documents.

import { headingsOf } from "../answer/provenance.js";
import { ending } from "../answer/source_text.js";
import { json, part } from "../api.js";
import { button, el } from "../dom.js";
import { t } from "../language.js";

const MOST = 3;
/** Endings of files that are one table: what is in it as a whole, no answer says well. */
const TABLES = ["csv", "tsv", "jsonl", "ndjson"];

export class Starters {
  /** @param ask called with a question. */
  constructor(element, ask) {
    this._element = element;
    this._ask = ask;
    this._for = null;
  }

  /** Shows those of a collection. @param collection of the list of collections; none for null. */
  async show(collection) {
    const wanted = collection && collection.documents ? `${collection.name}\n${collection.generation}` : null;
    if (wanted === this._for) return;
    this._for = wanted;
    this._element.replaceChildren();
    if (wanted === null) return;
    const questions = await questionsOf(collection.name).catch(() => []); // the page works without them
    if (wanted !== this._for) return;
    this._element.replaceChildren(...questions.map((question) =>
      el("li", {}, button(question, () => this._ask(question), { class: "quiet" }))));
  }
}

async function questionsOf(name) {
  const page = await json("GET", `v1/collections/${part(name)}/documents?limit=50`);
  const prose = page.documents.filter((one) => !TABLES.includes(ending(one)));
  const documents = prose.length ? prose : page.documents;
  const step = Math.max(1, Math.floor(documents.length / MOST));
  const chosen = documents.filter((_, index) => index % step === 0).slice(0, MOST);
  return Promise.all(chosen.map((one) => questionOf(name, one)));
}

async function questionOf(name, { document_id: id, title }) {
  const { passages } = await json("POST", `v1/collections/${part(name)}/search`,
    { body: { question: title, top_k: 12, mode: "lexical" } });
  const headings = passages.filter((passage) => passage.document_id === id)
    .map((passage) => headingsOf(passage).at(-1)?.split(" / ")[0]) // one of several sections is enough
    .filter((heading) => heading && heading !== title && heading.length < 80);
  const asked = headings.find((heading) => heading.endsWith("?"));
  if (asked) return asked;
  return headings.length ? t("What does “{title}” say about {heading}?", { title, heading: headings[0] })
    : t("What is in “{title}”?", { title });
}
