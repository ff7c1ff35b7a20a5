// The language of the page: the browser's, if there are texts in it, else English. A text's name is the English text.

import de from "./texts/de.js";
import nl from "./texts/nl.js";
import service from "./texts/service.js";

const TEXTS = { en: {}, de, nl };

/** `en`, `de` or `nl`. */
export const language = navigator.languages.map((one) => one.slice(0, 2)).find((one) => one in TEXTS) ?? "en";

/** That language as the browser has it, such as `en-GB`: how it writes dates. */
export const region = navigator.languages.find((one) => one.slice(0, 2) === language) ?? language;

const words = TEXTS[language];
/** [pattern, translation] of what the service says; {filter} is the only part of a remark that the service fills in. */
const SAID = [
  ...Object.entries(words).filter(([text]) => text.includes("{filter}")),
  ...(language === "en" ? [] : Object.entries(service).map(([text, [german, dutch]]) => [text, language === "de" ? german : dutch])),
].map(([text, translated]) => [pattern(text), translated]);
const numbers = new Intl.NumberFormat(language);

/** A number as the page's language writes it. @param digits behind the point. */
export function number(value, digits = 0) {
  return value.toLocaleString(language, { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** A text in the page's language. @param values replace {names} in it; numbers are written as the language does. */
export function t(text, values = {}) {
  const shown = (value) => typeof value === "number" ? numbers.format(value) : value;
  return (words[text] ?? text).replace(/\{(\w+)\}/g, (whole, name) => shown(values[name]) ?? whole);
}

/** What the service says, in the page's language: a remark, two of them, an error or a reason. */
export function said(remark) {
  if (remark in words) return t(remark);
  for (const [text, translated] of SAID) {
    const found = text.exec(remark);
    if (found) return translated.replace(/\{(\w+)\}/g, (whole, name) => found.groups[name] ?? whole);
  }
  const first = Object.keys(words).find((text) => remark.startsWith(`${text} `) && remark.slice(text.length + 1) in words);
  return first ? `${t(first)} ${t(remark.slice(first.length + 1))}` : remark;
}

/** A number with its noun: `count(1, "{n} source", "{n} sources")`. */
export function count(number, one, several) {
  return t(number === 1 ? one : several, { n: number });
}

/** A time, short. @param seconds since 1970. */
export function when(seconds) {
  return new Date(seconds * 1000).toLocaleString(region, { dateStyle: "medium", timeStyle: "short" });
}

/** A date without its time. */
export function day(date) {
  return date.toLocaleDateString(region, { dateStyle: "long" });
}

/** A date of ISO 8601, of the precision that it has: a day, a month or a year. */
export function isoDay(text) {
  const [year, month, date] = text.split("-").map(Number);
  if (!month) return text;
  const precision = date ? { dateStyle: "medium" } : { year: "numeric", month: "long" };
  return new Date(Date.UTC(year, month - 1, date || 1)).toLocaleDateString(region, { ...precision, timeZone: "UTC" });
}

/** Puts the texts that the page came with into its language. */
export function translate(page) {
  page.documentElement.lang = language;
  if (language === "en") return;
  const own = (text) => words[text.trim().replace(/\s+/g, " ")];
  const texts = page.createTreeWalker(page.documentElement, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const node = texts.currentNode;
    const translated = own(node.data);
    if (translated) node.data = node.data.replace(/\S[\s\S]*\S|\S/, () => translated);
  }
  for (const name of ["aria-label", "placeholder"]) {
    for (const element of page.querySelectorAll(`[${name}]`)) {
      const translated = own(element.getAttribute(name));
      if (translated) element.setAttribute(name, translated);
    }
  }
}

/** Finds a text with anything in place of its {parts}; a part that comes twice is the same both times. */
function pattern(text) {
  const known = new Set();
  const parts = text.split(/\{(\w+)\}/).map((part, index) => {
    if (index % 2 === 0) return part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
    if (known.has(part)) return `\\k<${part}>`;
    known.add(part);
    return `(?<${part}>[^]+?)`;
  });
  return new RegExp(`^${parts.join("")}$`, "u");
}
