// The history dialog: earlier conversations, to open or erase.

import { asProblem, json, part } from "./api.js";
import { announce, button, byId, count, el, problemBox } from "./dom.js";

export class History {
  /** @param conversation the one on the page. */
  constructor(conversation) {
    this._conversation = conversation;
    this._dialog = byId("history");
    this._list = el("ul", { class: "session-list" });
    this._dialog.append(
      el("div", { class: "sheet-head" }, el("h2", { id: "history-title", text: "Conversations" }),
        button("✕", () => this._dialog.close(), { class: "quiet icon", "aria-label": "Close conversations" })),
      this._list);
    this._dialog.addEventListener("click", (event) => event.target === this._dialog && this._dialog.close());
  }

  async open() {
    if (!this._dialog.open) this._dialog.showModal();
    try {
      const { sessions } = await json("GET", "v1/sessions?limit=100");
      const kept = sessions.filter((session) => session.turns > 0);
      this._list.replaceChildren(...kept.map((session) => this._item(session)));
      if (!kept.length) this._list.append(el("li", { class: "hint", text: "There are none yet." }));
    } catch (error) {
      this._list.replaceChildren(el("li", {}, problemBox(asProblem(error), () => this.open())));
    }
  }

  _item(session) {
    const when = new Date(session.updated * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    const erase = button("Erase", () => {
      if (erase.dataset.sure) {
        this._erase(session);
        return;
      }
      erase.dataset.sure = "yes";
      erase.textContent = "Erase for good?";
      erase.addEventListener("blur", () => {
        delete erase.dataset.sure;
        erase.textContent = "Erase";
      }, { once: true });
    }, { class: "quiet", "aria-label": `Erase “${session.question}”` });
    return el("li", {}, el("a", { class: "session", href: `#session=${part(session.session_id)}`,
      onclick: () => this._dialog.close() },
    el("span", { class: "document-title", text: session.question }),
    el("span", { class: "place", text: `${count(session.turns, "turn")} · ${when}` })), erase);
  }

  async _erase(session) {
    try {
      await json("DELETE", `v1/sessions/${part(session.session_id)}`);
      announce("The conversation was erased.");
      if (this._conversation.session === session.session_id) this._conversation.begin();
      await this.open();
    } catch (error) {
      this._list.prepend(el("li", {}, problemBox(asProblem(error))));
    }
  }
}
