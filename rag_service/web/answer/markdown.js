// Markdown → nodes of the page. HTML and images stay text, and links lead to web and mail addresses only.
//
// The parser says where each part of the text stands, so every character on the page knows its place in the text. The
// caller makes the nodes of the words (`leaf`), for it knows their sources.

import { announce, button, el } from "../dom.js";
import { parse } from "../vendor/markdown.js";
import { t } from "../language.js";

const SAFE = /^(https?:|mailto:)/i;
const ENTITY = /^&(?:#\d{1,7}|#x[\da-f]{1,6}|[a-z][a-z\d]{1,31});/i;
const LONGEST_ENTITY = 40;
const ESCAPABLE = /[!-/:-@[-`{-~]/;

/**
 * The nodes of a text.
 *
 * @param text Markdown. @param leaf (value, at) => nodes of some words: `at[i]` is the place in `text`, in code points, of
 *   the i-th code point of `value`.
 * @param outline whether only headings, lists, tables and code are Markdown, and all between them are words as they are.
 */
export function rendered(text, leaf, { outline = false } = {}) {
  return new Renderer(text, leaf, outline).children(parse(text));
}

const WORDED = new Set(["paragraph", "heading", "tableCell"]); // blocks of an outline that hold words
const OUTLINE = new Set(["paragraph", "list", "listItem", "table", "code"]); // and headings

class Renderer {
  constructor(text, leaf, outline) {
    this._text = text;
    this._leaf = leaf;
    this._outline = outline;
    this._points = places(text);
    this._targets = new Map();
  }

  children(node) {
    if (this._outline && WORDED.has(node.type)) return this._asIs(node.children, node.type === "tableCell");
    for (const child of node.children) {
      if (child.type === "definition") this._targets.set(child.identifier, child.url);
    }
    return node.children.flatMap((child) => this._nodes(child));
  }

  _nodes(node) {
    if (this._outline && !this._outlines(node)) return [el("p", {}, ...this._asIs([node]))];
    const make = MAKERS[node.type];
    if (make) return [make(this, node)];
    switch (node.type) {
      case "text": return this._words(node.value, node);
      case "inlineCode": return [el("code", {}, ...this._code(node))];
      case "code": return [this._block(node)];
      case "break": return [el("br")];
      case "thematicBreak": return [el("hr")];
      case "definition": return [];
      case "table": return [el("div", { class: "table", tabindex: "0", role: "region", "aria-label": t("Table") }, this._table(node))];
      case "html": return this._raw(node, node.position.start.offset === 0 || this._text[node.position.start.offset - 1] === "\n");
      case "image": case "imageReference": return this._raw(node);
      default: return node.children ? this.children(node) : this._raw(node);
    }
  }

  /** Whether a block is one that a reader of documents writes. */
  _outlines({ type, position }) {
    return type === "heading" ? this._text[position.start.offset] === "#" : OUTLINE.has(type);
  }

  /** The words of some neighbouring nodes as they stand in the text. @param cell whether bars in them are escaped. */
  _asIs(nodes, cell = false) {
    if (!nodes.length) return [];
    const at = [];
    const end = nodes.at(-1).position.end.offset;
    let words = "";
    for (let place = nodes[0].position.start.offset; place < end;) {
      if (cell && this._text.startsWith("\\|", place)) place++;
      const point = String.fromCodePoint(this._text.codePointAt(place));
      words += point;
      at.push(this._points[place]);
      place += point.length;
    }
    return this._leaf(words, at);
  }

  link(node, url) {
    const words = this.children(node);
    if (!url || !SAFE.test(url)) return el("span", {}, ...words);
    return el("a", { href: url, rel: "noopener noreferrer nofollow", target: "_blank" }, ...words);
  }

  target(identifier) {
    return this._targets.get(identifier);
  }

  _table(node) {
    const row = (one, tag) => el("tr", {}, ...one.children.map((cell, at) =>
      el(tag, { class: node.align?.[at] ? `align-${node.align[at]}` : null, scope: tag === "th" ? "col" : null },
        ...this.children(cell))));
    const [head, ...body] = node.children;
    const headed = head.children.some((cell) => cell.children.length);
    return el("table", {}, headed ? el("thead", {}, row(head, "th")) : null, el("tbody", {}, ...body.map((one) => row(one, "td"))));
  }

  _block(node) {
    const copy = button(t("Copy"), async () => {
      const done = await navigator.clipboard.writeText(node.value).then(() => true, () => false);
      announce(done ? t("Copied.") : t("Could not copy."));
    }, { class: "quiet copy-code", "aria-label": t("Copy the code") });
    return el("div", { class: "code" }, copy, el("pre", { tabindex: "0" }, el("code", {}, ...this._code(node))));
  }

  /** The words of code, which has neither escapes nor entities: those behind its backticks or its fence's first line. */
  _code(node) {
    const { start, end } = node.position;
    const fence = /^(`+|~~~+)/.exec(this._text.slice(start.offset, end.offset));
    let from = start.offset + (fence?.[0].length ?? 0);
    if (fence && node.type === "code") from = this._text.indexOf("\n", from) + 1 || end.offset;
    return this._aligned(node.value, from, end.offset, true);
  }

  _words(value, node) {
    return this._aligned(value, node.position.start.offset, node.position.end.offset);
  }

  _raw(node, block = false) {
    const { start, end } = node.position;
    const nodes = this._aligned(this._text.slice(start.offset, end.offset), start.offset, end.offset, true);
    return block ? [el("p", { class: "raw" }, ...nodes)] : nodes;
  }

  /**
   * The nodes of a value that stands in the text from `start` to `end`, with marks, indents and escapes between its words.
   *
   * @param literal whether it has no escapes and no entities.
   */
  _aligned(value, start, end, literal = false) {
    const at = [];
    let place = start;
    let unit = 0; // of the value
    for (const point of value) {
      const entity = literal ? null : ENTITY.exec(this._text.slice(place, Math.min(end, place + LONGEST_ENTITY)))?.[0];
      const escaped = !literal && this._text[place] === "\\" && this._text[place + 1] === point && ESCAPABLE.test(point);
      let width = point.length;
      if (entity && !value.startsWith(entity, unit)) width = entity.length;
      else if (escaped) width = 2;
      else if (!this._text.startsWith(point, place) && !(point === " " && this._text[place] === "\n")) {
        const found = this._text.indexOf(point, place);
        if (found >= 0 && found < end) place = found;
      }
      at.push(this._points[Math.min(place, end)]);
      place = Math.min(place + width, end);
      unit += point.length;
    }
    return this._leaf(value, at);
  }
}

const MAKERS = {
  paragraph: (one, node) => el("p", {}, ...one.children(node)),
  heading: (one, node) => el(`h${Math.min(6, node.depth + 2)}`, {}, ...one.children(node)),
  emphasis: (one, node) => el("em", {}, ...one.children(node)),
  strong: (one, node) => el("strong", {}, ...one.children(node)),
  delete: (one, node) => el("del", {}, ...one.children(node)),
  blockquote: (one, node) => el("blockquote", {}, ...one.children(node)),
  listItem: (one, node) => el("li", {}, ...one.children(node)),
  list: (one, node) => el(node.ordered ? "ol" : "ul", { start: node.ordered && node.start !== 1 ? node.start : null,
    class: node.spread ? null : "tight" }, ...one.children(node)),
  link: (one, node) => one.link(node, node.url),
  linkReference: (one, node) => one.link(node, one.target(node.identifier)),
};

/** The number of code points before each place of a string, and before its end. */
function places(text) {
  const found = new Int32Array(text.length + 1);
  let points = 0;
  for (let at = 0; at < text.length; points++) {
    const width = text.codePointAt(at) > 0xffff ? 2 : 1;
    for (let unit = 0; unit < width; unit++) found[at + unit] = points;
    at += width;
  }
  found[text.length] = points;
  return found;
}

/** Makes the children of `parent` like `fresh`. Nodes that are equal stay, with focus and selection. */
export function reconcile(parent, fresh) {
  fresh.forEach((node, at) => {
    const there = parent.childNodes[at];
    if (!there) parent.append(node);
    else if (!patched(there, node)) there.replaceWith(node);
  });
  while (parent.childNodes.length > fresh.length) parent.lastChild.remove();
}

function patched(there, node) {
  if (there.nodeType === Node.TEXT_NODE && node.nodeType === Node.TEXT_NODE) {
    if (there.data !== node.data) there.data = node.data;
    return true;
  }
  if (there.key !== node.key || !there.cloneNode(false).isEqualNode(node.cloneNode(false))) return false;
  if (node.key === undefined) reconcile(there, [...node.childNodes]);
  return true;
}
