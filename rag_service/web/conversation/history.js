// Earlier conversations at the side of the page, to find, open or erase.

import { asProblem, json, part } from "../api.js";
import { announce, confirmButton, el, problemBox, sheet } from "../dom.js";
import { count, t, when } from "../language.js";

export class History {
  /** @param conversation the one on the page. */
  constructor(conversation) {
    this._conversation = conversation;
    this._all = [];
    this._filter = el("input", { type: "search", id: "history-filter", autocomplete: "off", spellcheck: "false",
      placeholder: t("Filter by question"), oninput: () => this._draw() });
    this._list = el("ul", { class: "session-list", "aria-label": t("Earlier conversations") });
    this._dialog = sheet("history", t("Conversations"), el("div", { class: "filter" },
      el("label", { class: "unseen", for: "history-filter", text: t("Filter the conversations") }), this._filter), this._list);
  }

  async open() {
    if (!this._dialog.open) this._dialog.showModal();
    try {
      const { sessions } = await json("GET", "v1/sessions?limit=1000");
      this._all = sessions.filter((session) => session.turns > 0);
      this._draw();
    } catch (error) {
      this._list.replaceChildren(el("li", {}, problemBox(asProblem(error), () => this.open())));
    }
  }

  _draw() {
    const words = this._filter.value.toLocaleLowerCase().split(/\s+/).filter(Boolean);
    const matching = this._all.filter(({ question }) => {
      const text = question.toLocaleLowerCase();
      return words.every((word) => text.includes(word));
    });
    this._list.replaceChildren(...matching.map((session) => this._item(session)));
    if (matching.length) return;
    const hint = this._all.length ? t("No conversation begins with such a question.") : t("There are no conversations yet.");
    this._list.append(el("li", { class: "hint", text: hint }));
  }

  _item(session) {
    const erase = confirmButton(t("Erase"), t("Erase for good?"), () => this._erase(session),
      { class: "quiet", "aria-label": t("Erase “{question}”", { question: session.question }) });
    const here = session.session_id === this._conversation.session;
    const { href } = new URL(`#session=${part(session.session_id)}`, location.href); // whole: no link to skip to a part of the page
    return el("li", {}, el("a", { class: "session", "aria-current": here ? "true" : null, href,
      onclick: () => this._dialog.close() },
    el("span", { class: "document-title", text: session.question }),
    el("span", { class: "place", text: `${count(session.questions, "{n} question", "{n} questions")} · ${when(session.updated)}` })), erase);
  }

  async _erase(session) {
    try {
      await json("DELETE", `v1/sessions/${part(session.session_id)}`);
      announce(t("The conversation was erased."));
      if (this._conversation.session === session.session_id) this._conversation.clear();
      await this.open();
    } catch (error) {
      this._list.prepend(el("li", {}, problemBox(asProblem(error))));
    }
  }
}
