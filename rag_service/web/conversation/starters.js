// Questions to begin with, from the headings of the chosen collection's documents.

import { headingsOf } from "../answer/provenance.js";
import { ending } from "../answer/source_text.js";
import { json, part } from "../api.js";
import { button, el } from "../dom.js";
import { t } from "../language.js";

const MOST = 3;
const LOOKED_AT = 8; // documents, of which the best questions are taken
const WHOLE = 2; // rank of a question about a whole document
const SAYS_NOTHING = new RegExp(
  "^([\\d.\\s]*|(slide|page|folie|seite|dia|pagina|appendix|anhang|anlage|bijlage) \\w{1,3}|" +
  "introduction|overview|contents|table of contents|summary|conclusions?|references|appendix|notes?|" +
  "einleitung|einführung|überblick|inhalt|inhaltsverzeichnis|zusammenfassung|fazit|anhang|literatur|" +
  "inleiding|overzicht|inhoud|inhoudsopgave|samenvatting|conclusies?|bijlagen?)$", "i");
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

/** The best of some documents': headings that are questions come first, and whole documents only if there is no better. */
async function questionsOf(name) {
  const page = await json("GET", `v1/collections/${part(name)}/documents?limit=50`);
  const prose = page.documents.filter((one) => !TABLES.includes(ending(one)));
  const looked = mixed(prose.length ? prose : page.documents).slice(0, LOOKED_AT);
  const found = await Promise.all(looked.map((one) => questionOf(name, one)));
  const best = found.filter(({ rank }) => rank < WHOLE).sort((one, other) => one.rank - other.rank);
  return [...new Set((best.length ? best : found).map(({ question }) => question))].slice(0, MOST);
}

/** Documents of all kinds in turn, those of a kind from all over the list: files of like names stand together there. */
function mixed(documents) {
  const byKind = new Map();
  for (const one of documents) byKind.set(ending(one), [...(byKind.get(ending(one)) ?? []), one]);
  const kinds = [...byKind.values()].map((alike) => {
    const step = Math.ceil(alike.length / MOST);
    return Array.from({ length: step }, (_, first) => alike.filter((_, index) => index % step === first)).flat();
  });
  const most = Math.max(0, ...kinds.map((alike) => alike.length));
  return Array.from({ length: most }, (_, index) => kinds.flatMap((alike) => alike[index] ?? [])).flat();
}

/** @returns {{question: string, rank: number}} a low rank is a good question. */
async function questionOf(name, { document_id: id, title }) {
  const { passages } = await json("POST", `v1/collections/${part(name)}/search`,
    { body: { question: title, top_k: 12, mode: "lexical" } });
  const headings = passages.filter((passage) => passage.document_id === id)
    .flatMap((passage) => headingsOf(passage).at(-1)?.split(" / ") ?? []) // a passage may have several sections
    .filter((heading) => heading && heading.toLowerCase() !== title.toLowerCase() && heading.length < 80
      && !SAYS_NOTHING.test(heading));
  const asked = headings.find((heading) => heading.endsWith("?"));
  if (asked) return { question: asked, rank: 0 };
  return headings.length
    ? { question: t("What does “{title}” say about {heading}?", { title, heading: headings[0] }), rank: 1 }
    : { question: t("What is in “{title}”?", { title }), rank: WHOLE };
}
