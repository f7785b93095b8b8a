// Lines of several sentences, as sentences.py of the runtime divides and joins them.

import { SPACE, WHITE_SPACE } from "./text.js";

const BOUND = 80; // pieces of a part
const CLOSING = "[\"'”’»›)\\]}」』）】》〉]";
const S = `[${WHITE_SPACE}]`;
const END = new RegExp(
  `(?:[。｡！？।॥؟۔։።။។།]+|．+(?!\\p{Nd}))${CLOSING}*${S}*` +
    `|[.!?…]+(?:${CLOSING}|[“‘«‹])*(?:${S}»(?=${S}))?${S}+`,
  "gu",
);
const VOWEL = /[aeiouyàáâãäåæèéêëìíîïòóôõöøùúûüœıąęěůőű]/iu;
// what a point follows that does not end the sentence: words with a vowel; those before a number
const SHORT = new RegExp(
  "^(?:a(?:pprox|pr|ug)|bes|ca(?:pt)?|co(?:l|rp)?|de[cpz]t?|dipl|env|etc|evtl|ext|feb|ge[nb]|gov" +
    "|hon|in[cg]|inkl|jan|jun|jul|ma[gjr]|mio|nov|o[ck]t|op|phil|prof|rep|rev|sen|sept?|sog|usw)$",
  "iu",
);
const NUMBERED = /^(?:a[br]?[bst]|cap|fig|kap|nos?|sec|tel|vol)$/iu;
const UNSPACED =
  /^[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\u{20000}-\u{3ffff}]/u;

/** The sentences of a line, each with the white space behind it. */
export function sentences(line) {
  const found = [];
  let start = 0;
  for (const { 0: end, index } of line.matchAll(END)) {
    const next = index + end.length;
    if (next < line.length && ends(line.slice(start, index), end, line.slice(next))) {
      found.push(line.slice(start, next));
      start = next;
    }
  }
  return [...found, line.slice(start)];
}

function ends(before, end, after) {
  if (!/^[.!?…]/u.test(end)) return true;
  if (/^\p{Lowercase}/u.test(after)) return false;
  const [word] = /[\p{L}\p{N}_.]*$/u.exec(before);
  if (end.replace(RegExp(S, "gu"), "") !== "." || !word) return true;
  const isNumber = /^\p{Nd}+$/u.test(word);
  const { length } = [...word];
  if (word.includes(".") || length === 1 || (isNumber && length < 4)) return false;
  if (SHORT.test(word) || (/^\p{Nd}/u.test(after) && NUMBERED.test(word))) return false;
  return /[^\0-\x7f]/u.test(word) || isNumber || VOWEL.test(word);
}

/** The parts of a line as pieces, none of a blank line. */
export function split(line, encode, limit) {
  const pieces = encode(line);
  const bound = Math.min(BOUND, limit);
  if (pieces.length <= bound) return pieces.length ? [pieces] : [];
  const texts = [""];
  let room = bound;
  for (const sentence of sentences(line)) {
    const { length } = encode(sentence);
    if (length > room) {
      texts.push("");
      room = bound;
    }
    texts.push(texts.pop() + sentence);
    room -= length;
  }
  const parts = texts.map(encode).filter((part) => part.length);
  return parts.flatMap((part) => (part.length > limit ? cut(part, bound) : [part]));
}

/** Parts of at most so many pieces that end where a word begins, if one does. */
function cut(pieces, most) {
  if (pieces.length <= most) return [pieces];
  const word = pieces.findLastIndex((piece, at) => at > 0 && at <= most && piece.startsWith(SPACE));
  const at = word > 0 ? word : most;
  return [pieces.slice(0, at), ...cut(pieces.slice(at), most)];
}

/** The translations of the parts of a line, with spaces between where the script has them. */
export function join(texts) {
  return texts.filter(Boolean).reduce((joined, text) => {
    const last = [...joined.replace(/["'”’»)\]]+$/u, "")].at(-1) ?? "";
    return !joined || UNSPACED.test(last) ? joined + text : `${joined} ${text}`;
  }, "");
}
