// SentencePiece in JavaScript: cuts lines into the pieces of a model.

import { normaliser, readModel } from "./sentencepiece_model.js";
import { oneLine, splitWords } from "./text.js";

export const SPACE = "\u2581"; // begins a word
const SPECIAL = new Set(["<s>", "<pad>", "</s>", "<unk>"]); // the symbols of fairseq
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6; // kinds of pieces
const BYTES = /(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)/g; // spell a rare character

export class Subwords {
  /**
   * @param {Uint8Array} file of SentencePiece, byte-pair encoding.
   * @throws {Error} in one line, if it is no such model, or has what this page does not know.
   */
  constructor(file) {
    const model = readModel(file);
    this.normalise = normaliser(model);
    this.scores = new Map();
    this.controls = new Set();
    this.spells = false; // whether unknown characters are spelled in bytes
    for (const { piece, score, type } of model.pieces) {
      if (type === NORMAL) this.scores.set(piece, score);
      else if (type === CONTROL) this.controls.add(piece);
      else if (type === BYTE) this.spells = true;
      else if (type !== UNKNOWN) {
        throw new Error(`spm.model has pieces of kind ${type}, which this page does not know`);
      }
    }
    if (model.type !== "bpe") throw new Error("spm.model is not BPE, which this page needs");
    this.cut = byMerging(this.scores);
  }

  /** The pieces of a line, as fairseq reads them. */
  encode(line) {
    const pieces = [];
    let afterUnknown = false;
    for (const piece of this.cut([...this.normalise(oneLine(line))])) {
      const unknown = !this.scores.has(piece);
      if (unknown && this.spells) pieces.push(...spelled(piece));
      // neighbours that are unknown are one piece
      else if (unknown && afterUnknown) pieces.push(pieces.pop() + piece);
      else pieces.push(piece);
      afterUnknown = unknown;
    }
    // what stands in the text for a symbol of fairseq is no such symbol
    const plain = pieces.flatMap((piece) => (this.isSymbol(piece) ? [...piece] : [piece]));
    return splitWords(plain.join(" "));
  }

  isSymbol(piece) {
    return SPECIAL.has(piece) && !this.scores.has(piece) && !this.controls.has(piece);
  }
}

/** The text of pieces. */
export function decode(pieces) {
  const shown = pieces.join(" ").replace(BYTES, (run) => {
    const bytes = run.match(/[0-9A-F]{2}/g).map((byte) => parseInt(byte, 16));
    return oneLine(new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(bytes)));
  });
  return oneLine(shown.replaceAll(" ", "").replaceAll(SPACE, " "));
}

function spelled(text) {
  const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");
  return Array.from(new TextEncoder().encode(text), (byte) => `<0x${hex(byte)}>`);
}

/**
 * Byte-pair encoding: of all neighbours that make a piece, those with the best score are merged,
 * the leftmost of equals first.
 */
function byMerging(scores) {
  const jointScore = (pieces, left) =>
    left + 1 < pieces.length ? scores.get(pieces[left] + pieces[left + 1]) : undefined;
  return (characters) => {
    const pieces = [...characters];
    const joint = pieces.map((_, left) => jointScore(pieces, left));
    for (;;) {
      let best = -1;
      for (let left = 0; left < pieces.length - 1; left++) {
        if (joint[left] !== undefined && (best < 0 || joint[left] > joint[best])) best = left;
      }
      if (best < 0) return pieces;
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
      joint.splice(best, 1);
      joint[best] = jointScore(pieces, best);
      if (best > 0) joint[best - 1] = jointScore(pieces, best - 1);
    }
  };
}
