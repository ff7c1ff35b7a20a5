// A question and its answer, with the versions that edits made of it, and plain decoding beside it where asked for.

import { asProblem, json } from "./api.js";
import { AnswerView } from "./answer_view.js";
import { announce, button, el, freshId, problemBox } from "./dom.js";

export class Turn {
  /** @param page {sources, earlier(id), started(turn, answerId, sessionId), changed()} */
  constructor(question, collection, page) {
    this.question = question;
    this.collection = collection;
    this._page = page;
    this.versions = []; // {view, instruction, stored?}
    this.shown = -1;
    const title = freshId("question");
    this._body = el("div", { class: "answers" });
    this._tools = el("div", { class: "turn-tools" });
    this._edit = el("div", {});
    this.element = el("li", { class: "turn" }, el("article", { "aria-labelledby": title, tabindex: "-1" },
      el("h2", { class: "asked", id: title, text: question }), this._body, this._edit, this._tools));
  }

  get running() {
    return this.versions.map((version) => version.view).find((view) => view.running && view.begun) ?? null;
  }

  holds(answerId) {
    return this.versions.some((version) => version.view.answerId === answerId);
  }

  textOf(answerId) {
    return this.versions.find((version) => version.view.answerId === answerId)?.view.text.text ?? null;
  }

  /** A version that is there or comes. @param stored its turn of the session, where there is one. */
  add(instruction = null, { title = null, timed = true, stored = null } = {}) {
    const view = new AnswerView({ ...this._page, question: this.question, title, timed });
    view.collection = this.collection;
    view.answerId = stored?.answer_id ?? null;
    view.onend = () => this._draw();
    this.versions.push({ view, instruction, stored });
    return view;
  }

  /** Asks, and follows. @param body of the request. */
  async ask(body) {
    await this._follow(this.add(), { path: "v1/query", body });
  }

  /** Asks twice with one seed, plainly and with drafts, and says whether the two answers are the same. */
  async compare(body) {
    const seed = crypto.getRandomValues(new Uint32Array(1))[0];
    const main = this.add(null, { title: "With speculation", timed: false });
    main.secondary = false;
    const plain = new AnswerView({ ...this._page, question: this.question,
      title: "Plain decoding", timed: false, sourced: false });
    plain.secondary = true;
    plain.collection = this.collection;
    this.plain = plain;
    this._verdict = el("p", { class: "verdict", role: "status" });
    this._select(0);
    // The plain one is apart from the session, and its prompt is made first: both then continue the same turns.
    let built;
    const ready = new Promise((resolve) => { built = resolve; });
    const beside = plain.follow({ path: "v1/query", body: { ...body, seed, speculation: "off", apart: true } }, built);
    await Promise.race([ready, beside]);
    await this._follow(main, { path: "v1/query", body: { ...body, seed } });
    await beside;
    await this._compare(main, plain);
  }

  async _compare(main, plain) {
    if (!main.answer || !plain.answer) return;
    try {
      const [ours, theirs] = await Promise.all([main, plain].map((view) =>
        json("GET", `v1/answers/${view.answerId}?token_ids=true`)));
      const same = JSON.stringify(ours.token_ids) === JSON.stringify(theirs.token_ids)
        && JSON.stringify(ours.citations) === JSON.stringify(theirs.citations);
      const at = ours.token_ids.findIndex((token, index) => token !== theirs.token_ids[index]);
      this._verdict.className = `verdict ${same ? "same" : "other"}`;
      this._verdict.textContent = same
        ? `Identical: the same ${ours.token_ids.length} tokens and the same citations, in `
          + `${ours.speculation.steps} passes instead of ${theirs.speculation.steps}.`
        : `They part at token ${at + 1}: a near-tie of the two likeliest words fell the other way. `
          + "Half precision does that; exact: strict makes it rarer.";
    } catch (error) {
      this._verdict.replaceChildren(problemBox(asProblem(error)));
    }
  }

  /** Follows an answer that is there, or still running. */
  async resume(answerId, instruction = null) {
    await this._follow(this.add(instruction), { answerId });
  }

  /** Shows the latest of the versions that were added. */
  async recall() {
    await this._select(this.versions.length - 1);
  }

  async _follow(view, begin) {
    view.begun = true;
    this._select(this.versions.findIndex((version) => version.view === view));
    this._page.changed();
    await view.follow(begin, (answerId, sessionId) => {
      this._page.started(this, answerId, sessionId);
      this._draw();
    });
    this._page.changed();
  }

  async _select(index) {
    this.shown = index;
    const { view, stored } = this.versions[index];
    this._draw();
    if (!stored || view.begun) return;
    view.begun = true;
    view.secondary = true; // what is recalled is not read out
    await view.follow({ answerId: stored.answer_id });
    if (view.problem?.code === "unknown_answer") view.recall(stored);
    view.secondary = false;
    this._page.changed();
  }

  _draw() {
    const { view, instruction } = this.versions[this.shown];
    const beside = this.plain && this.shown === 0 ? [this.plain.element] : [];
    this._body.classList.toggle("compared", beside.length > 0);
    const parts = [instruction ? el("p", { class: "instruction", text: `Changed: ${instruction}` }) : null,
      beside.length ? this._verdict : null, view.element, ...beside].filter(Boolean);
    if (parts.length !== this._body.childNodes.length || !this._body.contains(view.element)) {
      this._body.replaceChildren(...parts);
    }
    const tools = [];
    if (this.versions.length > 1) tools.push(this._pager());
    if (view.answer?.answer) {
      if (view.answer.finish_reason !== "cancelled") {
        tools.push(button("Edit", () => this._openEdit(view), { class: "quiet", "data-do": "edit" }));
      }
      tools.push(button("Copy", (event) => copy(view.text.text, event.currentTarget), { class: "quiet", "data-do": "copy" }));
    }
    const had = this._tools.contains(document.activeElement) ? document.activeElement.dataset.do ?? "" : null;
    this._tools.replaceChildren(...tools);
    if (had === null) return;
    const again = this._tools.querySelector(`[data-do="${had}"]:not(:disabled)`) ?? this.element.firstChild;
    again.focus({ preventScroll: true });
  }

  _pager() {
    const go = (by) => this._select(this.shown + by);
    const total = this.versions.length;
    return el("span", { class: "pager", role: "group", "aria-label": "Versions" },
      button("‹", () => go(-1), { class: "quiet icon", "data-do": "before", "aria-label": "Version before", disabled: this.shown === 0 }),
      el("span", { role: "status", text: `Version ${this.shown + 1} of ${total}` }),
      button("›", () => go(1), { class: "quiet icon", "data-do": "after", "aria-label": "Version after", disabled: this.shown === total - 1 }));
  }

  _openEdit(view) {
    const field = freshId("instruction");
    const input = el("textarea", { id: field, rows: "2", maxlength: "8000",
      placeholder: "Say the number of days first" });
    const close = (next = this._tools.querySelector('[data-do="edit"]')) => {
      this._edit.replaceChildren();
      next?.focus({ preventScroll: true });
    };
    const form = el("form", { class: "edit-form", onsubmit: (event) => {
      event.preventDefault();
      const instruction = input.value.trim();
      if (!instruction) return;
      close(this.element.firstChild);
      announce("Changing the answer.");
      this._follow(this.add(instruction), { path: `v1/answers/${view.answerId}/edits`, body: { instruction } });
    }, onkeydown: (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        close();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        form.requestSubmit();
      }
    } },
    el("label", { for: field, text: "What should change?" }), input,
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: "Change it" }),
      button("Leave it", () => close(), { class: "quiet" })));
    this._edit.replaceChildren(form);
    form.scrollIntoView({ block: "nearest" });
    input.focus({ preventScroll: true });
  }
}

async function copy(text, pressed) {
  try {
    await navigator.clipboard.writeText(text);
    pressed.textContent = "Copied";
    announce("Copied.");
  } catch {
    pressed.textContent = "Could not copy";
  }
  setTimeout(() => { pressed.textContent = "Copy"; }, 2000);
}

