// The engine of the runtime, in WebAssembly.

const SIZES = [20, 72, 64]; // of Array, Config and Request of the engine, in bytes

export class Engine {
  /**
   * @param {Uint8Array} program
   * @param config of the exported folder.
   * @param arrays of the folder, as readArrays() finds them.
   */
  constructor(program, config, arrays) {
    const refuse = () => 8; // EBADF: it has no files
    const wasi = { fd_close: refuse, fd_seek: refuse, fd_write: refuse };
    const module = new WebAssembly.Module(program);
    this.program = new WebAssembly.Instance(module, { wasi_snapshot_preview1: wasi }).exports;
    this.program._initialize();
    Object.assign(this, { config, stored: [] });
    const sizes = this.read(Int32Array, this.program.resmlp_sizes(), SIZES.length);
    if (sizes.some((size, number) => size !== SIZES[number])) {
      throw new Error("the engine has a different version: build the page again");
    }
    this.kernel = this.program.resmlp_kernel(this.text(""));
    const given = arrays.map(({ name, values, type, rows, columns }) => [
      this.text(name),
      this.store(values),
      ...[type, rows, columns],
    ]);
    const described = this.describe(arrays.length);
    this.model = this.program.resmlp_load(this.words(...given.flat()), described);
    this.free();
  }

  /**
   * @param {number[]} source tokens, and the end.
   * @returns {number[]} the tokens of the best translation.
   * @throws {Error} in one line, if its scores are not finite or memory is out.
   */
  search(source) {
    const { search, positions } = this.config;
    const { beam, lenpen, max_len_a: a, max_len_b: b, no_repeat_ngram_size: ngram } = search;
    const limit = Math.min(Math.trunc(a * source.length + b), positions[1] - 1);
    const given = [this.words(...source), this.words(source.length), 0, 0]; // without prefixes
    const made = [1, beam, beam, beam * limit].map((size) => this.store(new Int32Array(size)));
    const numbers = [1, source.length, beam, limit, ngram, 1];
    const penalty = new Int32Array(Float64Array.of(lenpen).buffer);
    const request = this.words(...numbers, ...penalty, ...given, ...made);
    this.program.resmlp_search(this.kernel, this.model, request);
    const [count] = this.read(Int32Array, made[0], 1);
    if (!count) {
      this.free();
      throw new Error("scores are NaN or infinite: the model overflowed");
    }
    const scores = this.read(Float32Array, made[1], count);
    const best = scores.indexOf(Math.max(...scores));
    const size = this.read(Int32Array, made[2], beam)[best];
    const tokens = Array.from(this.read(Int32Array, made[3] + 4 * best * limit, size));
    this.free();
    return tokens;
  }

  /** What the engine has to know of the model. */
  describe(count) {
    const { vocabulary, layers, channels, mixing_heads, heads, embeddings } = this.config;
    const is = (name, value) => Number(this.config[name] === value);
    return this.words(
      ...[vocabulary, layers, channels, mixing_heads, heads].flat(),
      ...[is("mixing", "gated"), is("mixing", "linear"), is("activation", "gelu")],
      ...[is("normalization", "layernorm"), count],
      ...new Int32Array(Float32Array.from(embeddings, ([, factor]) => factor).buffer),
      ...embeddings.map(([name]) => this.text(name)),
    );
  }

  /** Numbers of the engine's memory, until it runs again. */
  read(Type, address, size) {
    return new Type(this.program.memory.buffer, address, size);
  }

  /** The address of a copy in the engine's memory, until free(). */
  store(array) {
    const address = this.program.malloc(Math.max(array.byteLength, 1));
    if (!address) throw new Error("out of memory");
    this.stored.push(address);
    this.read(array.constructor, address, array.length).set(array);
    return address;
  }

  words(...numbers) {
    return this.store(Int32Array.from(numbers));
  }

  text(text) {
    return this.store(new TextEncoder().encode(`${text}\0`));
  }

  free() {
    for (const address of this.stored.splice(0)) this.program.free(address);
  }
}
