// SentencePiece in JavaScript: cuts lines into the pieces of a model.

import { normaliser, readModel } from "./sentencepiece_model.js";
import { oneLine, splitWords } from "./text.js";

export const SPACE = "\u2581"; // begins a word
const SPECIAL = new Set(["<s>", "<pad>", "</s>", "<unk>"]); // the symbols of fairseq
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, BYTE = 6; // kinds of pieces
const BYTES = /(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)/g; // spell a rare character
const UNKNOWN_PENALTY = 10; // as in SentencePiece

export class Subwords {
  /**
   * @param {Uint8Array} file of SentencePiece, BPE or unigram.
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
    const makeCutter = { unigram: byLikelihood, bpe: byMerging }[model.type];
    if (!makeCutter) throw new Error("spm.model is neither BPE nor unigram, which this page needs");
    this.cut = makeCutter(this.scores);
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

/** The most likely pieces of a unigram model (Viterbi), in float32 as in SentencePiece. */
function byLikelihood(scores) {
  const longest = [...scores.keys()].reduce((most, piece) => Math.max(most, piece.length), 1);
  const least = [...scores.values()].reduce((low, score) => Math.min(low, score), Infinity);
  return (characters) => {
    const best = [{ score: 0, start: 0 }]; // of the pieces that end before each character
    const offer = (end, start, score) => {
      const total = Math.fround(score + best[start].score);
      if (!best[end] || total > best[end].score) best[end] = { score: total, start };
    };
    for (let start = 0; start < characters.length; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(start + longest, characters.length); end++) {
        piece += characters[end - 1];
        if (scores.has(piece)) offer(end, start, scores.get(piece));
      }
      if (!scores.has(characters[start])) offer(start + 1, start, least - UNKNOWN_PENALTY);
    }
    const pieces = [];
    for (let end = characters.length; end > 0; end = best[end].start) {
      pieces.unshift(characters.slice(best[end].start, end).join(""));
    }
    return pieces;
  };
}
