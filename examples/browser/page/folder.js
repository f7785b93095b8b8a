// An exported folder: what config.json says, and files that are what it says.

const FORMAT = 3;
export const WEIGHTS = "weights.safetensors";
const GRAPHS = ["encoder.onnx", "step.onnx"];
export const FILES = [...GRAPHS, WEIGHTS, "spm.model", "source.txt", "target.txt"];

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
    if (!Number.isSafeInteger(config.files?.[name]?.bytes)) {
      throw new Error(`${url.pathname} does not list ${name}: export the model again`);
    }
  }
  return config;
}

/**
 * A file of the folder.
 *
 * @param {(bytes: number) => void} onBytes called with what has arrived so far.
 * @returns {Promise<Uint8Array>}
 * @throws {Error} in one line, if its SHA-256 is not what config.json says.
 */
export async function readChecked(folder, config, name, onBytes) {
  const { sha256 } = config.files[name];
  // the address changes with the content, so that the copy for offline use is never an old one
  const url = new URL(`${name}?${sha256}`, folder);
  const data = await readAll(await get(url), onBytes);
  if ((await hash(data)) !== sha256) {
    throw new Error(
      `${url.pathname} is not the file that config.json lists: copy the exported folder again`,
    );
  }
  return data;
}

/** The arrays of a safetensors file by name: type, shape and a view of the bytes. */
export function arrays(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const begin = 8 + Number(view.getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, begin)));
  const entries = Object.entries(header).map(([name, { dtype: type, shape, data_offsets }]) => {
    const [start, end] = data_offsets;
    const bytes = new DataView(file.buffer, file.byteOffset + begin + start, end - start);
    return [name, { type, shape, view: bytes }];
  });
  return Object.fromEntries(entries);
}

/** A response of the server; an error in one line if it has no such file. */
export async function get(url) {
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

/** The body of a response, with *onBytes* called on the way. */
export async function readAll(response, onBytes) {
  const parts = [];
  let bytes = 0;
  for (const reader = response.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    bytes += value.length;
    onBytes(bytes);
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
