// The sources of an answer's words. Pure: offsets in, runs out; all offsets are code points.
//
// Two inputs are merged. Spans of token events name the source of accepted draft tokens, while the answer streams.
// Citations of the finished answer name the passages that contain its words, however they were decoded. A citation of
// kind "copied" replaces spans; one of kind "retrieved" only marks words that have no other source.

import { isoDay, t } from "../language.js";

const IN_WORDS = /[\p{L}\p{N}]/u;
const WHOLE = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Extended_Pictographic}]/u;
const BRIDGE = 32; // longest gap, in code points, that is closed if the source has the same text there

/**
 * The runs of an answer, from its start to its end.
 *
 * @param points the answer's code points.
 * @param spans of its token events. @param citations null while it runs.
 * @param passages of the answer. @param earlier returns the text of an earlier answer by its id.
 * @returns [{start, end, text, mark}]. `mark` is null for words without a source, else {kind, cited, passage?, from?,
 *   to?, ...}: `passage` is an index into `passages`, `from` and `to` are offsets into the passage's text.
 */
export function runs(points, spans, citations, passages, earlier = () => null) {
  const indices = new Map(passages.map((passage, index) => [key(passage), index]));
  const owner = new Int32Array(points.length).fill(-1);
  const marks = [];
  const paint = (mark, onlyFree) => {
    const number = marks.push(mark) - 1;
    for (let at = mark.start; at < Math.min(mark.end, points.length); at++) {
      if (!onlyFree || owner[at] < 0) owner[at] = number;
    }
  };
  const marksOfSpans = spans.map((span) => drafted(span, indices, passages));
  for (const mark of bridged(marksOfSpans, points, passages, earlier)) paint(mark, false);
  const cited = (citations ?? []).map((citation) => citedMark(citation, indices, passages)).filter(Boolean);
  for (const mark of cited.filter((one) => one.cited === "copied")) paint(mark, false);
  for (const mark of cited.filter((one) => one.cited === "retrieved")) paint(mark, true);

  const result = [];
  for (let at = 0; at < points.length;) {
    let end = at + 1;
    while (end < points.length && owner[end] === owner[at]) end++;
    const mark = owner[at] < 0 ? null : marks[owner[at]];
    const text = points.slice(at, end).join("");
    const quotes = mark?.cited === "copied" || (mark?.cited && !IN_WORDS.test(text)); // what else is cited begins a word
    result.push({ start: at, end, text, mark: quotes || hasWord(points, at, end) ? mark : null });
    at = end;
  }
  return result;
}

const digit = (points, at) => /\p{N}/u.test(points[at] ?? "");
const inWord = (points, at) => IN_WORDS.test(points[at] ?? "")
  || (/[.,]/.test(points[at] ?? "") && digit(points, at - 1) && digit(points, at + 1));

/** Whether a stretch has a whole word, or a character of a script without spaces, or a picture: a part of a word, such
 * as a digit of a number, says nothing of where it is from. */
function hasWord(points, start, end) {
  for (let at = start; at < end; at++) {
    if (WHOLE.test(points[at]) && !digit(points, at)) return true;
    if (!inWord(points, at) || inWord(points, at - 1)) continue;
    let past = at + 1;
    while (inWord(points, past)) past++;
    if (past <= end) return true;
  }
  return false;
}

/** The end of the word that goes on at a place, else that place. */
function wordEnd(points, end) {
  const goesOn = (at) => inWord(points, at) || /\p{M}/u.test(points[at] ?? "")
    || (/['’]/.test(points[at] ?? "") && IN_WORDS.test(points[at + 1] ?? ""));
  let past = end;
  if (IN_WORDS.test(points[end - 1] ?? "")) while (goesOn(past) && !WHOLE.test(points[past])) past++;
  return past;
}

/** The runs behind which the number of their passage stands: {number, passage, end}, `end` of the word that each ends with or in. */
export function numbered(runsOfAnswer) {
  const points = runsOfAnswer.flatMap(({ text }) => Array.from(text));
  const last = new Map(runsOfAnswer.map(({ mark }, number) => [mark, number]));
  return runsOfAnswer.flatMap(({ mark, end }, number) => {
    const next = runsOfAnswer[number + 1]?.mark;
    if (!mark?.cited || last.get(mark) !== number || (next?.cited && next.passage === mark.passage)) return [];
    return [{ number, passage: mark.passage, end: wordEnd(points, end) }];
  });
}

const key = (one) => `${one.collection ?? ""}\n${one.chunk_id}`;

function drafted(span, indices, passages) {
  const mark = { start: span.answer_start, end: span.answer_end, kind: span.kind, drafter: span.drafter, cited: null };
  if (span.kind === "passage" && indices.has(key(span))) {
    mark.passage = indices.get(key(span));
    const base = passages[mark.passage].source_start;
    if (span.source_start !== undefined) {
      mark.from = span.source_start - base;
      mark.to = span.source_end - base;
    }
  } else if (span.answer_id !== undefined) {
    mark.answer = span.answer_id;
    mark.from = span.source_start;
    mark.to = span.source_end;
  }
  return mark;
}

function citedMark(citation, indices, passages) {
  if (!indices.has(key(citation))) return null;
  const passage = indices.get(key(citation));
  const base = passages[passage].source_start;
  return {
    start: citation.answer_start, end: citation.answer_end, kind: "passage", cited: citation.kind, passage,
    from: Math.max(0, citation.source_start - base), to: citation.source_end - base,
  };
}

/** Joins neighbouring spans of one source if the source has the same text between them as the answer. */
function bridged(marks, points, passages, earlier) {
  const texts = new Map();
  const source = (mark) => {
    const name = mark.passage ?? mark.answer;
    if (!texts.has(name)) texts.set(name, Array.from((mark.answer ? earlier(name) : passages[name].text) ?? ""));
    return texts.get(name);
  };
  const same = (a, b) => a.kind === b.kind && a.passage === b.passage && a.answer === b.answer;
  const joined = [];
  for (const mark of marks) {
    const last = joined.at(-1);
    if (!last || !same(last, mark)) {
      joined.push({ ...mark });
      continue;
    }
    const gap = mark.start - last.end;
    const hasOffsets = last.to !== undefined && mark.from !== undefined;
    if (hasOffsets ? gap >= 0 && gap <= BRIDGE && mark.from - last.to === gap
      && points.slice(last.end, mark.start).every((point, at) => point === source(mark)[last.to + at])
      : mark.passage === undefined && mark.answer === undefined && gap === 0) {
      last.end = mark.end;
      if (hasOffsets) last.to = mark.to;
    } else {
      joined.push({ ...mark });
    }
  }
  return joined;
}

const KINDS = {
  answer: "an earlier answer", edited: "the previous version", prediction: "the expected answer",
  question: "your question", itself: "its own words above", neural: "guesses of the model",
  store: "an earlier answer to someone else", instruction: "your instruction",
};

/** The same on their own, as titles. */
const TITLES = {
  answer: "An earlier answer", edited: "The previous version", prediction: "The expected answer",
  question: "Your question", itself: "This answer itself", neural: "Guesses of the model",
  store: "An earlier answer to someone else", instruction: "Your instruction",
};

/** The headings above a passage, outermost first, without the column names of a table that goes on in it. */
export function headingsOf(passage) {
  const headings = (passage.heading ?? "").split(" > ").filter(Boolean);
  return headings.at(-1)?.includes(" | ") ? headings.slice(0, -1) : headings;
}

/** The names of the columns of a table that goes on in a passage. */
export function columnsOf(passage) {
  const last = (passage.heading ?? "").split(" > ").at(-1);
  return last.includes(" | ") ? last.split(" | ") : [];
}

/** The name of the file that a document was made from, by its id; the id, if it has no digest behind a name. */
export const fileOf = (documentId) => documentId.replace(/-[0-9a-f]{10}$/, "");

/** Whether a passage's title does not tell its document from another one among `passages`. */
export const hasTwin = (passage, passages) =>
  passages.some((other) => other.title === passage.title && other.document_id !== passage.document_id);

/**
 * The place of a passage: the headings below the title, and the page. Before them the file, as the document's id names it,
 * if another document among `passages` has the same title.
 */
export function placeOf(passage, passages) {
  const file = hasTwin(passage, passages) ? fileOf(passage.document_id) : null;
  const headings = headingsOf(passage).filter((heading) => heading !== passage.title);
  return [file, headings.join(" › "), passage.page ? t("page {n}", { n: String(passage.page) }) : null,
    passage.date ? isoDay(passage.date) : null].filter(Boolean).join(" · ");
}

/** The source of a mark, in words. */
export function described(mark, passages) {
  if (mark.passage === undefined) return t(KINDS[mark.kind] ?? "the prompt");
  const passage = passages[mark.passage];
  return t("source {n}, {place}",
    { n: mark.passage + 1, place: [passage.title, placeOf(passage, passages)].filter(Boolean).join(", ") });
}

/** The sources of an answer's runs, each once: passages by number, then the other kinds. */
export function legend(runsOfAnswer) {
  const passages = new Map();
  const kinds = new Set();
  for (const { mark } of runsOfAnswer) {
    if (!mark) continue;
    if (mark.passage !== undefined) {
      passages.set(mark.passage, (passages.get(mark.passage) ?? false) || Boolean(mark.cited));
    } else kinds.add(mark.kind in TITLES ? mark.kind : "prompt");
  }
  return { passages: [...passages].sort((a, b) => a[0] - b[0]), kinds: [...kinds] };
}

/** What words are from that are from no passage, as a title. */
export const kindName = (kind) => t(TITLES[kind] ?? "The prompt");
