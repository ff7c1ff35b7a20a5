// The text of an answer, as Markdown: tinted runs that show their source when pointed at, focused or tapped.

import { el, freshId } from "../dom.js";
import { reconcile, rendered } from "./markdown.js";
import { described, numbered, runs } from "./provenance.js";
import { t } from "../language.js";

const FOCUSABLE = 12; // code points from which uncited runs can be reached with the keyboard
const COLOURS = 8;
const FACTS = ["start", "end", "kind", "cited", "passage", "answer", "from", "to"];

/** The class that gives a mark its tint. */
export function tint(mark) {
  if (mark.passage !== undefined) return `from-passage tint-${mark.passage % COLOURS}`;
  return { answer: "from-earlier", edited: "from-earlier", neural: "from-neural", itself: "from-itself" }[mark.kind]
    ?? "from-prompt";
}

export class AnswerText {
  /** @param onsource called with (mark, passages) when a run is pointed at, focused or tapped.
   * @param earlier returns the text of an earlier answer by its id. */
  constructor(onsource, earlier) {
    this._body = el("div", { class: "markdown" });
    this._notes = el("div", { class: "unseen", hidden: true });
    this.element = el("div", { class: "answer-text" }, this._notes, this._body);
    this.points = [];
    this.spans = [];
    this.passages = [];
    this.citations = null;
    this.runs = [];
    this._onsource = onsource;
    this._earlier = earlier;
  }

  get text() {
    return this.points.join("");
  }

  add(text, spans = []) {
    for (const point of text) this.points.push(point);
    this.spans.push(...spans);
    this.render();
  }

  /** Shows the text and citations of the finished answer. */
  finish(text, citations) {
    this.points = Array.from(text);
    this.citations = citations;
    this.render();
  }

  /** Updates the page. Words that have not changed stay, with focus and selection. */
  render() {
    this.runs = runs(this.points, this.spans, this.citations, this.passages, this._earlier);
    const owner = new Int32Array(this.points.length + 1).fill(-1);
    this.runs.forEach((run, number) => run.mark && owner.fill(number, run.start, run.end));
    const made = new Map(); // the elements of each run: one, or more where it has bold words, cells, ...
    const leaves = []; // all nodes of words, [node, its place], in their order
    const numbers = numbered(this.runs);
    const ends = new Set(numbers.map(({ end }) => end));
    const fresh = rendered(this.text, (value, at) => this._words(Array.from(value), at, owner, ends, made, leaves));
    this._number(numbers, made, leaves);
    reconcile(this._body, fresh);
  }

  /** The nodes of some words; none goes beyond one of `ends`. */
  _words(points, at, owner, ends, made, leaves) {
    const nodes = [];
    for (let from = 0; from < points.length;) {
      const number = owner[at[from]];
      let to = from + 1;
      while (to < points.length && owner[at[to]] === number && !ends.has(at[to])) to++;
      const text = points.slice(from, to).join("");
      if (number < 0) nodes.push(document.createTextNode(text));
      else {
        const before = made.get(number) ?? [];
        const node = this._run(this.runs[number], text, before.length);
        made.set(number, [...before, node]);
        nodes.push(node);
      }
      leaves.push([nodes.at(-1), at[from]]);
      from = to;
    }
    return nodes;
  }

  /** @param part of the run's elements, from 0: the first one is reached with the keyboard. */
  _run(run, text, part) {
    const { mark } = run;
    const focusable = part === 0 && (mark.cited !== null || run.end - run.start >= FOCUSABLE);
    const show = () => this._onsource(mark, this.passages, element);
    const element = el("span", {
      class: `run ${tint(mark)} ${mark.cited ?? "drafted"}`, text,
      tabindex: focusable ? "0" : null, role: focusable ? "button" : null,
      "aria-describedby": focusable ? this._note(mark) : null,
      "data-passage": mark.passage ?? null,
      onpointerenter: (event) => event.pointerType === "mouse" && show(), onfocus: show, onclick: show,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        show();
      },
    });
    element.key = JSON.stringify([text, run.start, part, ...FACTS.map((name) => mark[name] ?? null)]);
    return element;
  }

  /** Puts the number of its passage behind the last words of each cited mark, and never into a word. */
  _number(numbers, made, leaves) {
    for (const { number, end } of [...numbers].reverse()) { // of two behind one word, the later one is put first
      const { mark } = this.runs[number];
      const words = made.get(number)?.at(-1);
      if (!words || words.closest("pre")) continue; // code stays as it is
      let at = leaves.findIndex(([node]) => node === words);
      while (leaves[at + 1]?.[1] < end) at++;
      const sup = el("sup", { class: `number ${tint(mark)}`, "aria-hidden": "true", text: mark.passage + 1,
        onclick: () => this._onsource(mark, this.passages, words) });
      sup.key = words.key;
      leaves[at][0].after(sup);
    }
  }

  /** The id of a hidden sentence that names the source of a mark. */
  _note(mark) {
        const relation = mark.kind === "neural" ? "From {source}" : mark.cited === "retrieved" ? "Supported by {source}" : "Copied from {source}";
    const text = t(relation, { source: described(mark, this.passages) });
    for (const note of this._notes.children) if (note.textContent === text) return note.id;
    const note = el("span", { id: freshId("from"), text });
    this._notes.append(note);
    return note.id;
  }
}
