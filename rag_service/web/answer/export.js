// An answer, or a conversation, as Markdown with the numbers of its sources. Pure, but for `fileNames` and `save`.

import { documentPath, json } from "../api.js";
import { el } from "../dom.js";
import { fileOf, hasTwin, numbered, placeOf } from "./provenance.js";
import { day, t } from "../language.js";

const documentOf = (passage) => `${passage.collection ?? ""}\n${passage.document_id}`;

/**
 * The names that the files of cited documents have by now, for `withSources`: a document keeps its id when another file
 * takes its place. Those of deleted documents are missing.
 * @param runs of provenance.js. @param collection of passages that name none. @param asked names by path, of other answers
 * too: a document is read once.
 */
export async function fileNames(runs, passages, collection, asked = new Map()) {
  const cited = new Map(numbered(runs).map(({ passage }) => [documentOf(passages[passage]), passages[passage]]));
  const found = await Promise.all([...cited].map(async ([key, passage]) => {
    const from = passage.collection || collection;
    const path = from ? documentPath(from, passage.document_id) : null;
    if (path && !asked.has(path)) asked.set(path, json("GET", path).then(({ name }) => name, () => null));
    const name = path ? await asked.get(path) : null;
    return name ? [[key, name]] : [];
  }));
  return new Map(found.flat());
}

/** An answer with the numbers of its citations in it, and its sources below. @param runs of provenance.js. @param names of files. */
export function withSources(runs, passages, names = new Map()) {
  const points = runs.flatMap(({ text: words }) => Array.from(words));
  const cited = new Set();
  let [text, from] = ["", 0];
  for (const { passage, end } of numbered(runs)) {
    cited.add(passage);
    const words = points.slice(from, end).join("");
    const space = /\s*$/.exec(words)[0]; // the number stands behind the last word
    text += `${words.slice(0, words.length - space.length)} [${passage + 1}]${space}`;
    from = end;
  }
  text += points.slice(from).join("");
  if (!cited.size) return text;
  const sources = [...cited].sort((a, b) => a - b).map((index) => {
    const passage = passages[index];
    const file = names.get(documentOf(passage)) ?? fileOf(passage.document_id);
    const name = file !== passage.title ? file : hasTwin(passage, passages) ? passage.document_id : null;
    return `[${index + 1}] ${[passage.title, placeOf(passage, []), name,
      passage.changed ? t("changed or deleted since") : null].filter(Boolean).join(" · ")}`;
  });
  return `${text}\n\n${t("Sources")}:\n\n${sources.map((source) => `* ${source}`).join("\n")}`;
}

const LONGEST_NAME = 60;

/** A conversation: its first question as the title, a date, later questions as headings. @param turns [{question, instruction, answer}]. */
export function conversationText(turns, date) {
  return turns.map(({ question, instruction, answer }, at) => {
    const heading = at ? `## ${oneLine(question)}` : `# ${oneLine(question)}\n\n*${day(date)}*`;
    const changed = instruction ? `*${t("Changed: {instruction}", { instruction })}*\n\n` : "";
    return `${heading}\n\n${changed}${answer}\n`;
  }).join("\n");
}

const oneLine = (text) => text.trim().replace(/\s+/g, " ");

/** The name of a conversation's file: words of its first question, in any script, and the date. */
export function fileName(question, date) {
  const two = (number) => String(number).padStart(2, "0");
  const end = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}.md`;
  const room = LONGEST_NAME - end.length - 1;
  const words = question.normalize("NFC").match(/[\p{L}\p{M}\p{N}]+/gu) ?? [];
  let name = "";
  for (const word of words) {
    if (name && name.length + word.length >= room) break;
    name += name ? `-${word}` : word;
  }
  return [cut(name, room) || "conversation", end].join("-");
}

/** The beginning of a text, at most so many code units, with whole characters. */
function cut(text, most) {
  let short = "";
  for (const { segment } of new Intl.Segmenter().segment(text)) {
    if (short.length + segment.length > most) break;
    short += segment;
  }
  return short;
}

/** Offers a text (of Markdown) or a blob as a file. */
export function save(name, content) {
  const blob = content instanceof Blob ? content : new Blob([content], { type: "text/markdown;charset=utf-8" });
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url, download: name, hidden: true });
  document.body.append(link);
  link.click();
  link.remove();
  URL.revokeObjectURL(url);
}
