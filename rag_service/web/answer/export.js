// An answer, or a conversation, as Markdown with the numbers of its sources. Pure, but for `save`.

import { el } from "../dom.js";
import { placeOf } from "./provenance.js";
import { t } from "../language.js";

/** An answer with the numbers of its citations in it, and its sources below. @param runs of provenance.js. */
export function withSources(runs, passages) {
  const last = new Map(runs.map((run, at) => [run.mark, at]));
  const cited = new Set();
  const text = runs.map(({ text: words, mark }, at) => {
    const next = runs[at + 1]?.mark;
    if (!mark?.cited || last.get(mark) !== at || (next?.cited && next.passage === mark.passage)) return words;
    cited.add(mark.passage);
    const space = /\s*$/.exec(words)[0]; // the number stands behind the last word
    return `${words.slice(0, words.length - space.length)} [${mark.passage + 1}]${space}`;
  }).join("");
  if (!cited.size) return text;
  const sources = [...cited].sort((a, b) => a - b).map((index) => {
    const passage = passages[index];
    return `[${index + 1}] ${[passage.title, placeOf(passage, []), passage.document_id].filter(Boolean).join(" · ")}`;
  });
  return `${text}\n\n${t("Sources")}:\n\n${sources.map((source) => `* ${source}`).join("\n")}`;
}

/** A conversation: its questions as headings. @param turns [{question, instruction, answer}]. */
export function conversationText(turns) {
  return turns.map(({ question, instruction, answer }) => {
    const changed = instruction ? `*${t("Changed: {instruction}", { instruction })}*\n\n` : "";
    return `## ${question.replace(/\s+/g, " ")}\n\n${changed}${answer}\n`;
  }).join("\n");
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
