// Text in, translations out: an exported model in the engine.

import { readArrays } from "./arrays.js";
import { inCapitals, smallLetters, upper } from "./capitals.js";
import { Engine } from "./engine.js";
import { FILES, read, readChecked, readConfig } from "./folder.js";
import { split } from "./sentences.js";
import { Subwords, decode } from "./subwords.js";
import { oneLine } from "./text.js";

const MOST_CHARACTERS = 20_000; // of a line; the time to cut it grows with its square
const BOS = 0, EOS = 2, UNKNOWN = 3; // the dictionaries' numbers

/**
 * @param {URL} folder an exported model.
 * @param {(progress: {name: string, bytes: number, total: number}) => void} onProgress
 * @returns {Promise<Translator>}
 * @throws {Error} in one line, that says what is wrong with the folder.
 */
export async function load(folder, onProgress) {
  const config = await readConfig(folder);
  const report = (name) => (bytes, total) => onProgress({ name, bytes, total });
  const beside = (name) => read(new URL(name, import.meta.url), report(name));
  const [program, table, weights, spm, ...dictionaries] = await Promise.all([
    ...["engine.wasm", "arrays.txt"].map(beside),
    ...FILES.map((name) => readChecked(folder, config, name, report(name))),
  ]);
  try {
    const tokens = dictionaries.map((file) => readText(file).split("\n").slice(0, -1));
    if (tokens.some((of, side) => of.length !== config.vocabulary[side])) {
      throw new Error("source.txt or target.txt do not fit config.json: export it again");
    }
    const engine = new Engine(program, config, readArrays(weights, config, readText(table)));
    return new Translator(config, engine, new Subwords(spm), tokens);
  } catch (error) {
    throw new Error(`the model in ${folder.pathname} cannot be used: ${oneLine(error.message)}`);
  }
}

function readText(file) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(file);
}

class Translator {
  constructor(config, engine, subwords, [source, target]) {
    Object.assign(this, { config, engine, subwords, target });
    this.numbers = new Map(source.map((piece, number) => [piece, number]));
  }

  /**
   * @param {string} line of text.
   * @yields {string} the translation of a sentence; nothing for a line without a word.
   * @throws {Error} in one line, for a line that is too long or no text.
   */
  *translate(line) {
    if (/\p{Surrogate}/u.test(line)) throw new Error("the text has half of a character");
    if (line.length > MOST_CHARACTERS) {
      throw new Error(`${line.length} characters: break the line into paragraphs`);
    }
    const { languages, positions } = this.config;
    const encode = (text) => this.subwords.encode(text);
    const rank = (piece) => this.numbers.get(piece) ?? Infinity;
    const text = smallLetters(line, { encode, rank, languages });
    for (const part of split(text, encode, positions[0] - 1)) {
      const found = this.search(part);
      yield inCapitals(line) ? upper(found, languages[1]) : found;
    }
  }

  search(pieces) {
    const source = pieces.map((piece) => this.numbers.get(piece) ?? UNKNOWN);
    const tokens = this.engine.search([...source, EOS]).filter((token) => token !== BOS);
    return decode(tokens.map((token) => this.target[token]));
  }
}
