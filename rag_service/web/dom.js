// Elements. Text stays text: nothing on the page parses markup.

import { t } from "./language.js";

/**
 * An element. Attributes that start with "on" are listeners, `text` is the content, and null and false leave an
 * attribute out.
 */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "text") element.textContent = value;
    else if (value === true) element.setAttribute(name, "");
    else element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const byId = (id) => document.getElementById(id);

export function button(label, onclick, attributes = {}) {
  return el("button", { type: "button", text: label, onclick, ...attributes });
}

/** Reads a text out to users of a screen reader. */
export function announce(text) {
  byId("announce").textContent = text;
}

/** A button that acts on the second click: the first one turns its label into @param question. */
export function confirmButton(label, question, act, attributes) {
  const pressed = button(label, () => {
    if (pressed.textContent === question) {
      act();
      return;
    }
    pressed.textContent = question;
    pressed.addEventListener("blur", () => { pressed.textContent = label; }, { once: true });
  }, attributes);
  return pressed;
}

/** A dialog of the page, with a title and a button that closes it. A click outside closes it, too. */
export function sheet(id, title, ...children) {
  const dialog = byId(id);
  dialog.append(
    el("div", { class: "sheet-head" }, el("h2", { id: `${id}-title`, text: title }),
      button("✕", () => dialog.close(), { class: "quiet icon", "aria-label": t("Close: {what}", { what: title }) })),
    ...children);
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  return dialog;
}

let numbers = 0;
export const freshId = (prefix) => `${prefix}-${++numbers}`;

/** A problem: what went wrong, what to do and, with @param again, a button that tries again. */
export function problemBox(problem, again = null) {
  const box = el("div", { class: "problem", role: "alert" },
    el("strong", { text: problem.title || t("That did not work") }),
    el("p", { text: problem.detail }));
  if (again) box.append(button(t("Try again"), again, { class: "quiet" }));
  return box;
}
