// The conversation: its turns and its session.
//
// The address names the session and the running answer (#session=…&answer=…). A reload, or another tab, shows the same
// conversation and follows the running answer.

import { asProblem, json } from "../api.js";
import { byId, el, problemBox } from "../dom.js";
import { conversationText, fileName, save } from "../answer/export.js";
import { comparison } from "../answer/meter.js";
import { AGAIN_TEMPERATURE, Turn } from "./turn.js";
import { t } from "../language.js";

export class Conversation {
  /** @param onchange called when an answer starts or ends. */
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
      again: (view) => {
        if (this.running) return;
        const collection = view.recalled ? this._collection.name : view.collection; // one that has expired tells none
        this._ask(view.question, collection, { temperature: AGAIN_TEMPERATURE });
      },
    };
    this._empty();
  }

  /** The running answer, or null. */
  get running() {
    return this._turns.map((turn) => turn.running).find(Boolean) ?? null;
  }

  get empty() {
    return this._turns.length === 0;
  }

  /** Offers the conversation as a file of Markdown. */
  async export() {
    const asked = new Map(); // names of documents
    const turns = (await Promise.all(this._turns.map((turn) => turn.shownText(asked)))).filter(Boolean);
    const now = new Date();
    save(fileName(turns[0]?.question ?? "", now), conversationText(turns, now));
  }

  /** Starts a new conversation. */
  clear() {
    this._empty();
    history.pushState(null, "", location.pathname + location.search);
    this._onchange();
  }

  ask(question) {
    return this._ask(question, this._collection.name, {}, comparison.on);
  }

  /** @param options of the request. @param compare whether plain decoding answers as well. */
  async _ask(question, collection, options, compare = false) {
    const turn = this._append(question, collection);
    const body = { question, ...options };
    if (this.session) body.session_id = this.session;
    if (collection !== null) body.collection = collection;
    else body.retrieval = { mode: "none" };
    turn.element.scrollIntoView({ block: "start", behavior: "smooth" });
    await (compare ? turn.compare(body) : turn.ask(body));
    if (turn.versions.at(-1).view.answer?.turns_outdated) await this.refresh(this._turns.slice(0, this._turns.indexOf(turn)));
  }

  /** Reads the finished answers of turns again, whose documents may have changed. */
  async refresh(turns = this._turns) {
    await Promise.all(turns.flatMap(({ versions, plain }) =>
      [...versions.map(({ view }) => view), plain].map((view) => view?.refresh())));
  }

  /** Shows the conversation that the address names. */
  async restore() {
    const address = new URLSearchParams(location.hash.slice(1));
    const [session, answer] = [address.get("session"), address.get("answer")];
    if (session === this.session) return;
    this._empty();
    this._onchange();
    if (!session) return;
    this.session = session;
    this._list.append(el("li", { class: "working", text: t("Opening the conversation…") }));
    try {
      const [stored, running] = await Promise.all([
        orNull(json("GET", `v1/sessions/${encodeURIComponent(session)}`)),
        answer ? orNull(json("GET", `v1/answers/${encodeURIComponent(answer)}`)) : null]);
      if (this.session !== session) return;
      this._list.replaceChildren();
      if (!stored && !running) this._showExpired();
      await this._show(stored?.turns ?? [], running);
    } catch (error) {
      this._list.replaceChildren(el("li", {}, problemBox(asProblem(error), () => this.reload())));
    }
  }

  /** Shows the conversation anew, as what is kept of it has changed. */
  reload() {
    this.session = null;
    return this.restore();
  }

  async _show(stored, running) {
    const loading = [];
    for (const turn of stored) {
      const edited = turn.base ? this._turns.find((one) => one.hasAnswer(turn.base)) : null;
      (edited ?? this._append(turn.question, null)).add(turn.instruction, { stored: turn });
    }
    const shown = [...this._turns];
    if (running && !this._turns.some((turn) => turn.hasAnswer(running.answer_id))) {
      const edited = running.base ? this._turns.find((one) => one.hasAnswer(running.base)) : null;
      const turn = edited ?? this._append(running.question, running.collection);
      if (running.collection) this._collection.choose(running.collection);
      loading.push(turn.resume(running.answer_id, running.instruction));
    }
    this._onchange();
    for (const turn of shown) if (!turn.running) loading.push(turn.recall());
    this._turns.at(-1)?.element.scrollIntoView({ block: "end" });
    await Promise.all(loading);
    const last = this._turns.at(-1)?.versions.at(-1)?.view;
    if (last?.answer) {
      if (last.collection) this._collection.choose(last.collection);
      this._sources.list(last.answer.passages, last.collection);
    }
    this._page.changed();
  }

  _showExpired() {
    this.session = null;
    this._remember(null);
    this._list.append(el("li", { class: "aside" },
      t("This conversation was erased or has expired. Ask a question to start a new one.")));
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
      for (const { view } of turn.versions) view.detach();
      turn.plain?.detach();
    }
    this._turns = [];
    this.session = null;
    this._list.replaceChildren();
    this._sources.clear();
  }

  _remember(answerId) {
    const address = new URLSearchParams();
    if (this.session) address.set("session", this.session);
    if (this.session && answerId) address.set("answer", answerId);
    const hash = address.size ? `#${address}` : "";
    if (hash !== location.hash) history.replaceState(null, "", location.pathname + location.search + hash);
  }
}

/** The value, or null after a 404. */
async function orNull(promise) {
  try {
    return await promise;
  } catch (error) {
    if (error.status === 404) return null;
    throw error;
  }
}
