// The history dialog: earlier conversations, to open or erase.

import { asProblem, json, part } from "../api.js";
import { announce, confirmButton, count, el, problemBox, sheet } from "../dom.js";

export class History {
  /** @param conversation the one on the page. */
  constructor(conversation) {
    this._conversation = conversation;
    this._list = el("ul", { class: "session-list" });
    this._dialog = sheet("history", "Conversations", this._list);
  }

  async open() {
    if (!this._dialog.open) this._dialog.showModal();
    try {
      const { sessions } = await json("GET", "v1/sessions?limit=100");
      const answered = sessions.filter((session) => session.turns > 0);
      this._list.replaceChildren(...answered.map((session) => this._item(session)));
      if (!answered.length) this._list.append(el("li", { class: "hint", text: "There are no conversations yet." }));
    } catch (error) {
      this._list.replaceChildren(el("li", {}, problemBox(asProblem(error), () => this.open())));
    }
  }

  _item(session) {
    const when = new Date(session.updated * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    const erase = confirmButton("Erase", "Erase for good?", () => this._erase(session),
      { class: "quiet", "aria-label": `Erase “${session.question}”` });
    return el("li", {}, el("a", { class: "session", href: `#session=${part(session.session_id)}`,
      onclick: () => this._dialog.close() },
    el("span", { class: "document-title", text: session.question }),
    el("span", { class: "place", text: `${count(session.turns, "turn")} · ${when}` })), erase);
  }

  async _erase(session) {
    try {
      await json("DELETE", `v1/sessions/${part(session.session_id)}`);
      announce("The conversation was erased.");
      if (this._conversation.session === session.session_id) this._conversation.clear();
      await this.open();
    } catch (error) {
      this._list.prepend(el("li", {}, problemBox(asProblem(error))));
    }
  }
}
