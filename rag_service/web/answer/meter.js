// How an answer was made: one quiet line, which opens into its figures. The line says what speculation saved: the passes
// of the model that the answer took, and those of plain decoding. A model server tells no passes, so its answers have
// tokens and time.

import { el } from "../dom.js";
import { count, number, t } from "../language.js";

const PASSES = "A pass is one run of the whole model. Plain decoding takes one for every token.";

const COPIES = "copies of the passages, the conversation or the answer";
const COPIES_TOO = "copies of the passages, the conversation or the answer, and guesses from the last pass";
const ALL =
  "copies of the passages, the conversation or the answer, guesses from the last pass, and words that often follow";
const MASKS = "guesses of the model at masked places ahead";
/** What the drafts of each drafter are (docs/explanation.md). */
const DRAFTS = {
  auto: ALL, pld: COPIES, copyspec: COPIES, casd: COPIES, pld_plus: COPIES, logitspec: COPIES_TOO,
  recycling: "guesses from what the model favoured after the same token before",
  lookahead: "guesses that the model makes beside the answer",
  small_model: "guesses of a smaller model", eagle: "guesses of a small head on the model",
  sdsat: MASKS, sdsat_two_step: MASKS,
};

/** Whether the next answers are compared with plain decoding. Every answer's figures have the switch for it. */
export const comparison = { on: false };

export class Meter {
  constructor() {
    this._fill = el("span", { class: "meter-fill" });
    this._bar = el("span", { class: "meter-bar", "aria-hidden": "true" }, this._fill);
    this._text = el("span", { class: "meter-text" });
    this._figures = el("dl", {});
    this._compare = compareSwitch();
    this.element = el("details", { class: "meter", hidden: true, title: t(PASSES) },
      el("summary", {}, el("span", { text: t("How it was made") }), this._text), this._bar, this._figures, this._compare);
  }

  /** Of a model server. @param tokens so far. @param ms of the answer, once known. @param estimated the count is ours. */
  setTime(tokens, ms = null, estimated = false) {
    this.element.hidden = tokens < 1;
    this.element.title = t("A model server wrote this answer. It does not tell how.");
    this._bar.hidden = true;
    const exactly = count(tokens, "{n} token", "{n} tokens");
    const counted = estimated ? t("about {number}", { number: exactly }) : exactly;
    this._text.replaceChildren(el("strong", { text: counted }), ms === null ? "" : ` · ${seconds(ms)}`);
  }

  /** @param steps passes taken. @param plain passes of plain decoding. @param ms of the answer, once known. */
  set(steps, plain, ms = null) {
    this.element.hidden = plain < 1;
    this.element.title = t(PASSES);
    this._bar.hidden = false;
    if (plain < 1) return;
    const share = Math.min(1, steps / plain);
    this._fill.style.width = `${Math.max(2, 100 * share)}%`;
    const saved = Math.round(100 * (1 - share));
    const passes = count(steps, "{n} pass", "{n} passes");
    this._text.replaceChildren(
      saved > 0 ? el("strong", { text: t("{n} % fewer passes", { n: saved }) }) : el("strong", { text: passes }),
      " ", saved > 0 ? t("{steps} instead of {plain}", { steps, plain }) : t("for {n} tokens", { n: plain + 1 }),
      ms === null ? "" : ` · ${seconds(ms)}`);
  }

  /** The figures of a finished answer. */
  tell(answer) {
    this.element.hidden = false;
    this._figures.replaceChildren(...figures(answer));
    this._compare.hidden = answer.speculation?.engine === "upstream"; // a model server has no plain decoding
  }
}

function compareSwitch() {
  const input = el("input", { type: "checkbox", role: "switch", class: "compare", onchange: () => {
    comparison.on = input.checked;
    for (const other of document.querySelectorAll("input.compare")) other.checked = comparison.on;
  } });
  input.checked = comparison.on;
  return el("label", { class: "switch", hidden: true }, input, el("span", { class: "track" }),
    el("span", { text: t("Compare the next answers with plain decoding") }));
}

export const seconds = (ms) => ms < 1000 ? `${number(ms)} ms` : `${number(ms / 1000, 1)} s`;

function figures(answer) {
  const { speculation, usage, timings } = answer;
  const rows = [];
  const row = (name, value) => rows.push(el("div", {}, el("dt", { text: name }), el("dd", { text: value })));
  if (speculation?.engine === "upstream") {
    row(t("Model server"), t("{model} at {server}", { model: speculation.model, server: speculation.upstream }));
  } else if (speculation) {
    row(t("Drafter"), speculation.drafter);
    row(t("Passes of the model"), t("{steps}; plain decoding takes {plain}",
      { steps: speculation.steps, plain: speculation.plain_equivalent_steps }));
    row(t("Draft tokens"), t("{part} of {all} accepted", { part: speculation.accepted, all: speculation.drafted }));
    for (const [name, source] of Object.entries(speculation.by_source ?? {})) {
      const share = t("{part} of {all}", { part: source.accepted, all: source.drafted });
      row(`– ${name}`, name in DRAFTS ? `${share} · ${t(DRAFTS[name])}` : share);
    }
  }
  if (usage) {
    const cached = usage.prompt_tokens_details?.cached_tokens ?? 0;
    const read = count(usage.prompt_tokens, "{n} token", "{n} tokens");
    row(t("Prompt"), cached ? t("{tokens}, {n} of them reused from earlier turns", { tokens: read, n: cached }) : read);
    const written = count(usage.completion_tokens, "{n} token", "{n} tokens");
    row(t("Answer"), speculation?.usage === "estimated" ? t("{tokens}, estimated", { tokens: written }) : written);
  }
  if (timings) {
    row(t("Time"), t("{read} to read, {write} to write",
      { read: seconds(timings.prefill ?? 0), write: seconds(timings.decode ?? 0) }));
  }
  if (typeof answer.support === "number") {
    const chance = number(answer.support, 2);
    const asked = ["readout", "check"].some((signal) => signal in (answer.signals ?? {}));
    row(t("Support"), answer.calibrated ? chance
      : asked ? t("{chance}, not calibrated for this model, prompt or language", { chance })
      : t("{chance}, by its words alone", { chance }));
  }
  row(t("Seed"), String(answer.seed));
  return rows;
}
