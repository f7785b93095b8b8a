// Standard input: {model, normalisation, lines}. Standard output: the pieces of each line.

import { readFileSync } from "node:fs";

import { Subwords } from "../../examples/browser/page/subwords.js";
import { substitutions } from "../../examples/browser/page/text.js";

const { model, normalisation, lines } = JSON.parse(readFileSync(0, "utf8"));
const subwords = new Subwords(new Uint8Array(readFileSync(model)));
const normalise = substitutions(normalisation);
console.log(JSON.stringify(lines.map((line) => subwords.encode(normalise(line)))));
