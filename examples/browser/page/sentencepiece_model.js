// The file of a SentencePiece model: a protocol buffer of pieces, and how text is normalised.

const ENCODER = new TextEncoder();
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const TYPES = { 1: "unigram", 2: "bpe", 3: "word", 4: "char" };
const SPACE = "\u2581";

/**
 * @param {Uint8Array} file
 * @returns its type, its pieces in order (piece, score, type), and the rules of normalisation.
 * @throws {Error} in one line, if the file is no such model.
 */
export function readModel(file) {
  const model = { type: "unigram", pieces: [], charsmap: new Uint8Array() };
  Object.assign(model, { dummyPrefix: true, removeSpaces: true, escapeSpaces: true });
  for (const [field, value] of fields(file)) {
    if (field === 1) model.pieces.push(readPiece(value));
    if (field === 2) readTrainer(value, model);
    if (field === 3) readNormaliser(value, model);
  }
  if (!model.pieces.length) throw new Error("spm.model is not a SentencePiece model");
  return model;
}

function readPiece(bytes) {
  const found = { piece: "", score: 0, type: 1 };
  for (const [field, value] of fields(bytes)) {
    if (field === 1) found.piece = DECODER.decode(value);
    if (field === 2) found.score = value;
    if (field === 3) found.type = value;
  }
  return found;
}

function readTrainer(bytes, model) {
  for (const [field, value] of fields(bytes)) {
    if (field === 3) model.type = TYPES[value];
    if (field === 24 && value) {
      throw new Error("spm.model marks the end of words, but this page knows marked beginnings");
    }
  }
}

function readNormaliser(bytes, model) {
  for (const [field, value] of fields(bytes)) {
    if (field === 2) model.charsmap = value;
    if (field === 3) model.dummyPrefix = Boolean(value);
    if (field === 4) model.removeSpaces = Boolean(value);
    if (field === 5) model.escapeSpaces = Boolean(value);
  }
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
    const kind = key % 8;
    if (kind === 0) yield [field, number()];
    else if (kind === 1) skip(8);
    else if (kind === 2) {
      const length = number();
      const start = skip(length);
      yield [field, bytes.subarray(start, start + length)];
    } else if (kind === 5) yield [field, view.getFloat32(skip(4), true)];
    else throw new Error("spm.model is not a SentencePiece model");
  }
}

/**
 * The normalisation of a model, from text to text with SPACE for every space: each longest match
 * in the table of characters is replaced, and spaces at the ends and in rows are removed.
 */
export function normaliser({ charsmap, dummyPrefix, removeSpaces, escapeSpaces }) {
  const longestMatch = matcher(charsmap);
  return (text) => {
    const bytes = ENCODER.encode(text);
    const parts = [];
    let afterSpace = removeSpaces; // as at the beginning
    for (let at = 0; at < bytes.length; ) {
      let { length, replacement } = longestMatch(bytes, at);
      at += length;
      if (afterSpace) replacement = replacement.replace(/^ +/, "");
      if (replacement === "") continue;
      parts.push(replacement);
      afterSpace = removeSpaces && replacement.endsWith(" ");
    }
    if (!parts.length) return "";
    const normal = `${dummyPrefix ? " " : ""}${parts.join("")}`;
    const escaped = escapeSpaces ? normal.replaceAll(" ", SPACE) : normal;
    return removeSpaces ? escaped.replace(escapeSpaces ? /\u2581+$/u : / +$/u, "") : escaped;
  };
}

/**
 * What replaces the bytes at a place.
 *
 * The table is a size, a trie in a double array (as the library Darts-clone writes it), and the
 * replacements, each ended by a zero byte.
 */
function matcher(charsmap) {
  const trie = [];
  let replacements = new Uint8Array();
  if (charsmap.length) {
    const view = new DataView(charsmap.buffer, charsmap.byteOffset, charsmap.byteLength);
    const size = view.getUint32(0, true);
    for (let at = 4; at < 4 + size; at += 4) trie.push(view.getUint32(at, true));
    replacements = charsmap.subarray(4 + size);
  }
  const offset = (unit) => (unit >>> 10) << ((unit & 512) >>> 6);
  return (bytes, start) => {
    let found = null;
    if (trie.length) {
      let node = offset(trie[0]);
      for (let at = start; at < bytes.length; at++) {
        node ^= bytes[at];
        const unit = trie[node];
        if (unit === undefined || (unit & 0x800000ff) !== bytes[at]) break;
        node ^= offset(unit);
        if (unit & 256) found = { length: at + 1 - start, value: trie[node] & 0x7fffffff };
      }
    }
    if (found) {
      const end = replacements.indexOf(0, found.value);
      const replacement = DECODER.decode(replacements.subarray(found.value, end));
      return { length: found.length, replacement };
    }
    const length = characterLength(bytes[start]);
    return { length, replacement: DECODER.decode(bytes.subarray(start, start + length)) };
  };
}

function characterLength(first) {
  if (first < 0x80) return 1;
  if (first < 0xe0) return 2;
  return first < 0xf0 ? 3 : 4;
}
