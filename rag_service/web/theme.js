// Light or dark: as the system has it, or as chosen here. The choice is kept in this browser.

import { announce } from "./dom.js";

const KEPT = "rag-service-theme";
const THEMES = [["auto", "◐"], ["light", "☀"], ["dark", "☾"]];

export class Theme {
  /** @param pressed a button that goes from one theme to the next. */
  constructor(pressed) {
    this._button = pressed;
    this._show(Math.max(0, THEMES.findIndex(([name]) => name === kept())));
    pressed.addEventListener("click", () => {
      this._show((this._at + 1) % THEMES.length);
      announce(`Theme: ${THEMES[this._at][0]}.`);
      try {
        localStorage.setItem(KEPT, THEMES[this._at][0]);
      } catch { /* a browser that keeps nothing */ }
    });
  }

  _show(at) {
    this._at = at;
    const [name, sign] = THEMES[at];
    document.documentElement.dataset.theme = name;
    this._button.textContent = sign;
    this._button.setAttribute("aria-label", `Theme: ${name}`);
    this._button.title = `Theme: ${name}`;
  }
}

function kept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
