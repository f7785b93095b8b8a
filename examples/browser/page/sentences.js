// Lines of several sentences, as sentences.py of the runtime divides and joins them.

import { SPACE, WHITE_SPACE } from "./text.js";

const BOUND = 40; // pieces of a part
const CLOSING = "[\"'”’»›)\\]}」』）】》〉]";
const S = `[${WHITE_SPACE}]`;
const TAG = S + "*</[\\p{L}\\p{N}_:-]+" + S + "*>|<br" + S + "*/?>";
const END = new RegExp(
  `(?:[。｡！？।॥؟۔։።။།]+|．+(?!\\p{Nd}))${CLOSING}*(?:${TAG})*${S}*` +
    `|(?<![.!?…])[.!?…]+(?:[^\\p{L}\\p{N}_${WHITE_SPACE}.!?…,;:=/<>[\\-]|[_¹²³⁰⁴-⁹]` +
    `|${TAG}|\\[[^\\[\\]]{1,20}\\])*` +
    `(?:${S}»(?=${S}))?(?:${S}+(?!${S}|[.!?…]+(?:${S}|$)|</)` +
    `|(?<=>)(?=[\\p{L}\\p{N}_]|<(?!/)))` +
    `|;${S}+(?!${S}|</)|[；؛]${S}*|(?<!${S})${S}+(?=[•·▪|*]${S})|(?<!${S})${S}*\n${S}*`,
  "gu",
);
const OPEN = /<[/A-Za-z][^<>]*$/; // a tag, if it ends soon: not n<5, x<y
const TAG_END = /^[^<>]{0,300}>/u;
const ENTITY = /&(?:#[\p{L}\p{N}_]+|[a-zA-Z][\p{L}\p{N}_]+);$/u;
const UNSURE = new RegExp(`${CLOSING}$|…|\\.\\.`, "u");
const TRAILING = new RegExp(`${S}+$`, "u");
const SMALL = /^\p{Changes_When_Titlecased}/u; // Georgian letters are their own title case
const NUMBER = /^(?:\p{Nd}{1,3}|[IVXLC]+)$/u;
const ABBREVIATED = /^(?:.*\..*|[b-df-hj-np-tv-xz]+)$/iu;
const SHORTENED = /^(?:app?rox|in[ck]l|evtl|resp|abzgl|env|n[uú]m|p[aá]g)$/iu;
const CONTINUED = /^<0x[89AB].>$/; // a byte of UTF-8 within a character
const UNSPACED =
  /^[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff9f\u{20000}-\u{3ffff}]/u;
const LETTERS = /[\p{L}\p{N}]/gu;

/** The sentences of a line, each with the white space behind it, and how sure its end is, 2 to 0. */
export function sentences(line) {
  const found = [];
  let start = 0;
  for (const { 0: end, index } of line.matchAll(END)) {
    const next = index + end.length;
    if (next === line.length) break;
    const before = [...line.slice(Math.max(start, index - 600), index + 1)].slice(-301);
    const [word] = /[\p{L}\p{N}_.\u0300-\u036f\u0900-\u0dff]*$/u.exec(before.slice(-51, -1).join(""));
    const sure = ends(word, end.replace(TRAILING, ""), line.slice(next, next + 2));
    const text = before.join("");
    const inside = OPEN.test(text) && TAG_END.test(line.slice(index, index + 602));
    if (sure !== null && !inside && !ENTITY.test(text)) {
      found.push([line.slice(start, next), sure]);
      start = next;
    }
  }
  return [...found, [line.slice(start), 2]];
}

/** How sure the end of a sentence is; null if it does not end. */
function ends(word, end, after) {
  if (["", ";", "；", "؛"].includes(end)) return 0;
  if (")]}".includes(after[0]) || (end === "." && SHORTENED.test(word))) return null;
  const small = SMALL.test(after);
  const { length } = word.match(LETTERS) ?? [];
  if (end === "." && length) {
    const number = /^\p{Nd}/u.test(after);
    if (length === 1 || (number && length < 5) || NUMBER.test(word)) return null;
    if (small || ABBREVIATED.test(word)) return length > (isUpper(word) ? 2 : 3) ? 0 : null;
    return length > 5 && !number ? 2 : 1;
  }
  return small ? 0 : UNSURE.test(end) ? 1 : 2;
}

// as Python's isupper
const isUpper = (word) => /\p{Uppercase}/u.test(word) && !/[\p{Lowercase}\p{Lt}]/u.test(word);

/** The parts of a line as pieces, none of a blank line. */
export function split(line, encode, limit) {
  const pieces = encode(line);
  const bound = Math.min(BOUND, limit);
  if (pieces.length <= bound) return pieces.length ? [pieces] : [];
  const found = sentences(line);
  const lengths = found.map(([text]) => encode(text).length);
  const parts = [];
  for (let start = 0, stop; start < found.length; start = stop) {
    let length = lengths[start];
    for (stop = start + 1; length + lengths[stop] <= bound; stop++) length += lengths[stop];
    const sure = found.slice(start, stop).map((sentence) => sentence[1]);
    stop = start + sure.lastIndexOf(Math.max(...sure)) + 1;
    parts.push(encode(found.slice(start, stop).map(([text]) => text).join("")));
  }
  return parts.flatMap((part) => (part.length > limit ? cut(part, bound) : part.length ? [part] : []));
}

/** Parts of at most so many pieces that end where a word begins, if one does, or a character. */
function cut(pieces, most) {
  if (pieces.length <= most) return [pieces];
  const last = (begins) => pieces.findLastIndex((piece, at) => at > 0 && at <= most && begins(piece));
  const word = last((piece) => piece.startsWith(SPACE));
  const character = last((piece) => !CONTINUED.test(piece));
  const at = [word, character, most].find((place) => place > 0);
  return [pieces.slice(0, at), ...cut(pieces.slice(at), most)];
}

/** The translations of the parts of a line, with spaces between where the script has them. */
export function join(texts) {
  return texts.filter(Boolean).reduce((joined, text) => {
    const last = [...joined.replace(/["'”’»)\]]+$/u, "")].at(-1) ?? "";
    // signs, quotes and emoji may stand between
    const letters = [joined.match(LETTERS)?.at(-1) ?? "", text.match(LETTERS)?.[0] ?? ""];
    const unspaced =
      UNSPACED.test("…—".includes(last) ? text : last) ||
      letters.every((letter) => UNSPACED.test(letter));
    return !joined || unspaced ? joined + text : `${joined} ${text}`;
  }, "");
}
