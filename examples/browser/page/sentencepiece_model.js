// The file of a SentencePiece model: a protocol buffer of pieces, and how text is normalised.

import { SPACE } from "./text.js";

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const BPE = 2;

/**
 * @param {Uint8Array} file
 * @returns its pieces in order (text, score, kind), and the rules of normalisation.
 * @throws {Error} in one line, if the file is no model that this page can cut with.
 */
export function readModel(file) {
  const pieces = [];
  let [trainer, rules] = [{}, {}];
  for (const [field, value] of fields(file)) {
    if (field === 1) {
      const { 1: text, 2: score = 0, 3: kind = 1 } = Object.fromEntries(fields(value));
      pieces.push({ text: DECODER.decode(text), score, kind });
    }
    if (field === 2) trainer = Object.fromEntries(fields(value));
    if (field === 3) rules = Object.fromEntries(fields(value));
  }
  if (!pieces.length) throw new Error("spm.model is not a SentencePiece model");
  if (trainer[3] !== BPE) throw new Error("spm.model is not BPE, which this page needs");
  if (trainer[24] || rules[5] === 0) {
    throw new Error("spm.model marks words in another way than this page knows");
  }
  const { 2: charsmap = new Uint8Array(), 3: dummyPrefix = 1, 4: removeSpaces = 1 } = rules;
  return { pieces, charsmap, dummyPrefix, removeSpaces };
}

/** The fields of a message: number and value. */
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const skip = (length) => {
    if (at + length > bytes.length) throw new Error("spm.model is cut off");
    at += length;
    return at - length;
  };
  const number = () => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const byte = bytes[skip(1)];
      value += (byte & 127) * scale;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = number();
    const field = Math.floor(key / 8);
    if (key % 8 === 0) yield [field, number()];
    else if (key % 8 === 1) skip(8);
    else if (key % 8 === 2) {
      const length = number();
      const start = skip(length);
      yield [field, bytes.subarray(start, start + length)];
    } else if (key % 8 === 5) yield [field, view.getFloat32(skip(4), true)];
    else throw new Error("spm.model is not a SentencePiece model");
  }
}

/**
 * The normalisation of a model, from text to text with SPACE for every space: each longest match
 * in the table of characters is replaced, and spaces at the ends and in rows are removed.
 */
export function normaliser({ charsmap, dummyPrefix, removeSpaces }) {
  const match = matcher(charsmap);
  return (text) => {
    const bytes = ENCODER.encode(text);
    let normal = "";
    for (let at = 0; at < bytes.length; ) {
      const { length, replacement } = match(bytes, at);
      normal += replacement;
      at += length;
    }
    if (removeSpaces) normal = normal.replace(/^ +|(?<= ) +/gu, "");
    if (normal && dummyPrefix) normal = ` ${normal}`;
    normal = normal.replaceAll(" ", SPACE);
    return removeSpaces ? normal.replace(/\u2581+$/u, "") : normal;
  };
}

/**
 * What replaces the bytes at a place: the text of the longest match, or of one character.
 *
 * The table is a size, a trie in a double array (as the library Darts-clone writes it), and the
 * replacements, each ended by a zero byte.
 */
function matcher(charsmap) {
  const view = new DataView(charsmap.buffer, charsmap.byteOffset, charsmap.byteLength);
  const size = charsmap.length && view.getUint32(0, true);
  const trie = Array.from({ length: size / 4 }, (_, unit) => view.getUint32(4 + 4 * unit, true));
  const replacements = charsmap.subarray(4 + size);
  const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
  return (bytes, start) => {
    const first = bytes[start];
    let [length, from] = [first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4, null];
    let node = trie.length && offset(trie[0]);
    for (let at = start; trie.length && at < bytes.length; at++) {
      node ^= bytes[at];
      const unit = trie[node];
      if (unit === undefined || (unit & 0x800000ff) !== bytes[at]) break;
      node ^= offset(unit);
      if (unit & 256) [length, from] = [at + 1 - start, trie[node] & 0x7fffffff];
    }
    if (from === null) {
      return { length, replacement: DECODER.decode(bytes.subarray(start, start + length)) };
    }
    const end = replacements.indexOf(0, from);
    return { length, replacement: DECODER.decode(replacements.subarray(from, end)) };
  };
}
