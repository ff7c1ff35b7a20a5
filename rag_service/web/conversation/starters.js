// Questions to begin with, from the headings of the chosen collection's documents. Each is in the language of its
// document: embedding models find little across languages, so another question would be answered badly.

import { headingsOf } from "../answer/provenance.js";
import { ending } from "../answer/source_text.js";
import { json, part } from "../api.js";
import { button, el } from "../dom.js";
import { language } from "../language.js";
import { languageOf } from "./document_language.js";

/** By language: about a heading, and about a whole document. */
const QUESTIONS = {
  en: ["What does “{title}” say about {heading}?", "What is in “{title}”?"],
  de: ["Was sagt „{title}“ zu {heading}?", "Was steht in „{title}“?"],
  nl: ["Wat zegt “{title}” over {heading}?", "Wat staat er in “{title}”?"],
  fr: ["Que dit « {title} » sur {heading} ?", "Que contient « {title} » ?"],
  es: ["¿Qué dice «{title}» sobre {heading}?", "¿Qué contiene «{title}»?"],
};
const MOST = 3;
const LOOKED_AT = 8; // documents, of which the best questions are taken
const WHOLE = 2; // rank of a question about a whole document
const SAYS_NOTHING = new RegExp(
  "^([\\d.\\s]*|(slide|page|folie|seite|dia|pagina|appendix|anhang|anlage|bijlage) \\w{1,3}|" +
  "introduction|overview|contents|table of contents|summary|conclusions?|references|appendix|notes?|" +
  "einleitung|einführung|überblick|inhalt|inhaltsverzeichnis|zusammenfassung|fazit|anhang|literatur|" +
  "inleiding|overzicht|inhoud|inhoudsopgave|samenvatting|conclusies?|bijlagen?|" +
  "sommaire|table des matières|résumé|annexes?|introducción|índice|contenido|resumen|conclusión|conclusiones|anexos?)$", "i");
/** A number before a heading, with what says that it is none of the heading's own words; else these are in `NUMBER`. */
const NAMED_NUMBER = new RegExp("^(§+|art\\.|article|artikel|artículo|articulo|section|abschnitt|sectie|sección|" +
  "chapter|kapitel|hoofdstuk|chapitre|capítulo) ?\\d+[a-z]?(\\.\\d+)*[.:)]? +[–—:-]? *(?=\\S)", "iu");
const NUMBER = /^\(?(?:\d{1,2}(?:\.\d{1,2})*|[IVX]{1,5}(?=[.):]))([.):]*) +(?=\p{L}|["“„«])/u;
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
    this._element.replaceChildren(...questions.map(([question, lang]) =>
      el("li", {}, button(question, () => this._ask(question), { class: "quiet", lang }))));
  }
}

/**
 * The best of some documents': headings that are questions come first, and whole documents only if there is no better.
 * @returns [[question, its language]].
 */
async function questionsOf(name) {
  const page = await json("GET", `v1/collections/${part(name)}/documents?limit=50`);
  const prose = page.documents.filter((one) => !TABLES.includes(ending(one)));
  const looked = mixed(prose.length ? prose : page.documents).slice(0, LOOKED_AT);
  const found = await Promise.all(looked.map((one) => questionOf(name, one)));
  const best = found.filter(({ rank }) => rank < WHOLE).sort((one, other) => one.rank - other.rank);
  return [...new Map((best.length ? best : found).map(({ question, lang }) => [question, lang]))].slice(0, MOST);
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

/** @returns {{question: string, lang: string, rank: number}} a low rank is a good question. */
async function questionOf(name, { document_id: id, title }) {
  const { passages } = await json("POST", `v1/collections/${part(name)}/search`,
    { body: { question: title, top_k: 12, mode: "lexical" } });
  const own = passages.filter((passage) => passage.document_id === id);
  const sections = own.flatMap((passage) => headingsOf(passage).at(-1)?.split(" / ") ?? []); // a passage may have several
  const headings = sections.map((heading) => unnumbered(heading, sections))
    .filter((heading) => heading && heading.toLowerCase() !== title.toLowerCase() && heading.length < 80
      && !SAYS_NOTHING.test(heading));
  const lang = languageOf(own.map(({ text }) => text).join("\n")) ?? language;
  const asked = headings.find((heading) => heading.endsWith("?"));
  if (asked) return { question: asked, lang, rank: 0 };
  const [about, whole] = QUESTIONS[lang];
  const filled = (question) => question.replace(/\{(\w+)\}/g, (_, name) => ({ title, heading: headings[0] })[name]);
  return headings.length ? { question: filled(about), lang, rank: 1 } : { question: filled(whole), lang, rank: WHOLE };
}

/** A heading without its number. A number alone is one only among others: "24 hours" says something. */
function unnumbered(heading, headings) {
  const named = heading.replace(NAMED_NUMBER, "");
  const sign = NUMBER.exec(heading)?.[1];
  const alike = new Set(headings.filter((other) => NUMBER.exec(other)?.[1] === sign));
  return named === heading && sign !== undefined && alike.size > 1 ? heading.replace(NUMBER, "") : named;
}
