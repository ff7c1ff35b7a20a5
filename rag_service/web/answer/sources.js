// The panel with the passages of one answer, the copied words marked: a column in a wide window, else a sheet at the
// bottom.

import { asProblem, documentPath, json, open } from "../api.js";
import { ending, textOf } from "./source_text.js";
import { tint } from "./text.js";
import { byId, button, el, problemBox } from "../dom.js";
import { described, kindName, placeOf } from "./provenance.js";
import { t } from "../language.js";

const ABOVE = 8; // pixels above a card that is scrolled to
const wide = matchMedia("(min-width: 66rem)");

export class Sources {
  constructor() {
    this._panel = byId("sources");
    this._list = byId("passages");
    this._drawn = null; // what is shown: [passages, collection, mark, earlier]
    byId("close-sources").addEventListener("click", () => this.close());
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !document.querySelector("dialog[open]")) this.close();
    });
    this.clear();
  }

  clear() {
    this._drawn = null;
    this._list.replaceChildren(el("p", { class: "hint", text: t("The sources of an answer appear here.") }));
    this._panel.classList.add("empty");
    this.close();
  }

  close() {
    const within = this._panel.contains(document.activeElement);
    this._panel.classList.remove("open");
    if (!within || wide.matches) return;
    this._closing = true; // the words that get the focus back do not open it again
    this._from?.focus?.();
    this._closing = false;
  }

  /** Shows the passages of an answer, without marks, from one on. Neither opens nor closes the sheet. */
  list(passages, collection, first = 0) {
    this._draw(passages, collection, null, null);
    const card = this._list.children[first];
    this._list.scrollTop = first && card ? card.offsetTop - ABOVE : 0;
  }

  /** Shows the passages of an answer as they are by now, if it is these that are shown. @param before as they were. */
  renew(before, passages) {
    if (this._drawn?.[0] === before) this._draw(passages, ...this._drawn.slice(1));
  }

  /** Opens the panel with the passages of an answer, without marks. */
  openList(passages, collection, from) {
    this._from = from;
    this._draw(passages, collection, null, null);
    this._panel.classList.add("open");
    this._list.focus({ preventScroll: true });
  }

  /**
   * Opens the panel with the source of some words, marked.
   * @param mark of provenance.js. @param earlier text of an earlier answer that `mark.answer` names, if known.
   */
  show(mark, passages, collection, from, earlier = null) {
    if (this._closing) return;
    this._from = from;
    this._draw(passages, collection, mark, earlier);
    this._panel.classList.add("open");
  }

  _draw(passages, collection, mark, earlier) {
    this._drawn = [passages, collection, mark, earlier];
    this._panel.classList.remove("empty");
    const cards = passages.map((passage, index) =>
      this._card(passage, index, passages, collection, mark?.passage === index ? mark : null));
    if (mark && mark.passage === undefined) cards.unshift(cardOfOther(mark, earlier));
    if (!cards.length) cards.push(el("p", { class: "hint", text: t("This answer has no passages.") }));
    this._list.replaceChildren(...cards);
    const active = this._list.querySelector(".active");
    if (!active) return;
    const target = active.querySelector("mark") ?? active;
    const table = target.closest(".table");
    if (table) table.scrollLeft = Math.max(0, edge(target, "right") - edge(table, "right") + 12);
    const room = this._list.clientHeight;
    const top = target.getBoundingClientRect().top - this._list.getBoundingClientRect().top + this._list.scrollTop;
    const head = active.offsetTop;
    this._list.scrollTop = top - head < room * 0.6 ? head - ABOVE : top - room * 0.35;
  }

  _card(passage, index, passages, collection, mark) {
    const colour = tint({ passage: index });
    const place = placeOf(passage, passages);
    const card = el("article", { class: `passage ${mark ? "active" : ""}`, "data-passage": index },
      el("header", {},
        el("span", { class: `chip ${colour}`, "aria-hidden": "true", text: index + 1 }),
        el("div", {},
          el("h3", { text: passage.title }),
          place ? el("p", { class: "place", text: place }) : null)),
      textOf(passage, passage.text, colour, mark));
    const flags = [passage.changed ? t("changed or deleted since") : null, passage.earlier ? t("from an earlier turn") : null,
      passage.in_prompt === false ? t("not read: the model's window was full") : null].filter(Boolean).join(" · ");
    if (flags) card.append(el("p", { class: "place", text: flags }));
    const from = passage.collection || collection;
    if (from && passage.page && ending(passage) === "pdf") {
      card.append(button(t("Open the PDF at page {n}", { n: String(passage.page) }), (event) => openPdf(event.target, passage, from),
        { class: "link of-original" }));
    }
    if (from) {
      card.append(button(t("Show the whole document"), (event) => showDocument(event.target, card, passage, from, mark),
        { class: "link" }));
    }
    return card;
  }
}

const edge = (element, side) => element.getBoundingClientRect()[side];

/** A card for words that come from no passage. */
function cardOfOther(mark, earlier) {
  const explanation = {
    neural: t("These words were guessed ahead, and the model confirmed every one of them."),
    itself: t("The answer repeats words from above."),
  }[mark.kind] ?? t("These words were copied from {source}, and the model confirmed every one of them.",
    { source: described(mark, []) });
  return el("article", { class: "passage active" },
    el("header", {}, el("span", { class: `chip ${tint(mark)}`, "aria-hidden": "true", text: "•" }),
      el("div", {}, el("h3", { text: kindName(mark.kind) }))),
    el("p", { class: "place", text: explanation }),
    earlier ? textOf({ document_id: "" }, earlier, tint(mark), mark) : null);
}

/** Replaces a passage's text with that of its whole document. */
async function showDocument(pressed, card, passage, collection, mark) {
  pressed.disabled = true;
  try {
    const content = await json("GET", documentPath(collection, passage.document_id));
    const words = mark && mark.from !== undefined ? mark : { from: 0, to: passage.source_end - passage.source_start };
    const text = card.querySelector(".passage-text");
    const whole = textOf(passage, content.text, `${tint({ passage: Number(card.dataset.passage) })} whole`, words,
      passage.source_start);
    text.replaceWith(whole);
    whole.querySelector("mark")?.scrollIntoView({ block: "center" });
    pressed.remove();
  } catch (error) {
    const problem = asProblem(error);
    pressed.replaceWith(problem.status === 404
      ? el("p", { class: "place", role: "status", text: t("The document is no longer there.") }) : problemBox(problem));
  }
}

/** Opens a passage's PDF at its page in another tab. */
async function openPdf(pressed, passage, collection) {
  pressed.disabled = true;
  try {
    const response = await open("GET", `${documentPath(collection, passage.document_id)}/original`);
    const url = URL.createObjectURL(new Blob([await response.blob()], { type: "application/pdf" }));
    window.open(`${url}#page=${passage.page}`, "_blank", "noopener");
    pressed.disabled = false;
  } catch (error) {
    pressed.replaceWith(problemBox(asProblem(error)));
  }
}
