// Subwords put together to words, and what is read per word.

import { SPACE } from "./subwords.js";

const LETTER = /[\p{L}\p{N}]/u;

/**
 * @param {string[]} pieces
 * @returns {{text: string, space: boolean, from: number, to: number}[]} the words, with whether a
 *   space is before them, and their pieces' numbers. Punctuation behind a word is by itself.
 */
export function wordsOf(pieces) {
  const words = [];
  pieces.forEach((piece, number) => {
    const begins = !words.length || piece.startsWith(SPACE) || isPunctuation(pieces, number);
    if (begins) words.push({ text: "", space: piece.startsWith(SPACE), from: number });
    const word = words.at(-1);
    word.text += piece.replaceAll(SPACE, "");
    word.to = number + 1;
  });
  return words;
}

/** Whether no letter follows in the same word, though there was one before. */
function isPunctuation(pieces, number) {
  if (LETTER.test(pieces[number]) || !LETTER.test(pieces[number - 1])) return false;
  const next = pieces.slice(number + 1).findIndex((piece) => piece.startsWith(SPACE));
  const rest = pieces.slice(number + 1, next < 0 ? pieces.length : number + 1 + next);
  return !rest.some((piece) => LETTER.test(piece));
}

/**
 * How much of its attention a word of the translation gives to each word of the source, and, last,
 * to the end of the source: the mean over its pieces.
 *
 * @param {Float32Array[]} attention for each piece, over the pieces of the source and their end.
 */
export function attentionByWord(attention, word, sourceWords) {
  const rows = attention.slice(word.from, word.to);
  const ends = [...sourceWords, { from: rows[0].length - 1, to: rows[0].length }];
  return ends.map(({ from, to }) => {
    const sums = rows.map((row) => row.slice(from, to).reduce((sum, weight) => sum + weight, 0));
    return sums.reduce((total, sum) => total + sum, 0) / rows.length;
  });
}
