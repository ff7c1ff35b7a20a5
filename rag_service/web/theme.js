// Light or dark: as the system has it, or as chosen here. The choice is kept in this browser.

import { announce } from "./dom.js";
import { t } from "./language.js";

const KEPT = "rag-service-theme";
const THEMES = [["auto", "◐", "Theme: auto"], ["light", "☀", "Theme: light"], ["dark", "☾", "Theme: dark"]];

export class Theme {
  /** @param pressed a button that goes from one theme to the next. */
  constructor(pressed) {
    this._button = pressed;
    this._show(Math.max(0, THEMES.findIndex(([name]) => name === kept())));
    pressed.addEventListener("click", () => {
      this._show((this._at + 1) % THEMES.length);
      announce(t(THEMES[this._at][2]));
      try {
        localStorage.setItem(KEPT, THEMES[this._at][0]);
      } catch { /* a browser that keeps nothing */ }
    });
  }

  _show(at) {
    this._at = at;
    const [name, sign, label] = THEMES[at];
    document.documentElement.dataset.theme = name;
    this._button.textContent = sign;
    this._button.setAttribute("aria-label", t(label));
    this._button.title = t(label);
  }
}

function kept() {
  try {
    return localStorage.getItem(KEPT);
  } catch {
    return null;
  }
}
