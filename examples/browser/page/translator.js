// Text in, translations out: the exported model in ONNX Runtime.

import * as ort from "./ort.js";
import { FILES, WEIGHTS, arrays, get, readAll, readChecked, readConfig } from "./folder.js";
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
  const [encoder, step, weights, spm, source, target] = files;
  try {
    const embeddings = config.embeddings.map(([name, factor]) =>
      embedding(arrays(weights), name, factor),
    );
    const sessions = [await session(encoder, weights), await session(step, weights)];
    const dictionaries = [dictionary(source), dictionary(target)];
    return new Translator(config, sessions, embeddings, new Subwords(spm), dictionaries);
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

function session(graph, weights) {
  return ort.InferenceSession.create(graph, {
    executionProviders: ["wasm"],
    externalData: [{ path: WEIGHTS, data: weights }],
  });
}

function dictionary(file) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
    .decode(file)
    .split("\n")
    .slice(0, -1);
}

/** Tokens to their embeddings: the columns of a matrix, by their scales, times a factor. */
function embedding(stored, name, factor) {
  const { type, shape, view } = stored[`${name}.weight`];
  const [channels, vocabulary] = shape;
  const read = {
    I8: (place) => view.getInt8(place),
    F16: (place) => half(view.getUint16(2 * place, true)),
    F32: (place) => view.getFloat32(4 * place, true),
  }[type];
  const scales = stored[`${name}.scale`]?.view;
  return (tokens) => {
    const rows = new Float32Array(tokens.length * channels);
    tokens.forEach((token, row) => {
      const by = scales ? factor * scales.getFloat32(4 * token, true) : factor;
      for (let channel = 0; channel < channels; channel++) {
        rows[row * channels + channel] = by * read(channel * vocabulary + token);
      }
    });
    return rows;
  };
}

/** The number that 16 bits stand for. */
function half(bits) {
  const [exponent, fraction] = [(bits >> 10) & 31, bits & 1023];
  const size = exponent ? (1 + fraction / 1024) * 2 ** (exponent - 15) : fraction * 2 ** -24;
  return bits & 0x8000 ? -size : size;
}

export class Translator {
  constructor(config, [encoder, step], [embedSource, embedTarget], subwords, [source, target]) {
    Object.assign(this, { config, encoder, embedSource, subwords, target });
    this.numbers = new Map(source.map((piece, number) => [piece, number]));
    this.normalise = substitutions(config.normalisation);
    if (this.numbers.size !== config.vocabulary[0] || target.length !== config.vocabulary[1]) {
      throw new Error("source.txt or target.txt do not fit config.json: export it again");
    }
    const [channels] = config.channels.slice(1);
    this.engine = {
      tensor: (type, data, shape) => new ort.Tensor(type, data, shape),
      encode: (tokens) => this.encode(tokens),
      embed: (tokens) => {
        const shape = BigInt64Array.of(1n, BigInt(tokens.length), BigInt(config.channels[1]));
        const embedded = new ort.Tensor("float32", embedTarget(tokens), [tokens.length, channels]);
        return { embedded, shape: new ort.Tensor("int64", shape, [3]) };
      },
      step: async (feed) => {
        const found = await step.run(feed);
        return Object.fromEntries(Object.entries(found).map(([name, { data }]) => [name, data]));
      },
    };
  }

  /** What the decoder reads of a sentence of S tokens. */
  async encode(tokens) {
    const size = tokens.length;
    const shape = [1, size, this.config.channels[0]];
    const found = await this.encoder.run({
      embedded: new ort.Tensor("float32", this.embedSource(tokens), shape),
      inside: new ort.Tensor("float32", new Float32Array(size).fill(1), [1, size, 1, 1]),
    });
    return { ...found, lengths: new ort.Tensor("int32", Int32Array.of(size), [1]) };
  }

  /**
   * @param {string} line of text.
   * @param {() => Promise<void>} pause is awaited between steps; may throw to stop.
   * @returns {Promise<string>} the translation; "" for a line without a word.
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
        `${source.length} tokens, but the model takes ${most}: break the line into sentences`,
      );
    }
    if (!source.length) return "";
    const tokens = [...source.map((piece) => this.numbers.get(piece) ?? UNKNOWN), EOS];
    const { search } = this.config;
    const [best] = await beamSearch(this.engine, this.config, tokens, search, pause);
    const shown = best.tokens.slice(0, -1).filter((token) => token !== BOS);
    return decode(shown.map((token) => this.target[token]));
  }
}
