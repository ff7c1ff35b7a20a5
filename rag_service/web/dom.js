// Building elements. Text only ever becomes text: nothing here, or anywhere on the page, parses markup.

/**
 * An element. Attributes beginning with "on" are listeners; `class`, `text` and booleans do what they say; null and
 * false leave an attribute out.
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

/** Says something to those who listen to the page. */
export function announce(text) {
  byId("announce").textContent = text;
}

/** A number with a word behind it: `count(1, "source")`, `count(3, "source")`. */
export function count(number, word) {
  return `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;
}

let numbers = 0;
export const freshId = (prefix) => `${prefix}-${++numbers}`;

/** A problem shown where it happened: what went wrong, what to do, and (where there is something to try) a button. */
export function problemBox(problem, again = null) {
  const box = el("div", { class: "problem", role: "alert" },
    el("strong", { text: problem.title || "That did not work" }),
    el("p", { text: problem.detail }));
  if (again) box.append(button("Try again", again, { class: "quiet" }));
  return box;
}
