// Standard input: {model, lines, spelled, cased, languages}. Standard output: the pieces of each
// line, its sentences and parts, the text of spelled; whether a line of cased is in capitals, the
// line in small letters, and in capitals, by language.

import { readFileSync } from "node:fs";

import { inCapitals, smallLetters, upper } from "../../examples/browser/page/capitals.js";
import { join, sentences, split } from "../../examples/browser/page/sentences.js";
import { Subwords, decode } from "../../examples/browser/page/subwords.js";

const { model, lines, spelled, cased = [], languages = [] } = JSON.parse(readFileSync(0, "utf8"));
const subwords = new Subwords(new Uint8Array(readFileSync(model)));
const encode = (line) => subwords.encode(line);
const found = lines.map((line) => [encode(line), sentences(line), split(line, encode, 90)]);
const joined = lines.map((line) => join(sentences(line).map(([text]) => text)));
const rank = (piece) => [...piece].at(-1).codePointAt(0);
const capitals = languages.flatMap((language) => {
  const engine = { encode, rank, languages: [language, language] };
  const capital = (line) => upper(line.toLowerCase(), language);
  return cased.map((line) => [inCapitals(line), smallLetters(line, engine), capital(line)]);
});
console.log(JSON.stringify({ found, joined, decoded: spelled.map(decode), capitals }));
