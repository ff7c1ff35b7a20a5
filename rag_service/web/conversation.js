// The conversation: its turns, its session, and what a reload needs to find it again.
//
// The address remembers the session and the answer that runs (#session=…&answer=…), so a reload, or another tab, shows
// the same conversation and goes on with an answer in the middle.

import { asProblem, json } from "./api.js";
import { byId, el, problemBox } from "./dom.js";
import { Turn } from "./turn.js";

export class Conversation {
  /** @param onchange called when something begins or ends. */
  constructor(sources, collection, onchange) {
    this._sources = sources;
    this._collection = collection;
    this._onchange = onchange;
    this._list = byId("turns");
    this._page = {
      sources,
      earlier: (answerId) => this._turns.map((turn) => turn.textOf(answerId)).find((text) => text !== null) ?? null,
      started: (turn, answerId, sessionId) => {
        this.session = sessionId;
        this._remember(answerId);
        this._onchange();
      },
      changed: () => {
        this._remember(this.running?.answerId ?? null);
        this._onchange();
      },
    };
    this._empty();
  }

  /** The answer that runs, if one does. */
  get running() {
    return this._turns.map((turn) => turn.running).find(Boolean) ?? null;
  }

  get empty() {
    return this._turns.length === 0;
  }

  /** A new one, with nothing in it. */
  begin() {
    this._empty();
    history.pushState(null, "", location.pathname + location.search);
    this._onchange();
  }

  async ask(question, compare) {
    const collection = this._collection.name;
    const turn = this._append(question, collection);
    const body = { question };
    if (this.session) body.session_id = this.session;
    if (collection !== null) body.collection = collection;
    else body.retrieval = { mode: "none" };
    turn.element.scrollIntoView({ block: "start", behavior: "smooth" });
    await (compare ? turn.compare(body) : turn.ask(body));
  }

  /** Shows what the address names. */
  async restore() {
    const named = new URLSearchParams(location.hash.slice(1));
    const [session, answer] = [named.get("session"), named.get("answer")];
    if (session === this.session && (session || this.empty)) return;
    this._empty();
    this._onchange();
    if (!session) return;
    this.session = session;
    this._list.append(el("li", { class: "working", text: "Opening the conversation…" }));
    try {
      const [found, running] = await Promise.all([
        orNull(json("GET", `v1/sessions/${encodeURIComponent(session)}`)),
        answer ? orNull(json("GET", `v1/answers/${encodeURIComponent(answer)}`)) : null]);
      if (this.session !== session) return;
      this._list.replaceChildren();
      if (!found && !running) this._gone();
      await this._show(found?.turns ?? [], running);
    } catch (error) {
      this._list.replaceChildren(el("li", {}, problemBox(asProblem(error), () => {
        this.session = null;
        this.restore();
      })));
    }
  }

  async _show(stored, running) {
    const waits = [];
    for (const turn of stored) {
      const before = turn.base ? this._turns.find((one) => one.holds(turn.base)) : null;
      (before ?? this._append(turn.question, null)).add(turn.instruction, { stored: turn });
    }
    const shown = [...this._turns];
    if (running && !this._turns.some((turn) => turn.holds(running.answer_id))) {
      const before = running.base ? this._turns.find((one) => one.holds(running.base)) : null;
      const turn = before ?? this._append(running.question, running.collection);
      if (running.collection) this._collection.choose(running.collection);
      waits.push(turn.resume(running.answer_id, running.instruction));
    }
    this._onchange();
    for (const turn of shown) if (!turn.running) waits.push(turn.recall());
    this._turns.at(-1)?.element.scrollIntoView({ block: "end" });
    await Promise.all(waits);
    const last = this._turns.at(-1)?.versions.at(-1)?.view;
    if (last?.answer) {
      if (last.collection) this._collection.choose(last.collection);
      this._sources.list(last.answer.passages, last.collection);
    }
    this._page.changed();
  }

  _gone() {
    this.session = null;
    this._remember(null);
    this._list.append(el("li", { class: "aside" },
      "This conversation is not kept any more: it was erased or has expired. Ask something to begin another one."));
  }

  _append(question, collection) {
    const turn = new Turn(question, collection, this._page);
    if (this.empty) this._list.replaceChildren();
    this._turns.push(turn);
    this._list.append(turn.element);
    return turn;
  }

  _empty() {
    for (const turn of this._turns ?? []) {
      for (const { view } of turn.versions) view.leave();
      turn.plain?.leave();
    }
    this._turns = [];
    this.session = null;
    this._list.replaceChildren();
    this._sources.clear();
  }

  _remember(answerId) {
    const named = new URLSearchParams();
    if (this.session) named.set("session", this.session);
    if (this.session && answerId) named.set("answer", answerId);
    const hash = named.size ? `#${named}` : "";
    if (hash !== location.hash) history.replaceState(null, "", location.pathname + location.search + hash);
  }
}

/** Null where there is no such thing (any more). */
async function orNull(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}
