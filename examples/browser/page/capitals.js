// Lines in capitals, as capitals.py of the runtime reads them and writes their translations.

import { WHITE_SPACE } from "./text.js";

const SPACES = new RegExp(`([${WHITE_SPACE}]+)`, "u");
const LETTER = "[\\p{L}\\p{Nl}\\p{No}]"; // [^\W\d_] of Python
const WORD = new RegExp(`^${LETTER}+(?:['’-]${LETTER}+)*$`, "u"); // not AT&T, CTRL+ALT, MP3
const FOUR = new RegExp(`${LETTER}{4}`, "u");
const EDGES = /^[^\p{L}\p{N}_]+|[^\p{L}\p{N}_]+$/gu;

export function inCapitals(line) {
  const letters = line.match(/\p{L}/gu);
  return FOUR.test(line) && !!letters?.every((letter) => /\p{Uppercase}/u.test(letter));
}

/** A line in capitals as people would write it in small letters; another line as it is. */
export function smallLetters(line, { encode, rank, languages: [language] }) {
  if (!inCapitals(line)) return line;
  let begins = true;
  const parts = line.split(SPACES);
  const hasLetter = (part) => /\p{L}/u.test(part);
  const isAlone = parts.filter(hasLetter).length === 1;

  /** The form of the fewest or of the most frequent pieces; an unknown word may be a name. */
  function usual(word) {
    const small = word.toLocaleLowerCase(known(language));
    const title = capitalized(small, language);
    const cost = (form) => {
      const pieces = encode(form);
      const isOther = form !== small && form !== title;
      return [pieces.length, isOther, pieces.reduce((sum, piece) => sum + rank(piece), 0)];
    };
    const cheaper = (a, b) => (isLess(cost(b), cost(a)) ? b : a);
    const best = [small, title, word].reduce(cheaper);
    const letters = [...word].length;
    if (cost(best)[0] > 1 && (isAlone || (letters <= 3 && /^\p{L}+$/u.test(word)))) return word;
    return begins && best === small ? title : best;
  }

  const cased = parts.map((part) => {
    const word = part.replace(EDGES, "");
    const written = WORD.test(word) ? part.replace(word, () => usual(word)) : part;
    if (/[.!?…]$/u.test(part.replace(/["'”’»)\]]+$/u, ""))) begins = true;
    else if (hasLetter(part)) begins = false;
    return written;
  });
  return cased.join("");
}

const isLess = (a, b) => {
  const other = a.findIndex((value, at) => value !== b[at]);
  return other >= 0 && a[other] < b[other];
};

/** With a capital: two in Dutch (IJsland); in Greek with its accent. */
function capitalized(word, language) {
  const code = new Intl.Locale(known(language)).language;
  const letters = [...word];
  const first = letters.splice(0, code === "nl" && word.startsWith("ij") ? 2 : 1).join("");
  return upper(first, code === "el" ? "und" : language) + letters.join("");
}

export const upper = (text, language) =>
  known(language) === "ka" ? text : text.toLocaleUpperCase(known(language));

/** The first part of a code of any form, such as zh_Hans, if it can be the code of a language. */
function known(language) {
  const [code] = /^[a-z]{2,3}(?![a-z])/i.exec(language) ?? ["und"];
  return Intl.getCanonicalLocales(code)[0];
}
