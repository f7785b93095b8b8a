// The file of a SentencePiece model: a protocol buffer.

const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const BPE = 2;

/**
 * @param {Uint8Array} file
 * @returns its pieces in order (text, score, kind).
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
  if (trainer[24] || rules[5] === 0 || rules[3] === 0 || rules[2]?.length) {
    throw new Error("spm.model changes text, or marks words, in another way than this page knows");
  }
  return pieces;
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
