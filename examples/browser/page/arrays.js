// The arrays of an exported folder: those that arrays.txt of the runtime lists, and no others.

const SIDES = ["encoder", "decoder"];
const TYPES = { F32: 4, F16: 2, I8: 1 }; // by their bytes
const WEIGHTS = { float32: "F32", float16: "F16", int8: "I8" };

/**
 * @param {Uint8Array} file of safetensors.
 * @param config of the folder.
 * @param {string} table arrays.txt
 * @returns name, type (0: float32, 1: float16, 2: int8), rows, columns and values of each array.
 * @throws {Error} in one line, that names an array which is missing, or other than expected.
 */
export function readArrays(file, config, table) {
  const begin = 8 + Number(new DataView(file.buffer).getBigUint64(0, true));
  const { __metadata__: _, ...header } = JSON.parse(
    new TextDecoder().decode(file.subarray(8, begin)),
  );
  const expected = expectedArrays(config, table);
  const other = Object.keys(header).find((name) => !expected.has(name));
  if (other) throw new Error(`weights.safetensors: unknown array ${other}`);
  return Array.from(expected, ([name, wanted]) => {
    if (!(name in header)) throw new Error(`weights.safetensors has no ${name}`);
    const { dtype, shape, data_offsets: [start, end] } = header[name];
    const values = file.subarray(begin + start, begin + end);
    const size = shape.reduce((all, each) => all * each, TYPES[dtype]);
    if (`${dtype} ${shape}` !== wanted || !(start >= 0) || values.length !== size) {
      throw new Error(`weights.safetensors: ${name} is ${dtype} ${shape}, not ${wanted}`);
    }
    const columns = shape.at(-1);
    const rows = size / TYPES[dtype] / columns;
    return { name, type: Object.keys(TYPES).indexOf(dtype), rows, columns, values };
  });
}

/** Type and shape of each array, by name. */
function expectedArrays({ precision, mixing, embeddings, ...config }, table) {
  const half = precision === "float32" ? "F32" : "F16";
  const types = { vector: "F32", matrix: half };
  const expected = new Map();
  for (const line of table.split("\n").filter((one) => /^[^#]/u.test(one))) {
    const [pattern, letters, kind, models] = line.split(/ {2,}/u);
    for (const [side, ofSide] of SIDES.entries()) {
      const name = pattern.replace("*", ofSide);
      const ofModel = ["any", mixing, embeddings.flat().includes(name) && "untied"];
      const isThere = models.split(", ").some((one) => ofModel.includes(one));
      if (!name.startsWith(ofSide) || !isThere) continue;
      const sizes = sizesOf(config, side);
      const shape = letters.split(" ").map((letter) => sizes[letter]);
      const layers = name.includes(".i.") ? config.layers[side] : 1;
      for (let layer = 0; layer < layers; layer++) {
        const array = name.replace(".i.", `.${layer}.`);
        if (kind in types) {
          expected.set(array, `${types[kind]} ${shape}`);
          continue;
        }
        expected.set(`${array}.weight`, `${WEIGHTS[precision]} ${shape}`);
        if (kind === "linear") expected.set(`${array}.bias`, `F32 ${shape.at(-1)}`);
        if (precision === "int8") expected.set(`${array}.scale`, `F32 ${shape.at(-1)}`);
      }
    }
  }
  return expected;
}

/** What the letters of the table are. */
function sizesOf(config, side) {
  const names = ["channels", "hidden", "mixing_heads", "positions", "vocabulary"];
  const [C, F, H, N, V] = names.map((name) => config[name][side]);
  const K = 2 * config.layers[1] * config.channels[1];
  return { C, F, H, N, V, K, T: (N * (N + 1)) / 2, "2C": 2 * C, "2N-1": 2 * N - 1 };
}
