// Put the page, the engine and an exported model into one folder of static files.
//
//     npm run build -- MODEL [OUT]        MODEL: of resmlp-mt export; OUT: dist
//
// An earlier build at OUT is replaced once the new one is whole. Anything else stays.

import { createHash } from "node:crypto";
import { existsSync, lstatSync, mkdirSync, mkdtempSync, readFileSync, readdirSync } from "node:fs";
import { renameSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

import { ENGINES } from "./page/engine.js";
import { FILES } from "./page/folder.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const RUNTIME = join(HERE, "../../runtime/resmlp_mt_runtime");
const MANIFEST = "build.json"; // of what a build has written
const MARK = "a page of resmlp_mt";
const PLACE = /\/\* the build \*\/ \{.*\}/u; // of the list in sw.js
const sha256 = (data) => createHash("sha256").update(data).digest("hex");

class Refusal extends Error {}

function check(right, message) {
  if (!right) throw new Refusal(message);
}

/** The bytes of a file. A link may lead to any file of this computer, and is refused. */
function readFile(path, advice) {
  check(existsSync(path) && lstatSync(path).isFile(), `${path} is not a file: ${advice}`);
  return readFileSync(path);
}

/** What is published, by its place: the page and the engine, then the model. */
function contents(model) {
  const found = new Map();
  for (const entry of readdirSync(join(HERE, "page"), { withFileTypes: true })) {
    if (entry.isFile()) found.set(entry.name, readFileSync(join(HERE, "page", entry.name)));
  }
  for (const name of ENGINES) {
    found.set(name, readFile(join(HERE, "engine", name), "run `make engine` first"));
  }
  found.set("punctuation.json", readFileSync(join(RUNTIME, "punctuation.json")));
  const worker = found.get("sw.js").toString();
  found.delete("sw.js");
  const version = sha256([...found].map(([name, data]) => `${name} ${sha256(data)}\n`).join(""));
  // of the engines the one that the browser runs is stored when it is loaded
  const files = ["./", ...found.keys()].filter((name) => !ENGINES.includes(name));
  const list = JSON.stringify({ version: version.slice(0, 16), files });
  found.set("sw.js", worker.replace(PLACE, list));

  const advice = "give a folder that resmlp-mt export has made";
  const config = readFile(join(model, "config.json"), advice);
  let listed;
  try {
    listed = JSON.parse(config).files ?? {};
  } catch {
    throw new Refusal(`${join(model, "config.json")} is not JSON: ${advice}`);
  }
  found.set("model/config.json", config);
  for (const name of FILES) {
    const data = readFile(join(model, name), advice);
    const message = `${join(model, name)} is not the file that config.json lists`;
    check(sha256(data) === listed[name], `${message}: export the model again`);
    found.set(`model/${name}`, data);
  }
  found.set("model/README.md", readFile(join(model, "README.md"), advice));
  return found;
}

/** All files and links below a folder. */
function filesOf(folder) {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  return entries.filter((one) => !one.isDirectory()).map((one) => join(one.parentPath, one.name));
}

/** Refuse to replace what is no earlier build, or has more in it than that. */
function checkReplaceable(out) {
  const advice = "delete it or give another folder";
  check(lstatSync(out).isDirectory(), `${out} is not a folder: ${advice}`);
  let manifest = null;
  try {
    manifest = JSON.parse(readFile(join(out, MANIFEST), ""));
  } catch {
    // without one, or with one of another kind, it is not ours
  }
  const isOurs = manifest?.mark === MARK && Array.isArray(manifest.files);
  check(isOurs, `${out} is there and is no earlier build: ${advice}`);
  const known = new Set([MANIFEST, ...manifest.files].map((name) => join(out, name)));
  const other = filesOf(out).find((path) => !known.has(path));
  check(!other, `${other} is not of the earlier build: move it, or give another folder`);
}

function build(model, out) {
  check(model, "give the exported model: npm run build -- MODEL [OUT]");
  const there = lstatSync(out, { throwIfNoEntry: false });
  if (there) checkReplaceable(out);
  const files = contents(model);
  files.set(MANIFEST, JSON.stringify({ mark: MARK, files: [...files.keys()] }, null, 1));
  mkdirSync(dirname(out), { recursive: true });
  const beside = mkdtempSync(join(dirname(out), `.${basename(out)}.`));
  try {
    const made = join(beside, "new");
    mkdirSync(join(made, "model"), { recursive: true });
    for (const [name, data] of files) writeFileSync(join(made, name), data);
    const old = join(beside, "old");
    if (there) renameSync(out, old);
    try {
      renameSync(made, out);
    } catch (error) {
      if (there) renameSync(old, out);
      throw error;
    }
  } finally {
    rmSync(beside, { recursive: true, force: true });
  }
}

const [model, out = join(HERE, "dist")] = process.argv.slice(2);
try {
  build(model, resolve(out));
  console.log(`${out}: ready. Serve it, for example: python3 -m http.server -d "${out}"`);
} catch (error) {
  if (!(error instanceof Refusal) && !error.code) throw error;
  console.error(`build: error: ${error.message.split("\n")[0]}`);
  process.exitCode = 1;
}
