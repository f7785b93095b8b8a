// Standard input: {model, lines, spelled}. Standard output: the pieces of each line,
// its sentences and parts, and the text of spelled.

import { readFileSync } from "node:fs";

import { join, sentences, split } from "../../examples/browser/page/sentences.js";
import { Subwords, decode } from "../../examples/browser/page/subwords.js";

const { model, lines, spelled } = JSON.parse(readFileSync(0, "utf8"));
const subwords = new Subwords(new Uint8Array(readFileSync(model)));
const encode = (line) => subwords.encode(line);
const found = lines.map((line) => [encode(line), sentences(line), split(line, encode, 90)]);
const joined = lines.map((line) => join(sentences(line).map(([text]) => text)));
console.log(JSON.stringify({ found, joined, decoded: spelled.map(decode) }));
