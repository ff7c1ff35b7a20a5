// Light or dark: as the system has it, or as chosen here. The choice is kept in this browser.

import { announce } from "./dom.js";
import { t } from "./language.js";

const SYSTEM = matchMedia("(prefers-color-scheme: dark)");
const KEPT = "rag-service-theme";
const THEMES = {
  auto: ["◐", "Theme: auto"],
  light: ["☀", "Theme: light"],
  dark: ["☾", "Theme: dark"],
};

export class Theme {
  /** @param pressed a button that goes from one theme to the next; the first press always changes what one sees. */
  constructor(pressed) {
    this._button = pressed;
    this._show(kept() in THEMES ? kept() : "auto");
    let order = null;
    pressed.addEventListener("click", () => {
      order ??= orderFrom(this._name);
      this._show(order[(order.indexOf(this._name) + 1) % order.length]);
      announce(t(THEMES[this._name][1]));
      try {
        localStorage.setItem(KEPT, this._name);
      } catch { /* a browser that keeps nothing */ }
    });
  }

  _show(name) {
    this._name = name;
    const [sign, label] = THEMES[name];
    document.documentElement.dataset.theme = name;
    this._button.textContent = sign;
    this._button.setAttribute("aria-label", t(label));
    this._button.title = t(label);
  }
}

/** All themes from one on. Two of them look alike, the system's and `auto`, so which one is second depends on the first. */
function orderFrom(first) {
  const [same, other] = SYSTEM.matches ? ["dark", "light"] : ["light", "dark"];
  return { auto: ["auto", other, same], [same]: [same, other, "auto"], [other]: [other, same, "auto"] }[first];
}

function kept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
