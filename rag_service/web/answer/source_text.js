// The text of a document or of a passage of it, with the words of a mark marked. Headings, lists, tables and code are
// shown as such where the reader of the document's format writes them as Markdown; all other words stay as they are.

import { el } from "../dom.js";
import { rendered } from "./markdown.js";
import { columnsOf } from "./provenance.js";

/** Endings of files that are Markdown themselves. */
const MARKDOWN = ["md", "markdown", "ipynb"];
/** Endings of files whose readers write headings, lists, tables and code as Markdown, and the words between as they are. */
const OUTLINED = ["html", "htm", "xhtml", "docx", "pptx", "xlsx", "odt", "epub", "csv", "tsv", "json", "jsonl", "ndjson",
  "eml", "rst", "adoc", "asciidoc"];
/** Endings of files whose reader marks headings and tables alone. */
const HEADED = ["pdf"];
const LONGEST = 500_000; // code units; a longer text is shown as it is, for it would make the page slow

/** The ending of the file that a document came from: its id is the file's name, by default with a digest behind it. */
export function ending({ document_id: id, name = "" }) {
  const found = /\.([a-z0-9]+)(-[0-9a-f]{10})?$/i.exec(id) ?? /\.([a-z0-9]+)$/i.exec(name);
  return found?.[1].toLowerCase() ?? null;
}

/**
 * @param document that the text is of: {document_id, name?}; a passage, if the text is its own, also has the names of the
 *   columns of a table that goes on in it: {text, heading}. @param classes of the element.
 * @param mark of provenance.js, or null. @param base is added to its offsets.
 */
export function textOf(document, text, classes, mark = null, base = 0) {
  const format = text.length > LONGEST ? null : ending(document);
  const offsets = mark?.from === undefined || mark.from === null ? [0, 0] : [Math.max(0, mark.from + base), mark.to + base];
  const names = text === document.text ? columnsOf(document) : [];
  if (MARKDOWN.includes(format) || OUTLINED.includes(format)) {
    const nodes = withHead(text, names, 0, offsets, OUTLINED.includes(format));
    const flows = MARKDOWN.includes(format) ? "flowing " : ""; // where a line ends within a paragraph is no matter of its author
    return el("div", { class: `passage-text markdown ${flows}${classes}` }, ...nodes);
  }
  const nodes = HEADED.includes(format) ? headed(text, names, offsets) : plain(text, 0, offsets);
  return el("div", { class: `passage-text ${classes}` }, ...nodes);
}

/** The nodes of a text as it is. @param start its place. @param from, to the places that are marked. */
function plain(text, start, [from, to]) {
  if (to <= start) return text ? [text] : [];
  const points = Array.from(text);
  const [first, past] = [Math.max(0, from - start), to - start];
  if (first >= points.length) return [text];
  return [points.slice(0, first).join(""), el("mark", { text: points.slice(first, past).join("") }),
    points.slice(past).join("")].filter(Boolean);
}

/** The nodes of some words; those between `from` and `to` are marked. */
function marked(value, at, [from, to]) {
  const points = Array.from(value);
  const first = at.findIndex((place) => place >= from && place < to);
  if (first < 0) return [value];
  const past = at.findLastIndex((place) => place >= from && place < to) + 1;
  return [points.slice(0, first).join(""), el("mark", { text: points.slice(first, past).join("") }),
    points.slice(past).join("")].filter(Boolean);
}

/** The nodes of a text whose lines that begin with `#` are headings; a sign before which stands a backslash is none. Rows of a table are one. */
function headed(text, names, offsets) {
  const nodes = [];
  let place = 0;
  for (const line of text.split(/(?<=\n)(?!(?<=^\| .* \|\n)\|)/m)) {
    if (/^\| .* \|$/m.test(line.split("\n", 1)[0])) {
      nodes.push(...withHead(line, place ? [] : names, place, offsets, true));
      place += Array.from(line).length;
      continue;
    }
    const [whole, signs, words] = /^(#{1,6})[ \t]+(.*)/.exec(line) ?? [];
    const skipped = whole ? whole.length - words.length : /^\\#{1,6}[ \t]/.test(line) ? 1 : 0;
    const shown = plain(whole ? words : line.slice(skipped), place + skipped, offsets);
    nodes.push(...(whole ? [el(`h${Math.min(6, signs.length + 2)}`, {}, ...shown)] : shown));
    place += Array.from(line).length;
  }
  return nodes;
}

/** The nodes of Markdown, below a header where it begins between two rows of a table. @param start its place. */
function withHead(text, names, start, offsets, outline) {
  const head = headOf(text, names);
  const before = Array.from(head).length - start;
  return rendered(head + text, (value, at) => marked(value, at.map((place) => place - before), offsets), { outline });
}

/** What a text that begins between two rows of a table lacks: its header. @param names of its columns; without them it is empty. */
function headOf(text, names) {
  const [first, second = ""] = text.split("\n", 2);
  if (!/^\| .* \|$/.test(first) || /^\|( *:?-+:? *\|)+$/.test(second)) return "";
  const columns = first.replaceAll("\\|", "").split("|").length - 2;
  const cells = names.length === columns ? names : Array(columns).fill("");
  return `| ${cells.join(" | ")} |\n|${" --- |".repeat(columns)}\n`;
}
