// How an answer was made: one quiet line, which opens into its figures. The line says what speculation saved: the passes
// of the model that the answer took, and those of plain decoding. A model server tells no passes, so its answers have
// tokens and time.

import { el } from "../dom.js";

const PASSES = "A pass is one run of the whole model. Plain decoding takes one for every token.";

export class Meter {
  constructor() {
    this._fill = el("span", { class: "meter-fill" });
    this._bar = el("span", { class: "meter-bar", "aria-hidden": "true" }, this._fill);
    this._text = el("span", { class: "meter-text" });
    this._figures = el("dl", {});
    this.element = el("details", { class: "meter", hidden: true, title: PASSES },
      el("summary", {}, el("span", { text: "How it was made" }), this._text), this._bar, this._figures);
  }

  /** Of a model server. @param tokens so far. @param ms of the answer, once known. @param estimated the count is ours. */
  setTime(tokens, ms = null, estimated = false) {
    this.element.hidden = tokens < 1;
    this.element.title = "A model server wrote this answer. It does not tell how.";
    this._bar.hidden = true;
    const counted = `${estimated ? "about " : ""}${tokens} ${tokens === 1 ? "token" : "tokens"}`;
    this._text.replaceChildren(el("strong", { text: counted }), ms === null ? "" : ` · ${seconds(ms)}`);
  }

  /** @param steps passes taken. @param plain passes of plain decoding. @param ms of decoding, once known. */
  set(steps, plain, ms = null) {
    this.element.hidden = plain < 1;
    this.element.title = PASSES;
    this._bar.hidden = false;
    if (plain < 1) return;
    const share = Math.min(1, steps / plain);
    this._fill.style.width = `${Math.max(2, 100 * share)}%`;
    const saved = Math.round(100 * (1 - share));
    const passes = `${steps} ${steps === 1 ? "pass" : "passes"}`;
    this._text.replaceChildren(
      saved > 0 ? el("strong", { text: `${saved} % fewer passes` }) : el("strong", { text: passes }),
      saved > 0 ? ` ${steps} instead of ${plain}` : ` for ${plain + 1} tokens`,
      ms === null ? "" : ` · ${seconds(ms)}`);
  }

  /** The figures of a finished answer. */
  tell(answer) {
    this.element.hidden = false;
    this._figures.replaceChildren(...figures(answer));
  }
}

export const seconds = (ms) => ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;

function figures(answer) {
  const { speculation, usage, timings } = answer;
  const rows = [];
  const row = (name, value) => rows.push(el("div", {}, el("dt", { text: name }), el("dd", { text: value })));
  if (speculation?.engine === "upstream") {
    row("Model server", `${speculation.model} at ${speculation.upstream}`);
  } else if (speculation) {
    row("Drafter", speculation.drafter);
    row("Passes of the model", `${speculation.steps}; plain decoding takes ${speculation.plain_equivalent_steps}`);
    row("Draft tokens", `${speculation.accepted} of ${speculation.drafted} accepted`);
    for (const [name, source] of Object.entries(speculation.by_source ?? {})) {
      row(`– ${name}`, `${source.accepted} of ${source.drafted}`);
    }
  }
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    row("Prompt", `${usage.prompt_tokens} tokens${cached ? `, ${cached} of them reused from earlier turns` : ""}`);
    row("Answer", `${usage.completion_tokens} tokens${speculation?.usage === "estimated" ? ", estimated" : ""}`);
  }
  if (timings) row("Time", `${seconds(timings.prefill ?? 0)} to read, ${seconds(timings.decode ?? 0)} to write`);
  if (typeof answer.support === "number") {
    row("Support", `${answer.support.toFixed(2)}${answer.calibrated ? "" : ", not calibrated for this model"}`);
  }
  row("Seed", String(answer.seed));
  return rows;
}
