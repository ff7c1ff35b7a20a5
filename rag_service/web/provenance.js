// Which words of an answer came from where. Pure: offsets in, runs out; all offsets are code points.
//
// Two kinds of evidence meet here. Spans of token events say what was drafted from where and confirmed; they come while
// the answer streams. Citations of the finished answer say what stands in a passage, however it was decoded. Where
// both say whence words were copied, citations win; that a passage supports a sentence marks its plain words alone.

const BRIDGE = 32; // most code points of a gap that the source itself fills

/**
 * Runs of an answer that cover it from start to end.
 *
 * @param points the answer's code points.
 * @param spans of its token events; @param citations null while it runs.
 * @param passages as the answer lists them. @param earlier finds the text of an earlier answer by its id.
 * @returns [{start, end, text, mark}], `mark` null for plain words, else {kind, cited, passage?, from?, to?, ...}:
 *   `passage` is an index into `passages`, `from` and `to` are offsets into that passage's text.
 */
export function runs(points, spans, citations, passages, earlier = () => null) {
  const places = new Map(passages.map((passage, index) => [key(passage), index]));
  const owner = new Int32Array(points.length).fill(-1);
  const marks = [];
  const paint = (mark, free) => {
    const number = marks.push(mark) - 1;
    for (let at = mark.start; at < Math.min(mark.end, points.length); at++) {
      if (!free || owner[at] < 0) owner[at] = number;
    }
  };
  const marked = spans.map((span) => drafted(span, places, passages));
  for (const mark of bridged(marked, points, passages, earlier)) paint(mark, false);
  const cited = (citations ?? []).map((citation) => citedMark(citation, places, passages)).filter(Boolean);
  for (const mark of cited.filter((one) => one.cited === "copied")) paint(mark, false);
  for (const mark of cited.filter((one) => one.cited === "retrieved")) paint(mark, true);

  const found = [];
  for (let at = 0; at < points.length;) {
    let end = at + 1;
    while (end < points.length && owner[end] === owner[at]) end++;
    found.push({ start: at, end, text: points.slice(at, end).join(""), mark: owner[at] < 0 ? null : marks[owner[at]] });
    at = end;
  }
  return found;
}

const key = (one) => `${one.document_id}\n${one.chunk_id}`;

function drafted(span, places, passages) {
  const mark = { start: span.answer_start, end: span.answer_end, kind: span.kind, drafter: span.drafter, cited: null };
  if (span.kind === "passage" && places.has(key(span))) {
    mark.passage = places.get(key(span));
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

function citedMark(citation, places, passages) {
  if (!places.has(key(citation))) return null;
  const passage = places.get(key(citation));
  const base = passages[passage].source_start;
  return {
    start: citation.answer_start, end: citation.answer_end, kind: "passage", cited: citation.kind, passage,
    from: Math.max(0, citation.source_start - base), to: citation.source_end - base,
  };
}

/** Neighbouring spans of one source become one where the source goes on between them just as the answer does. */
function bridged(marks, points, passages, earlier) {
  const texts = new Map();
  const source = (mark) => {
    const name = mark.passage ?? mark.answer;
    if (!texts.has(name)) texts.set(name, Array.from((mark.answer ? earlier(name) : passages[name].text) ?? ""));
    return texts.get(name);
  };
  const same = (a, b) => a.kind === b.kind && a.passage === b.passage && a.answer === b.answer;
  const found = [];
  for (const mark of marks) {
    const last = found.at(-1);
    if (!last || !same(last, mark)) {
      found.push({ ...mark });
      continue;
    }
    const gap = mark.start - last.end;
    const placed = last.to !== undefined && mark.from !== undefined;
    if (placed ? gap >= 0 && gap <= BRIDGE && mark.from - last.to === gap
      && points.slice(last.end, mark.start).every((point, at) => point === source(mark)[last.to + at])
      : mark.passage === undefined && mark.answer === undefined && gap === 0) {
      last.end = mark.end;
      if (placed) last.to = mark.to;
    } else {
      found.push({ ...mark });
    }
  }
  return found;
}

const KINDS = {
  answer: "an earlier answer", edited: "the answer before this change", prediction: "the expected answer",
  question: "your question", itself: "its own words above", neural: "a draft model's guess",
  store: "an earlier answer to someone else", instruction: "your instruction",
};

/** Where in its document a passage stands: headings below the title, and the page. */
export function placeOf(passage) {
  const headings = (passage.heading ?? "").split(" > ").filter((heading) => heading && heading !== passage.title);
  return [headings.join(" › "), passage.page ? `page ${passage.page}` : null].filter(Boolean).join(" · ");
}

/** Where a mark's words came from, for people. */
export function described(mark, passages) {
  if (mark.passage === undefined) return KINDS[mark.kind] ?? "the prompt";
  const passage = passages[mark.passage];
  return `source ${mark.passage + 1}, ${[passage.title, placeOf(passage)].filter(Boolean).join(", ")}`;
}

/** What an answer's runs came from, each once: passages by their number, then the other kinds. */
export function legend(found) {
  const passages = new Map();
  const kinds = new Set();
  for (const { mark } of found) {
    if (!mark) continue;
    if (mark.passage !== undefined) {
      passages.set(mark.passage, (passages.get(mark.passage) ?? false) || Boolean(mark.cited));
    } else if (KINDS[mark.kind]) kinds.add(mark.kind);
  }
  return { passages: [...passages].sort((a, b) => a[0] - b[0]), kinds: [...kinds] };
}

export const kindName = (kind) => KINDS[kind];
