// Lines in capitals, as capitals.py of the runtime reads them and writes their translations.

import { WHITE_SPACE } from "./text.js";

const LETTER = /\p{L}/u;
const SPACES = new RegExp(`([${WHITE_SPACE}]+)`, "u");

export function inCapitals(line) {
  const letters = line.match(/\p{L}/gu) ?? [];
  const word = /[\p{L}\p{Nl}\p{No}]{4}/u.test(line);
  return word && letters.every((letter) => /\p{Uppercase}/u.test(letter));
}

/** A line in capitals in small letters, each word in its most frequent form; another as it is. */
export function smallLetters(line, { encode, rank, languages: [language] }) {
  if (!inCapitals(line)) return line;
  const cost = (word) => {
    const pieces = encode(word);
    return [pieces.length, pieces.reduce((sum, piece) => sum + rank(piece), 0)];
  };
  let begins = true;
  const words = line.split(SPACES).map((word) => {
    const small = lower(word, language);
    const letters = [...small];
    const first = letters.findIndex((letter) => letter !== letter.toUpperCase());
    if (first >= 0) letters[first] = upper(letters[first], language);
    const title = letters.join("");
    const cheaper = (a, b) => (isLess(cost(b), cost(a)) ? b : a);
    let best = small === word ? word : [small, title, word].reduce(cheaper);
    if (begins && best === small) best = title;
    if (LETTER.test(word)) begins = /[.!?…]$/u.test(word.replace(/["'”’»)\]]+$/u, ""));
    return best;
  });
  return words.join("");
}

const isLess = (a, b) => a[0] < b[0] || (a[0] === b[0] && a[1] < b[1]);
const lower = (text, language) => text.toLocaleLowerCase(known(language));
export const upper = (text, language) =>
  known(language) === "ka" ? text : text.toLocaleUpperCase(known(language));

/** The first part of a code of any form, such as zh_Hans, if it can be the code of a language. */
function known(language) {
  const [code] = /^[a-z]{2,3}(?![a-z])/i.exec(language) ?? ["und"];
  return Intl.getCanonicalLocales(code)[0];
}
