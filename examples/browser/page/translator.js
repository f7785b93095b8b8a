// Text in, translations out: the exported model in ONNX Runtime.

import * as ort from "./ort.js";
import { FILES, get, readAll, readChecked, readConfig } from "./folder.js";
import { BOS, EOS, UNKNOWN, beamSearch } from "./search.js";
import { Subwords, decode } from "./subwords.js";
import { oneLine, substitutions } from "./text.js";

const MOST_CHARACTERS = 20_000; // of a line; the time to cut it grows with its square
const RUNTIME = new URL("ort.wasm.gz", import.meta.url);

/**
 * @param {URL} folder an exported model.
 * @param {(progress: {name: string, bytes: number, total: number}) => void} onProgress
 * @returns {Promise<Translator>}
 * @throws {Error} in one line, that says what is wrong with the folder.
 */
export async function load(folder, onProgress) {
  const config = await readConfig(folder);
  const response = await get(RUNTIME);
  const sizes = { "ONNX Runtime": Number(response.headers.get("Content-Length")) };
  for (const name of FILES) sizes[name] = config.files[name].bytes;
  const report = (name) => (bytes) => onProgress({ name, bytes, total: sizes[name] });
  for (const name of Object.keys(sizes)) report(name)(0);
  const [compressed, ...files] = await Promise.all([
    readAll(response, report("ONNX Runtime")),
    ...FILES.map((name) => readChecked(folder, config, name, report(name))),
  ]);
  await startRuntime(compressed);
  const [encoder, step, spm, source, target] = files;
  try {
    const sessions = [await session(encoder), await session(step)];
    const dictionaries = [dictionary(source), dictionary(target)];
    return new Translator(config, sessions, new Subwords(spm), dictionaries);
  } catch (error) {
    throw new Error(`the model in ${folder.pathname} cannot be used: ${oneLine(error.message)}`);
  }
}

async function startRuntime(compressed) {
  const stream = new Blob([compressed]).stream().pipeThrough(new DecompressionStream("gzip"));
  ort.env.wasm.wasmBinary = await new Response(stream).arrayBuffer();
  ort.env.wasm.numThreads = 1; // more need headers that a plain file server does not send
  ort.env.logLevel = "error";
}

function session(graph) {
  return ort.InferenceSession.create(graph, { executionProviders: ["wasm"] });
}

function dictionary(file) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
    .decode(file)
    .split("\n")
    .slice(0, -1);
}

export class Translator {
  constructor(config, [encoder, step], subwords, [source, target]) {
    Object.assign(this, { config, encoder, subwords, target });
    this.numbers = new Map(source.map((piece, number) => [piece, number]));
    this.normalise = substitutions(config.normalisation);
    if (this.numbers.size !== config.vocabulary[0] || target.length !== config.vocabulary[1]) {
      throw new Error("source.txt or target.txt do not fit config.json: export it again");
    }
    const outputs = ["scores", "candidates", "parents", "end_scores", "attention"];
    const ofStates = step.outputNames.filter((name) => /^(new|row|own)\./u.test(name));
    this.engine = {
      tensor: (type, data, shape) => new ort.Tensor(type, data, shape),
      encode: (words) => this.encode(words),
      step: async (feed) => {
        const found = await step.run(feed, [...outputs, ...ofStates]);
        return Object.fromEntries(Object.entries(found).map(([name, { data }]) => [name, data]));
      },
    };
  }

  /** What the decoder reads of a sentence of S words. */
  encode(words) {
    const feed = { words: new ort.Tensor("int32", Int32Array.from(words), [1, words.length]) };
    return this.encoder.run(feed, this.encoder.outputNames.filter((name) => name !== "states"));
  }

  /**
   * @param {string} line of text.
   * @param {() => Promise<void>} pause is awaited between steps; may throw to stop.
   * @returns `source`, the pieces that were read; `hypotheses`, the best first, each with text,
   *   score, pieces and attention (a row over the source and its end for each piece and its end);
   *   `mixing`, for each layer and position the row of A. None without a word in the line.
   * @throws {Error} in one line, for a line that is too long or no text.
   */
  async translate(line, pause) {
    if (/\p{Surrogate}/u.test(line)) throw new Error("half a character: this is no text");
    if (line.length > MOST_CHARACTERS) {
      throw new Error(`${line.length} characters: break the line into sentences`);
    }
    const source = this.subwords.encode(this.normalise(line));
    const most = this.config.positions[0] - 1;
    if (source.length > most) {
      throw new Error(
        `${source.length} subwords, but the model takes ${most}: break the line into sentences`,
      );
    }
    if (!source.length) return { source, hypotheses: [], mixing: [] };
    const words = [...source.map((piece) => this.numbers.get(piece) ?? UNKNOWN), EOS];
    const { search } = this.config;
    const found = await beamSearch(this.engine, this.config, words, search, pause);
    const hypotheses = found.hypotheses.map(({ score, tokens, attention }) => {
      const pieces = tokens.slice(0, -1).map((token) => this.target[token]);
      const shown = pieces.filter((_, place) => tokens[place] !== BOS);
      return { text: decode(shown), score, pieces, attention };
    });
    return { source, hypotheses, mixing: found.mixing };
  }
}
