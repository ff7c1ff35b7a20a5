// Thumbs on an answer, with a comment. What is given can be changed and withdrawn.

import { asProblem, json } from "../api.js";
import { announce, button, el, freshId, problemBox } from "../dom.js";
import { t } from "../language.js";

const MAC = /Mac|iP(hone|ad|od)/.test(navigator.platform);
const NAMES = { up: "Good answer", down: "Bad answer" };

export class Rating {
  /** @param view of the answer. @param given its feedback, if it has any. @param onchange called when it changes. */
  constructor(view, given, onchange) {
    this._view = view;
    this._given = given;
    this._onchange = onchange;
    this.form = el("div", { class: "rating" });
  }

  /** The two thumbs. */
  thumbs() {
    return el("span", { role: "group", "aria-label": t("Rate this answer"), class: "item-tools" }, ...Object.entries(NAMES).map(([rating, name]) => {
      const pressed = button("", () => this._press(rating), { class: `quiet icon thumb ${rating}`,
        "data-do": `rate-${rating}`, title: t(name), "aria-label": t(name),
        "aria-pressed": String(this._given?.rating === rating) });
      pressed.append(thumb());
      return pressed;
    }));
  }

  get _path() {
    return `v1/answers/${this._view.answerId}/feedback`;
  }

  async _press(rating) {
    if (this._given?.rating === rating) {
      await this._send("DELETE");
      this.form.replaceChildren();
    } else if (await this._send("POST", { rating, comment: this._given?.comment ?? "" })) {
      this._ask(!document.activeElement?.matches("textarea, input")); // who writes elsewhere by now keeps the focus
    }
  }

  /** Whether it was done; if not, the reason is shown. */
  async _send(method, body) {
    try {
      this._given = await json(method, this._path, { body });
      announce(this._given ? t("Thank you for the feedback.") : t("The feedback was withdrawn."));
      this._onchange();
      return true;
    } catch (error) {
      this.form.replaceChildren(problemBox(asProblem(error)));
      return false;
    }
  }

  /** Closes the form. The focus, if it was in there, goes back to the thumb. */
  _close(...shown) {
    const within = this.form.contains(document.activeElement);
    const thumb = this.form.closest(".turn")?.querySelector(`[data-do="rate-${this._given?.rating}"]`);
    this.form.replaceChildren(...shown);
    if (within) thumb?.focus({ preventScroll: true });
  }

  /** Asks for a comment. @param focus whether its field gets the focus. */
  _ask(focus) {
    const field = freshId("comment");
    const input = el("textarea", { id: field, rows: "2", maxlength: "4000" });
    input.value = this._given.comment;
    const form = el("form", { class: "edit-form", onsubmit: async (event) => {
      event.preventDefault();
      const { rating } = this._given;
      if (await this._send("POST", { rating, comment: input.value })) {
        const said = input.value.trim() ? t("Sent, thank you. The operator can read your comment.") : t("Thank you for the feedback.");
        announce(said);
        this._close(el("p", { class: "aside sent", text: said }));
      }
    }, onkeydown: (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
      if (event.key !== "Escape" || event.isComposing) return;
      event.stopPropagation();
      this._close();
    } },
    el("label", { for: field, text: this._given.rating === "up" ? t("What was good? (optional)") : t("What was wrong? (optional)") }),
    input,
    el("p", { class: "place", text: t("The question and the answer are kept with it, for the operator of this service.") }),
    el("div", { class: "row" }, el("button", { type: "submit", class: "primary", text: t("Send comment") }),
      el("span", { class: "place with-keys", text: t(MAC ? "or ⌘+Enter" : "or Ctrl+Enter") }),
      button(t("No comment"), () => this._close(), { class: "quiet" })));
    this.form.replaceChildren(form);
    form.scrollIntoView({ block: "nearest" });
    if (focus) input.focus({ preventScroll: true });
  }
}

/** A thumb that points up; parts.css turns it round. */
function thumb() {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 24 24");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", "M3 11h4v9H3zM7 11l4-8a2.5 2.5 0 0 1 2.5 2.5V9h5a2 2 0 0 1 2 2.3l-1.2 7a2 2 0 0 1-2 1.7H7");
  svg.append(path);
  return svg;
}
