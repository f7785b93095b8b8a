// An exported folder: what config.json says, and files that are what it says.

const FORMAT = 4;
export const FILES = ["weights.safetensors", "spm.model", "source.txt", "target.txt"];
const RULES = [null, "nfc"]; // of text

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
  if (!RULES.includes(config.rule)) {
    throw new Error(`${url.pathname} has another rule of text: build the page again`);
  }
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
  const data = await read(url, onBytes);
  if ((await hash(data)) !== sha256) {
    throw new Error(
      `${url.pathname} is not the file that config.json lists: copy the exported folder again`,
    );
  }
  return data;
}

/** The arrays of a safetensors file by name: shape and values, those of 16 bits as 32. */
export function readArrays(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const begin = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, begin)));
  delete header.__metadata__;
  const types = {
    I8: (data) => new Int8Array(data),
    F32: (data) => new Float32Array(data),
    F16: (data) => widened(new Uint16Array(data)),
  };
  const entries = Object.entries(header).map(([name, { dtype, shape, data_offsets }]) => {
    const [start, end] = data_offsets.map((offset) => begin + offset);
    return [name, { shape, values: types[dtype](file.buffer.slice(start, end)) }];
  });
  return Object.fromEntries(entries);
}

/** Floating-point numbers of 16 bits, none of which is infinite, as 32. */
function widened(halves) {
  const found = new Float32Array(halves.length);
  for (let i = 0; i < halves.length; i++) {
    const fraction = halves[i] & 1023, exponent = (halves[i] >> 10) & 31;
    const size = exponent ? (1024 + fraction) * 2 ** (exponent - 25) : fraction * 2 ** -24;
    found[i] = halves[i] & 0x8000 ? -size : size;
  }
  return found;
}

/** A response of the server; an error in one line if it has no such file. */
async function get(url) {
  let response;
  try {
    response = await fetch(url);
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
export async function read(url, onBytes) {
  const response = await get(url);
  const total = Number(response.headers.get("Content-Length"));
  const parts = [];
  let bytes = 0;
  onBytes(bytes, total);
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
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
