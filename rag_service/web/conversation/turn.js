// A question and its answer: its versions, one per edit, and the answer of plain decoding to compare with.

import { asProblem, json } from "../api.js";
import { Rating } from "../answer/rating.js";
import { AnswerView } from "../answer/view.js";
import { announce, button, el, freshId, problemBox } from "../dom.js";
import { t } from "../language.js";

/** Of the sampling of "Answer again": with temperature 0, the same answer could come. */
export const AGAIN_TEMPERATURE = 0.8;

export class Turn {
  /** @param page {sources, earlier(id), started(turn, answerId, sessionId), changed(), again(view)} */
  constructor(question, collection, page) {
    this.question = question;
    this.collection = collection;
    this._page = page;
    this.versions = []; // {view, instruction, rating, stored?}
    this.shown = -1;
    const title = freshId("question");
    this._body = el("div", { class: "answers" });
    this._tools = el("div", { class: "turn-tools" });
    this._edit = el("div", {});
    this._rating = el("div", {});
    this.element = el("li", { class: "turn" }, el("article", { "aria-labelledby": title, tabindex: "-1" },
      el("h2", { class: "question", id: title, text: question }), this._body, this._edit, this._tools, this._rating));
  }

  get running() {
    return this.versions.map((version) => version.view).find((view) => view.running && view.started) ?? null;
  }

  hasAnswer(answerId) {
    return this.versions.some((version) => version.view.answerId === answerId);
  }

  textOf(answerId) {
    return this.versions.find((version) => version.view.answerId === answerId)?.view.text.text ?? null;
  }

  /** What is shown of it, for a file; null before there is an answer. */
  async shownText(asked) {
    const version = this.versions[this.shown];
    if (!version?.view.answer) return null;
    return { question: this.question, instruction: version.instruction, answer: await version.view.withSources(asked) };
  }

  /** Adds a version. @param stored its turn of the session, if it is an earlier one. */
  add(instruction = null, { title = null, timed = true, stored = null } = {}) {
    const view = new AnswerView({ ...this._page, question: this.question, title, timed });
    view.collection = this.collection;
    view.answerId = stored?.answer_id ?? null;
    view.onend = () => this._draw();
    const rating = new Rating(view, stored?.feedback ?? null, () => this._draw());
    this.versions.push({ view, instruction, rating, stored });
    return view;
  }

  /** Asks the question and follows the answer. @param body of the request. */
  async ask(body) {
    await this._follow(this.add(), { path: "v1/query", body });
  }

  /** Asks twice with one seed, with and without speculation, and says whether the answers are identical. */
  async compare(body) {
    const seed = crypto.getRandomValues(new Uint32Array(1))[0];
    const main = this.add(null, { title: t("With speculation"), timed: false });
    main.secondary = false;
    const plain = new AnswerView({ ...this._page, question: this.question,
      title: t("Plain decoding"), timed: false, sourced: false });
    plain.secondary = true;
    plain.collection = this.collection;
    this.plain = plain;
    this._verdict = el("p", { class: "verdict", role: "status" });
    this._select(0);
    // The plain answer is no turn of the session. Its prompt is built first, so that both continue the same turns.
    let onstart;
    const started = new Promise((resolve) => { onstart = resolve; });
    const ended = plain.follow({ path: "v1/query", body: { ...body, seed, speculation: "off", apart: true } }, onstart);
    await Promise.race([started, ended]);
    await this._follow(main, { path: "v1/query", body: { ...body, seed } });
    await ended;
    await this._compare(main, plain);
  }

  async _compare(main, plain) {
    if (!main.answer || !plain.answer) return;
    try {
      const [answer, plainAnswer] = await Promise.all([main, plain].map((view) =>
        json("GET", `v1/answers/${view.answerId}?token_ids=true`)));
      const same = JSON.stringify(answer.token_ids) === JSON.stringify(plainAnswer.token_ids)
        && JSON.stringify(answer.citations) === JSON.stringify(plainAnswer.citations);
      const at = answer.token_ids.findIndex((token, index) => token !== plainAnswer.token_ids[index]);
      this._verdict.className = `verdict ${same ? "same" : "different"}`;
      this._verdict.textContent = same
        ? t(answer.speculation.steps === 1
          ? "Identical: the same {n} tokens and the same citations, in 1 pass instead of {plain}."
          : "Identical: the same {n} tokens and the same citations, in {steps} passes instead of {plain}.",
        { n: answer.token_ids.length, steps: answer.speculation.steps, plain: plainAnswer.speculation.steps })
        : t("They differ from token {n} on: a near-tie of the two most likely tokens went the other way. This happens in half precision; exact: strict makes it rarer.",
          { n: at + 1 });
    } catch (error) {
      this._verdict.replaceChildren(problemBox(asProblem(error)));
    }
  }

  /** Follows an answer that exists, finished or not. */
  async resume(answerId, instruction = null) {
    await this._follow(this.add(instruction), { answerId });
  }

  /** Shows the latest version. */
  async recall() {
    await this._select(this.versions.length - 1);
  }

  async _follow(view, begin) {
    view.started = true;
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
    if (!stored || view.started) return;
    view.started = true;
    view.secondary = true; // earlier answers are not read out
    await view.follow({ answerId: stored.answer_id });
    if (view.problem?.code === "unknown_answer") view.recall(stored);
    view.secondary = false;
    this._page.changed();
  }

  _draw() {
    const { view, instruction, rating } = this.versions[this.shown];
    const compared = this.plain && this.shown === 0 ? [this.plain.element] : [];
    this._body.classList.toggle("compared", compared.length > 0);
    const parts = [instruction ? el("p", { class: "instruction", text: t("Changed: {instruction}", { instruction }) }) : null,
      compared.length ? this._verdict : null, view.element, ...compared].filter(Boolean);
    if (parts.length !== this._body.childNodes.length || !this._body.contains(view.element)) {
      this._body.replaceChildren(...parts);
    }
    const tools = [];
    if (this.versions.length > 1) tools.push(this._pager());
    if (view.answer?.answer) {
      if (view.answer.finish_reason !== "cancelled") {
        tools.push(button(t("Edit"), () => this._openEdit(view), { class: "quiet", "data-do": "edit" }));
      }
      tools.push(button(t("Copy"), (event) => copy(view.text.text, event.currentTarget), { class: "quiet", "data-do": "copy" }));
      if (view.text.runs.some((run) => run.mark?.cited)) {
        tools.push(button(t("Copy with sources"), (event) => copy(view.withSources(), event.currentTarget),
          { class: "quiet", "data-do": "copy-sources" }));
      }
    }
    if (view.answer) {
      tools.push(button(t("Answer again"), () => this._page.again(view), { class: "quiet", "data-do": "again",
        title: t("Asks the question again, as the next turn. Words are drawn by chance (temperature {temperature}), so the answer may differ. This one stays.",
          { temperature: AGAIN_TEMPERATURE }) }));
    }
    if (view.answer?.answer && !view.recalled) tools.push(rating.thumbs());
    if (this._rating.firstChild !== rating.form) this._rating.replaceChildren(rating.form);
    const focused = this._tools.contains(document.activeElement) ? document.activeElement.dataset.do ?? "" : null;
    this._tools.replaceChildren(...tools);
    if (focused === null) return;
    const target = this._tools.querySelector(`[data-do="${focused}"]:not(:disabled)`) ?? this.element.firstChild;
    target.focus({ preventScroll: true });
  }

  _pager() {
    const go = (by) => this._select(this.shown + by);
    const total = this.versions.length;
    return el("span", { class: "pager", role: "group", "aria-label": t("Versions") },
      button("‹", () => go(-1), { class: "quiet icon", "data-do": "before", "aria-label": t("Previous version"), disabled: this.shown === 0 }),
      el("span", { role: "status", text: t("Version {n} of {all}", { n: this.shown + 1, all: total }) }),
      button("›", () => go(1), { class: "quiet icon", "data-do": "after", "aria-label": t("Next version"), disabled: this.shown === total - 1 }));
  }

  _openEdit(view) {
    const field = freshId("instruction");
    const input = el("textarea", { id: field, rows: "2", maxlength: "8000",
      placeholder: t("Say the number of days first") });
    const close = (next = this._tools.querySelector('[data-do="edit"]')) => {
      this._edit.replaceChildren();
      next?.focus({ preventScroll: true });
    };
    const form = el("form", { class: "edit-form", onsubmit: (event) => {
      event.preventDefault();
      const instruction = input.value.trim();
      if (!instruction) return;
      close(this.element.firstChild);
      announce(t("Changing the answer."));
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
    el("label", { for: field, text: t("What should change?") }), input,
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: t("Change") }),
      button(t("Cancel"), () => close(), { class: "quiet" })));
    this._edit.replaceChildren(form);
    form.scrollIntoView({ block: "nearest" });
    input.focus({ preventScroll: true });
  }
}

/** @param text or a promise of it, which is handed on as such: Safari takes no text that comes after the click. */
async function copy(text, pressed) {
  const label = pressed.textContent;
  try {
    if (typeof text === "string" || !window.ClipboardItem) await navigator.clipboard.writeText(await text);
    else {
      const later = text.then((own) => new Blob([own], { type: "text/plain" }));
      await navigator.clipboard.write([new ClipboardItem({ "text/plain": later })]);
    }
    pressed.textContent = t("Copied");
    announce(t("Copied."));
  } catch {
    pressed.textContent = t("Could not copy");
  }
  setTimeout(() => { pressed.textContent = label; }, 2000);
}

