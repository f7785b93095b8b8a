// The engine of the runtime in WebAssembly. Arrays are laid out here as engine.cpp reads them.

const WIDTH = 32, PANEL = 16; // multiples of outputs
const SIDES = ["encoder", "decoder"];
const SIZES = [28, 188, 116, 64]; // of Linear, Layer, Stack and Request, in bytes
export const ENGINES = ["engine.wasm", "engine-relaxed.wasm"];
// a module with one instruction of relaxed SIMD, the byte products
const PROBE = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 19, 1, 17, 0],
  ...[65, 1, 253, 17, 65, 1, 253, 17, 65, 1, 253, 17, 253, 147, 2, 11],
);

/** The program that this browser runs, of two. */
export function engineName() {
  return ENGINES[Number(WebAssembly.validate(PROBE))];
}

export class Engine {
  /**
   * @param {Uint8Array} program
   * @param config of the exported folder.
   * @param arrays `shape` and `values` by name.
   * @param {string[][]} dictionaries of the source and the target.
   */
  constructor(program, config, arrays, dictionaries) {
    const refuse = () => 8; // EBADF: it has no files
    const wasi = { fd_close: refuse, fd_seek: refuse, fd_write: refuse };
    const module = new WebAssembly.Module(program);
    this.program = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi }).exports;
    this.program._initialize();
    Object.assign(this, { config, arrays, linears: new Map() });
    const sizes = this.read(Int32Array, this.program.resmlp_sizes(), SIZES.length);
    if (sizes.some((size, number) => size !== SIZES[number])) {
      throw new Error("the engine is of another version: build the page again");
    }
    const anyName = this.store(new Uint8Array(1));
    this.kernel = this.program.resmlp_kernel(anyName);
    this.stacks = dictionaries.map((tokens, side) => this.store(this.stack(side, tokens)));
    this.arrays = this.linears = null;
  }

  /**
   * @param {number[]} source tokens, and the end.
   * @returns {number[]} the tokens of the best translation.
   * @throws {Error} in one line, if its scores are not finite or memory is out.
   */
  search(source) {
    const { search, heads, positions } = this.config;
    const { beam, lenpen, max_len_a: a, max_len_b: b, no_repeat_ngram_size: ngram } = search;
    const limit = Math.min(Math.trunc(a * source.length + b), positions[1] - 1);
    const store = (...numbers) => this.store(Int32Array.from(numbers));
    const given = [store(...source), store(source.length)];
    const noPrefixes = [0, 0];
    const made = [1, beam, beam, beam * limit].map((size) => this.store(new Int32Array(size)));
    const numbers = [1, source.length, beam, limit, heads, ngram];
    const penalty = new Int32Array(Float64Array.of(lenpen).buffer);
    const request = store(...numbers, ...penalty, ...given, ...noPrefixes, ...made);
    this.program.resmlp_search(this.kernel, ...this.stacks, request, 1);
    const [count] = this.read(Int32Array, made[0], 1);
    const scores = this.read(Float32Array, made[1], count);
    const best = scores.indexOf(Math.max(...scores));
    const size = this.read(Int32Array, made[2], beam)[best];
    const tokens = Array.from(this.read(Int32Array, made[3] + 4 * best * limit, size));
    for (const address of [request, ...given, ...made]) this.program.free(address);
    if (!count) throw new Error("scores are NaN or infinite: the model overflowed");
    return tokens;
  }

  /** Numbers of the engine's memory, until it runs again. */
  read(Type, address, size) {
    return new Type(this.program.memory.buffer, address, size);
  }

  /** The address of a copy in the engine's memory. */
  store(array) {
    const address = this.program.malloc(Math.max(array.byteLength, 1));
    if (!address) throw new Error("there is no memory left");
    this.read(array.constructor, address, array.length).set(array);
    return address;
  }

  stack(side, tokens) {
    const { config } = this;
    const of = (name) => config[name][side];
    const name = SIDES[side];
    const [columns, factor] = of("embeddings");
    const layers = Array.from({ length: of("layers") }, (_, i) => this.layer(`${name}.${i}`, side));
    const { shape } = this.array(`${name}.0.mixing.weights`);
    const distances = shape.slice(1).reduce((all, size) => all * size, 1);
    return Int32Array.of(
      ...[of("vocabulary"), of("channels"), padded(of("channels"))],
      ...["gated", "linear"].map((mixing) => Number(config.mixing === mixing)),
      ...[of("mixing_heads"), of("positions"), distances],
      ...[["relu", "gelu"].indexOf(config.activation), layers.length],
      ...new Int32Array(Float32Array.of(factor).buffer),
      ...this.linear(columns),
      this.rows(`${name}.positions`),
      side ? this.rows("decoder.output_scale") : 0,
      this.store(byteTokens(tokens)),
      this.store(Int32Array.from(layers.flat())),
      ...(side
        ? this.linear("decoder.output")
        : this.linear("encoder.keys_values", 2 * config.layers[1])),
    );
  }

  layer(name, side) {
    const none = Array(SIZES[0] / 4).fill(0);
    const linear = (part, isThere = true) => (isThere ? this.linear(`${name}.${part}`) : none);
    const isGated = this.config.mixing === "gated";
    const mixing = `${name}.mixing`;
    return [
      isGated ? this.linear(`${name}.value_gate`, 2) : none,
      linear("output", isGated),
      linear("query", side),
      linear("attended", side),
      linear("first"),
      linear("second"),
      this.store(this.array(`${mixing}.weights`).values),
      side ? this.own(mixing) : 0,
      this.rows(`${mixing}.scale`),
      side ? 0 : this.rows(`${mixing}.shift`),
      this.rows(`${mixing}.offset`),
    ].flat();
  }

  /** The weight of the newest token itself for each channel, of matrices at each position. */
  own(mixing) {
    const { shape, values } = this.array(`${mixing}.weights`);
    const scale = this.array(`${mixing}.scale`).values;
    const count = this.config.mixing === "linear" ? this.config.positions[1] : 1;
    const room = padded(scale.length);
    const own = new Float32Array(count * room);
    for (let row = 0; row < count; row++) {
      const begin = (row * (row + 1)) / 2;
      scale.forEach((by, channel) => {
        const head = Math.floor((channel * shape[0]) / scale.length);
        own[row * room + channel] = by * values[head * shape[1] + begin];
      });
    }
    return this.store(own);
  }

  /** Each of the *parts* of the rows of an array, padded with *filler*. */
  rows(name, parts = 1, filler = 0) {
    const { shape, values } = this.array(name);
    const size = shape.at(-1) / parts;
    const room = padded(size);
    const found = new Float32Array((values.length / size) * room).fill(filler);
    for (let row = 0; row * size < values.length; row++) {
      found.set(values.subarray(row * size, (row + 1) * size), row * room);
    }
    return this.store(found);
  }

  /** Panels of 16 columns, with the bytes of four inputs side by side. */
  linear(name, parts = 1) {
    if (this.linears.has(name)) return this.linears.get(name);
    const { shape, values } = this.array(`${name}.weight`);
    const [inputs, size] = [padded(shape[0]), shape[1] / parts];
    const outputs = parts * padded(size);
    const isBytes = values instanceof Int8Array;
    const panels = new values.constructor(inputs * outputs);
    const sums = new Int32Array(isBytes ? outputs : 0);
    for (let output = 0; output < shape[1]; output++) {
      const place = Math.floor(output / size) * padded(size) + (output % size);
      const begin = (place - (place % PANEL)) * inputs;
      for (let input = 0; input < shape[0]; input++) {
        const value = values[input * shape[1] + output];
        const four = 4 * PANEL * (input >> 2) + 4 * (place % PANEL) + (input & 3);
        panels[begin + (isBytes ? four : PANEL * input + (place % PANEL))] = value;
        if (isBytes) sums[place] += value;
      }
    }
    const weight = this.store(panels);
    const filler = name === "decoder.output" ? -Infinity : 0; // no token is in the padding
    const found = [inputs, outputs, isBytes ? weight : 0, isBytes ? 0 : weight].concat(
      isBytes ? this.rows(`${name}.scale`, parts) : 0,
      `${name}.bias` in this.arrays ? this.rows(`${name}.bias`, parts, filler) : 0,
      isBytes ? this.store(sums) : 0,
    );
    this.linears.set(name, found);
    return found;
  }

  array(name) {
    if (!(name in this.arrays)) throw new Error(`it has no ${name}: export the model again`);
    return this.arrays[name];
  }
}

function padded(size) {
  return Math.ceil(size / WIDTH) * WIDTH;
}

/** The token that spells each byte, -1: there is none. */
function byteTokens(tokens) {
  const numbers = new Map(tokens.map((token, number) => [token, number]));
  const hex = (byte) => byte.toString(16).toUpperCase().padStart(2, "0");
  return Int32Array.from({ length: 256 }, (_, byte) => numbers.get(`<0x${hex(byte)}>`) ?? -1);
}
