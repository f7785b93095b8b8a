// An exported folder: what config.json says, and files that are what it says.

const FORMAT = 5;
export const FILES = ["weights.safetensors", "spm.model", "source.txt", "target.txt"];
const isSize = (value) => Number.isInteger(value) && value > 0;
const isPair = (value) => Array.isArray(value) && value.length === 2 && value.every(isSize);
const isOneOf = (...choices) => (value) => choices.includes(value);
const SEARCH = ["beam", "lenpen", "max_len_a", "max_len_b", "no_repeat_ngram_size"];
// what config.json has, beside what the arrays are checked against
const CHECKS = {
  ...Object.fromEntries(
    ["vocabulary", "layers", "channels", "hidden"].map((name) => [name, isPair]),
  ),
  positions: (value) => isPair(value) && Math.min(...value) > 1, // of a token and its end
  mixing_heads: (value, { channels }) =>
    isPair(value) && value.every((heads, side) => channels[side] % heads === 0),
  heads: (value, { channels }) => isSize(value) && channels[1] % value === 0,
  activation: isOneOf("relu", "gelu"),
  normalization: isOneOf("affine", "layernorm"),
  languages: (value) => Array.isArray(value) && value.length === 2,
  search: (value) =>
    SEARCH.every((name) => Number.isFinite(value?.[name])) &&
    isSize(value.beam) && isSize(value.max_len_b),
};

/**
 * @param {URL} folder
 * @returns the object of config.json.
 * @throws {Error} in one line, if there is no such folder or another version of the format.
 */
export async function readConfig(folder) {
  const url = new URL("config.json", folder);
  const text = await (await get(url)).text();
  let config;
  try {
    config = JSON.parse(text);
  } catch {
    throw new Error(`${url.pathname} is not JSON: export the model again`);
  }
  if (config?.format !== FORMAT) {
    const format = JSON.stringify(config?.format) ?? "none";
    const advice = `but this page reads format ${FORMAT}: build the page again`;
    throw new Error(`${url.pathname} is of format ${format}, ${advice}`);
  }
  for (const name of FILES) {
    if (!/^[0-9a-f]{64}$/u.test(config.files?.[name])) {
      throw new Error(`${url.pathname} does not list ${name}: export the model again`);
    }
  }
  if (config.rule !== "nfc") {
    throw new Error(`${url.pathname} has no rule "nfc" of text, which this page needs`);
  }
  const wrong = Object.keys(CHECKS).find((name) => !CHECKS[name](config[name], config));
  if (wrong) throw new Error(`${url.pathname}: '${wrong}' is missing or wrong`);
  return config;
}

/**
 * A file of the folder.
 *
 * @param {(bytes: number, total: number) => void} onBytes called with what has arrived so far.
 * @returns {Promise<Uint8Array>}
 * @throws {Error} in one line, if its SHA-256 is not what config.json says.
 */
export async function readChecked(folder, config, name, onBytes) {
  const sha256 = config.files[name];
  // the address changes with the content, so that the copy for offline use is never an old one
  const url = new URL(`${name}?${sha256}`, folder);
  let data = await read(url, onBytes);
  // what is stored may be what a server gave while its files were replaced
  if ((await hash(data)) !== sha256) data = await read(url, onBytes, { cache: "reload" });
  if ((await hash(data)) !== sha256) {
    throw new Error(
      `${url.pathname} is not the file that config.json lists: copy the exported folder again`,
    );
  }
  return data;
}

/** A response of the server; an error in one line if it has no such file. */
async function get(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch {
    throw new Error(`${url.pathname} cannot be loaded: the server does not answer`);
  }
  if (!response.ok) {
    const { status } = response;
    throw new Error(
      `${url.pathname} is not on the server (status ${status}): put an exported model there`,
    );
  }
  return response;
}

/** The bytes of an address, with *onBytes* called on the way. */
export async function read(url, onBytes, options) {
  const response = await get(url, options);
  const total = Number(response.headers.get("Content-Length"));
  const parts = [];
  let bytes = 0;
  onBytes(bytes, total);
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read().catch(() => {
      throw new Error(`${url.pathname} was cut off: load the page again`);
    });
    if (done) break;
    parts.push(value);
    bytes += value.length;
    onBytes(bytes, total);
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

async function hash(data) {
  if (!globalThis.crypto?.subtle) {
    throw new Error("the browser can check files only by https:// or from localhost");
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", data));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
