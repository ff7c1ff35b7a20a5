// The text of an answer: tinted runs that show their source when pointed at, focused or tapped.

import { el, freshId } from "../dom.js";
import { described, runs } from "./provenance.js";

const FOCUSABLE = 12; // code points from which uncited runs can be reached with the keyboard
const COLOURS = 8;

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
    this.element = el("div", { class: "answer-text" });
    this.points = [];
    this.spans = [];
    this.passages = [];
    this.citations = null;
    this.runs = [];
    this._onsource = onsource;
    this._earlier = earlier;
    this._shown = [];
    this._notes = el("div", { class: "unseen", hidden: true });
    this.element.append(this._notes);
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

  /** Updates the page. Runs that have not changed stay, with focus and selection. */
  render() {
    this.runs = runs(this.points, this.spans, this.citations, this.passages, this._earlier);
    let same = 0;
    while (same < this.runs.length && same < this._shown.length && equal(this.runs[same], this._shown[same].run)) same++;
    for (const shown of this._shown.splice(same)) {
      for (const node of shown.nodes) node.remove();
    }
    const last = new Map(this.runs.map((run, at) => [run.mark, at]));
    for (let at = same; at < this.runs.length; at++) {
      const run = this.runs[at];
      const nodes = this._nodes(run, last.get(run.mark) === at, this.runs[at + 1]?.mark);
      this.element.append(...nodes);
      this._shown.push({ run, nodes });
    }
  }

  /** @param last whether this is the last run of its mark. @param next mark of the run after it. */
  _nodes(run, last, next) {
    const { mark } = run;
    if (!mark) return [document.createTextNode(run.text)];
    const cited = mark.cited !== null;
    const focusable = cited || run.end - run.start >= FOCUSABLE;
    const show = () => this._onsource(mark, this.passages, element);
    const element = el("span", {
      class: `run ${tint(mark)} ${mark.cited ?? "drafted"}`, text: run.text,
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
    const continues = next?.cited && next.passage === mark.passage;
    if (!cited || !last || continues) return [element];
    return [element, el("sup", { class: `number ${tint(mark)}`, "aria-hidden": "true", text: mark.passage + 1,
      onclick: show })];
  }

  /** The id of a hidden sentence that names the source of a mark. */
  _note(mark) {
    const relation = mark.cited === "retrieved" ? "Supported by" : "Copied from";
    const text = `${mark.kind === "neural" ? "From" : relation} ${described(mark, this.passages)}`;
    for (const note of this._notes.children) if (note.textContent === text) return note.id;
    const note = el("span", { id: freshId("from"), text });
    this._notes.append(note);
    return note.id;
  }
}

function equal(run, shown) {
  if (run.start !== shown.start || run.text !== shown.text) return false;
  const [a, b] = [run.mark, shown.mark];
  if (!a || !b) return a === b;
  return ["start", "end", "kind", "cited", "passage", "answer", "from", "to"].every((name) => a[name] === b[name]);
}
