// The text of one answer on the page: tinted runs that show their source when pointed at, focused or tapped.

import { el, freshId } from "./dom.js";
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
   * @param earlier finds the text of an earlier answer by its id. */
  constructor(onsource, earlier) {
    this.element = el("div", { class: "answer-text" });
    this.points = [];
    this.spans = [];
    this.passages = [];
    this.citations = null;
    this.found = [];
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

  /** The finished answer: its text and citations. */
  settle(text, citations) {
    this.points = Array.from(text);
    this.citations = citations;
    this.render();
  }

  /** Brings the page up to date and leaves alone what has not changed: focus and selection stay where they are. */
  render() {
    this.found = runs(this.points, this.spans, this.citations, this.passages, this._earlier);
    let same = 0;
    while (same < this.found.length && same < this._shown.length && alike(this.found[same], this._shown[same].run)) same++;
    for (const shown of this._shown.splice(same)) {
      for (const node of shown.nodes) node.remove();
    }
    const last = new Map(this.found.map((run, at) => [run.mark, at]));
    for (let at = same; at < this.found.length; at++) {
      const run = this.found[at];
      const nodes = this._nodes(run, last.get(run.mark) === at, this.found[at + 1]?.mark);
      this.element.append(...nodes);
      this._shown.push({ run, nodes });
    }
  }

  _nodes(run, last, next) {
    const { mark } = run;
    if (!mark) return [document.createTextNode(run.text)];
    const strong = mark.cited !== null;
    const reachable = strong || run.end - run.start >= FOCUSABLE;
    const show = () => this._onsource(mark, this.passages, element);
    const element = el("span", {
      class: `run ${tint(mark)} ${mark.cited ?? "drafted"}`, text: run.text,
      tabindex: reachable ? "0" : null, role: reachable ? "button" : null,
      "aria-describedby": reachable ? this._note(mark) : null,
      "data-passage": mark.passage ?? null,
      onpointerenter: (event) => event.pointerType === "mouse" && show(), onfocus: show, onclick: show,
      onkeydown: (event) => {
        if (event.key !== "Enter" && event.key !== " ") return;
        event.preventDefault();
        show();
      },
    });
    const goesOn = next?.cited && next.passage === mark.passage;
    return strong && last && !goesOn ? [element, el("sup", { class: `number ${tint(mark)}`, "aria-hidden": "true", text: mark.passage + 1,
      onclick: show })] : [element];
  }

  /** The id of a sentence that says where a mark's words came from. */
  _note(mark) {
    const how = mark.cited === "retrieved" ? "Supported by" : "Copied from";
    const text = `${mark.kind === "neural" ? "From" : how} ${described(mark, this.passages)}`;
    for (const note of this._notes.children) if (note.textContent === text) return note.id;
    const note = el("span", { id: freshId("from"), text });
    this._notes.append(note);
    return note.id;
  }
}

function alike(run, shown) {
  if (run.start !== shown.start || run.text !== shown.text) return false;
  const [a, b] = [run.mark, shown.mark];
  if (!a || !b) return a === b;
  return ["start", "end", "kind", "cited", "passage", "answer", "from", "to"].every((name) => a[name] === b[name]);
}
