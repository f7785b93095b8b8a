// SentencePiece in JavaScript: cuts lines into the pieces of a model.

import { readModel } from "./sentencepiece_model.js";
import { SPACE, oneLine, plain, withoutControls } from "./text.js";

const SPECIAL = new Set(["<s>", "<pad>", "</s>", "<unk>"]); // the symbols of fairseq
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, UNUSED = 5, BYTE = 6; // kinds of pieces
const DECODER = new TextDecoder("utf-8", { ignoreBOM: true });
const BYTES = /(?<!\S)<0x[0-9A-F]{2}>( <0x[0-9A-F]{2}>)*(?!\S)/g; // spell a rare character

export class Subwords {
  /**
   * @param {Uint8Array} file of SentencePiece, byte-pair encoding.
   * @throws {Error} in one line, if it is no such model, or has what this page does not know.
   */
  constructor(file) {
    const model = readModel(file);
    const ofKind = (wanted) => model.filter(({ kind }) => kind === wanted);
    const unused = ofKind(UNUSED);
    const merged = [...ofKind(NORMAL), ...unused];
    this.scores = new Map(merged.map(({ text, score }) => [text, score]));
    this.spells = ofKind(BYTE).length > 0; // unknown characters, in bytes
    const other = model.find(({ kind }) => ![NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE].includes(kind));
    if (other) throw new Error(`spm.model has pieces of kind ${other.kind}, unknown to this page`);
    this.cut = byMerging(this.scores, new Set(unused.map(({ text }) => text)));
  }

  /** The pieces of a line, as fairseq reads them. */
  encode(line) {
    const pieces = [];
    let afterUnknown = false;
    const text = plain(line);
    for (const piece of this.cut(text ? [...` ${text}`.replaceAll(" ", SPACE)] : [])) {
      const unknown = !this.scores.has(piece);
      if (unknown && this.spells) pieces.push(...spelled(piece));
      // neighbours that are unknown are one piece
      else if (unknown && afterUnknown) pieces.push(pieces.pop() + piece);
      else pieces.push(piece);
      afterUnknown = unknown;
    }
    // what stands in the text for a symbol of fairseq is no such symbol
    return pieces.flatMap((piece) => (SPECIAL.has(piece) ? [...piece] : [piece]));
  }
}

/** The text of pieces. What is no UTF-8 in their bytes, and control characters, are left out. */
export function decode(pieces) {
  const shown = pieces.join(" ").replace(BYTES, (run) => {
    const parts = run.replace(/<0x|>| /g, "").split(/(?<=^(?:..)*)EFBFBD/);
    const text = parts.map((hex) => {
      const bytes = (hex.match(/../g) ?? []).map((byte) => parseInt(byte, 16));
      return DECODER.decode(Uint8Array.from(bytes)).replaceAll("\ufffd", "");
    });
    return oneLine(withoutControls(text.join("\ufffd")));
  });
  return oneLine(shown.replaceAll(" ", "").replaceAll(SPACE, " "));
}

function spelled(text) {
  const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");
  return Array.from(new TextEncoder().encode(text), (byte) => `<0x${hex(byte)}>`);
}

/**
 * Byte-pair encoding: of all neighbours that make a piece, those with the best score are merged,
 * the leftmost of equals first. Unused pieces are cut again where they were merged.
 */
function byMerging(scores, unused) {
  return (characters) => {
    const pieces = [...characters];
    const halves = new Map(); // of unused pieces
    const jointScore = (left) => {
      if (left + 1 >= pieces.length) return undefined;
      const piece = pieces[left] + pieces[left + 1];
      if (unused.has(piece)) halves.set(piece, [pieces[left], pieces[left + 1]]);
      return scores.get(piece);
    };
    const cut = (piece) => halves.get(piece)?.flatMap(cut) ?? [piece];
    const joint = pieces.map((_, left) => jointScore(left));
    for (;;) {
      let best = -1;
      for (let left = 0; left < pieces.length - 1; left++) {
        if (joint[left] !== undefined && (best < 0 || joint[left] > joint[best])) best = left;
      }
      if (best < 0) return pieces.flatMap(cut);
      pieces.splice(best, 2, pieces[best] + pieces[best + 1]);
      joint.splice(best, 1);
      if (best > 0) joint[best - 1] = jointScore(best - 1);
      joint[best] = jointScore(best);
    }
  };
}
