// One version of an answer on the page, while it comes and when it is finished.

import { asProblem, json, Problem } from "../api.js";
import { AnswerText, tint } from "./text.js";
import { announce, button, el, problemBox } from "../dom.js";
import { fileNames, withSources } from "./export.js";
import { Meter } from "./meter.js";
import { kindName, legend, placeOf } from "./provenance.js";
import { follow } from "./stream.js";
import { count, said, t } from "../language.js";

// Of a text made from an answer that has a warning; the service's words.
const DOUBTFUL = "The answer that this text is made from has a warning: the passages probably do not state it. " +
  "Check it against the documents.";
const ENDINGS = {
  length: "It stopped at its length limit; ask it to go on, or ask for less at a time.",
  repetition: "It was stopped because it repeated itself.",
  cancelled: "You stopped this answer.",
};

export class AnswerView {
  /**
   * @param sources the panel. @param earlier returns the text of an answer by its id. @param question that it answers.
   * @param title over the text, if two answers are compared. @param timed whether its times are shown.
   * @param sourced whether its sources are listed below it.
   */
  constructor({ sources, earlier, question, title = null, timed = true, sourced = true }) {
    this._sources = sources;
    this._timed = timed;
    this.question = question;
    this._sourced = sourced;
    this.answer = null;
    this.answerId = null;
    this.collection = null;
    this.problem = null;
    this.recalled = false;
    this._detached = new AbortController();
    this.text = new AnswerText((mark, passages, from) =>
      sources.show(mark, passages, this.collection, from, mark.answer ? earlier(mark.answer) : null), earlier);
    this._status = el("p", { class: "working", text: t("Looking for passages…") });
    this._search = el("p", { class: "place search", hidden: true });
    this._warning = el("p", { class: "warning", hidden: true });
    this._nearest = el("p", { class: "nearest", hidden: true });
    this._foot = el("div", { class: "answer-foot" });
    this.meter = new Meter();
    this.element = el("div", { class: "answer", "aria-busy": "true" },
      title ? el("h3", { class: "column-title", text: title }) : null,
      this._search, this._status, this._warning, this._nearest, this.text.element, this._foot, this.meter.element);
  }

  get running() {
    return this.answer === null && this.problem === null;
  }

  get cancellable() {
    return this.running && this.answerId !== null;
  }

  /** Its text with the numbers of its sources, and these below. @param asked as `fileNames` has it. */
  async withSources(asked) {
    const { runs, passages } = this.text;
    const text = withSources(runs, passages, await fileNames(runs, passages, this.collection, asked));
    const shown = [this._warning, this._nearest].filter((part) => !part.hidden);
    return [...shown.map((part) => `> ${part.textContent}\n`), text].join(shown.length ? "\n" : "");
  }

  /** Follows an answer to its end. @param onstart called with (answer id, session id). Returns whether it succeeded. */
  async follow(begin, onstart = () => {}) {
    this.answerId = begin.answerId ?? null;
    // "Try again" follows an answer that still runs, and sends the request of one that failed again.
    this._again = (failed) => {
      if (failed && !begin.path) return null;
      return () => this.follow(this.answerId && !failed ? { answerId: this.answerId } : begin, onstart);
    };
    this._start();
    try {
      await follow(begin, (name, data) => this._take(name, data, onstart), this._detached.signal);
      if (this.running && this.answerId && !this._detached.signal.aborted) this._finish(await this._read());
    } catch (error) {
      this._fail(asProblem(error));
    }
    return this.answer !== null;
  }

  /** Shows an answer whose details have expired, from its turn of the session. */
  recall(turn) {
    this.answerId = turn.answer_id;
    this.text.passages = turn.passages;
    this.text.finish(turn.answer, []);
    this.answer = { answer: turn.answer, passages: turn.passages, finish_reason: "stop" };
    this.recalled = true;
    this._end(el("p", { class: "aside", text: t("This answer is too old to show its sources and figures.") }));
  }

  /** Reads the finished answer again: its passages may have changed since. Says nothing aloud. */
  async refresh() {
    if (!this.answer || this.recalled) return;
    const before = this.answer.passages;
    const answer = await this._read().catch(() => null); // it stays as it was
    if (!answer || !before.some((passage, index) => passage.changed !== answer.passages[index]?.changed)) return;
    const { secondary } = this;
    this.secondary = true;
    this._finish(answer);
    this.secondary = secondary;
    this._sources.renew(before, answer.passages);
  }

  /** Stops following the answer, which goes on. */
  detach() {
    this._detached.abort();
  }

  /** Stops the answer; it ends with the text so far. */
  async cancel() {
    try {
      await json("DELETE", `v1/answers/${this.answerId}`);
    } catch (error) {
      if (this.running) this._foot.replaceChildren(problemBox(asProblem(error)));
    }
  }

  _read() {
    return json("GET", `v1/answers/${this.answerId}`);
  }

  _start() {
    this.problem = null;
    this.text.points = [];
    this.text.spans = [];
    this.text.citations = null;
    this.text.render();
    this._foot.replaceChildren();
    this._status.hidden = false;
    this.element.setAttribute("aria-busy", "true");
  }

  _take(name, data, onstart) {
    if (name === "passages") {
      this.answerId = data.answer_id;
      this.text.passages = data.passages;
      this._showSearch(data);
      this._status.textContent = this._reading();
      if (!this.secondary) this._sources.list(data.passages, this.collection);
      onstart(data.answer_id, data.session_id);
    } else if (name === "waiting") {
      this._status.textContent = data.answers
        ? t("Waiting behind {answers}…", { answers: count(data.answers, "{n} other answer", "{n} other answers") })
        : this._reading();
    } else if (name === "parts") {
      this._status.textContent = data.done < data.total
        ? t("Reading part {part} of {all}…", { part: data.done + 1, all: data.total }) : t("Writing…");
    } else if (name === "restart") {
      this.text.points = [];
      this.text.spans = [];
      this.text.render();
      this._status.textContent = t("{reason} It starts again…", { reason: t(data.reason) });
      this._status.hidden = false;
    } else if (name === "token") {
      this._status.hidden = true;
      this.text.add(data.text, data.spans);
      if (data.tokens && data.steps === undefined) this.meter.setTime(data.tokens, null, true);
      else if (data.tokens) this.meter.set(data.steps, data.tokens - 1);
    } else if (name === "done") {
      this._finish(data);
    } else if (name === "error") {
      this._fail(new Problem(data), true);
    }
  }

  /** What happens once it is its turn. */
  _reading() {
    const inPrompt = this.text.passages.filter((passage) => passage.in_prompt !== false).length;
    return inPrompt ? t("Reading {passages}…", { passages: count(inPrompt, "{n} passage", "{n} passages") }) : t("Thinking…");
  }

  _finish(answer) {
    if (answer.error) {
      this._fail(new Problem(answer.error), true);
      return;
    }
    this.answer = answer;
    this.collection = answer.collection;
    this.text.passages = answer.passages;
    this.text.finish(answer.answer ?? "", answer.citations ?? []);
    this._showSearch(answer);
    const { speculation, timings, usage } = answer;
    if (speculation?.engine === "upstream") {
      this.meter.setTime(usage?.completion_tokens ?? 0, timings?.total ?? null, speculation.usage === "estimated");
    } else if (speculation) {
      this.meter.set(speculation.steps, speculation.plain_equivalent_steps, this._timed ? timings?.total : null);
    }
    const { passages, kinds } = legend(this.text.runs);
    const warns = typeof answer.answerable === "number" || answer.note?.endsWith(DOUBTFUL);  // of the text, so before the text
    this._warning.hidden = !(warns && answer.note);
    const note = answer.note ? said(answer.note) : null;
    this._warning.textContent = warns ? note ?? "" : "";
    this._showNearest(answer);
    const ending = ENDINGS[answer.finish_reason];
    const notes = [warns ? null : note, ending ? t(ending) : null, answer.answer ? null : t("The answer is empty.")];
    if (answer.passages_dropped) {
      notes.push(t("{passages} did not fit into the model's window.",
        { passages: count(answer.passages_dropped, "{n} passage", "{n} passages") }));
    }
    if (answer.passages_left) {
      notes.push(t("{passages} of earlier turns no longer fit into the model's window.",
        { passages: count(answer.passages_left, "{n} passage", "{n} passages") }));
    }
    if (answer.turns_left) {
      notes.push(t("Of the oldest turns, {turns} no longer fit into the model's window.",
        { turns: count(answer.turns_left, "{n} turn", "{n} turns") }));
    }
    if (answer.turns_outdated) {
      notes.push(t("Not read for this answer, since documents have changed: {answers}.",
        { answers: count(answer.turns_outdated, "{n} earlier answer", "{n} earlier answers") }));
    }
    if (answer.turns_unsupported) {
      notes.push(t("Not read for this answer, since they have a warning: {answers}.",
        { answers: count(answer.turns_unsupported, "{n} earlier answer", "{n} earlier answers") }));
    }
    if (restsOnChanged(answer.passages, passages)) {
      notes.push(t("A source of this answer was changed or deleted since. Ask again to read what the documents say now."));
    }
    this._end(
      ...notes.filter(Boolean).map((text) => el("p", { class: "aside", text })),
      this._sourced ? this._legend(passages, kinds, answer) : null);
    this.meter.tell(answer);
    if (!this.secondary) {
      const cited = passages.filter(([, isCited]) => isCited);
      this._sources.list(answer.passages, this.collection, cited[0]?.[0]);
      const sources = count(cited.length, "{n} source", "{n} sources");
      announce([warns ? note : null, t("Answer: {answer}", { answer: answer.answer || t("empty") }),
        cited.length ? t("It cites {sources}.", { sources }) : null].filter(Boolean).join(" "));
    }
  }

  /** Shows the search query if it is not the question, or why a follow-up was not rewritten. */
  _showSearch({ retrieval_query: query, search_note: note }) {
    this._search.hidden = !note && (!query || query === this.question);
    this._search.textContent = note ? t(note) : t("Looked for “{query}”", { query });
  }

  /** Shows the sentence of the passages that is nearest to the question, of an answer that has to be checked. */
  _showNearest({ nearest, passages }) {
    const index = nearest ? passages.findIndex((one) => one.chunk_id === nearest.chunk_id
      && one.document_id === nearest.document_id && one.collection === nearest.collection) : -1;
    this._nearest.hidden = index < 0;
    if (index < 0) return;
    const from = nearest.source_start - passages[index].source_start;
    const mark = { passage: index, from, to: from + nearest.source_end - nearest.source_start };
    const cells = nearest.text.trim().replace(/^[-*•]\s+|^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim());
    const names = nearest.columns.length === cells.length ? nearest.columns : []; // a row of a table
    const words = cells.map((cell, at) => cell && names[at] ? `${names[at]}: ${cell}` : cell).filter(Boolean).join(" · ");
    const open = button(t("“{words}”", { words }), () => this._sources.show(mark, passages, this.collection, open), { class: "link" });
    this._nearest.replaceChildren(t("Nearest in the documents:"), " ", open);
  }

  _legend(passages, kinds, answer) {
    if (!passages.length && !kinds.length && !answer.passages.length) return null;
    const cited = passages.filter(([, isCited]) => isCited);
    const items = cited.map(([index]) => {
      const passage = answer.passages[index];
      const hasOwnTitle = cited.every(([other]) => other === index || answer.passages[other].title !== passage.title);
      const show = (event) => this._sources.show({ passage: index, kind: "passage" }, answer.passages, this.collection,
        event.currentTarget);
      const place = hasOwnTitle ? "" : placeOf(passage, answer.passages);
      return el("li", {}, el("button", { type: "button", class: "legend-source", onclick: show },
        el("span", { class: `chip ${tint({ passage: index })}`, text: index + 1 }),
        el("span", { class: "legend-title", text: passage.title }),
        place ? el("span", { class: "legend-place", text: place }) : null));
    });
    items.push(...kinds.map((kind) => el("li", { class: "legend-kind" },
      el("span", { class: `swatch ${tint({ kind })}`, "aria-hidden": "true", text: "abc" }), el("span", { text: kindName(kind) }))));
    if (answer.passages.length) {
      items.push(el("li", {}, button(this._all(answer.passages.length), (event) =>
        this._sources.openList(answer.passages, this.collection, event.currentTarget), { class: "link" })));
    }
    return el("ul", { class: "legend", "aria-label": t("Sources of this answer") }, ...items);
  }

  _all(number) {
    const passages = count(number, "{n} passage", "{n} passages");
    return number > 1 ? t("All {passages}", { passages }) : passages;
  }

  /** @param failed whether the answer itself failed, rather than the connection. */
  _fail(problem, failed = false) {
    this.problem = problem;
    this._end(problemBox(problem, this._again(failed)));
  }

  _end(...below) {
    this._status.hidden = true;
    this.element.setAttribute("aria-busy", "false");
    this._foot.replaceChildren(...below.filter(Boolean));
    this.onend?.();
  }
}

/** Whether a passage that an answer cites has changed since; of an answer without citations, any that was found for it. */
function restsOnChanged(passages, legendPassages) {
  const cited = legendPassages.filter(([, isCited]) => isCited).map(([index]) => passages[index]);
  return (cited.length ? cited : passages.filter((passage) => passage.in_prompt !== false && !passage.earlier)).some((passage) => passage.changed);
}
