// Put the page, ONNX Runtime and an exported model into one folder of static files.
//
//     npm run build -- MODEL [OUT]        MODEL: of resmlp-mt export; OUT: dist

import { createHash } from "node:crypto";
import { cpSync, existsSync, lstatSync, mkdirSync, readFileSync, readdirSync } from "node:fs";
import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

import { FILES } from "./page/folder.js";

const HERE = dirname(fileURLToPath(import.meta.url));
const ORT = join(HERE, "node_modules", "onnxruntime-web", "dist");
const LARGE = "ort.wasm.gz";
const PLACE = /\/\* the build \*\/ \{.*\}/u; // of the list in sw.js

function fail(message) {
  console.error(`build: error: ${message}`);
  process.exit(1);
}

const [model, out = join(HERE, "dist")] = process.argv.slice(2);
if (!model) fail("give the exported model: npm run build -- MODEL");
if (!existsSync(join(model, "config.json"))) {
  fail(`${model} has no config.json: give a folder that resmlp-mt export has made`);
}
if (!existsSync(ORT)) fail("onnxruntime-web is not installed: run npm ci first");
if (existsSync(out) && !existsSync(join(out, "sw.js"))) {
  fail(`${out} is there and is no earlier build: delete it or give another folder`);
}

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
cpSync(join(HERE, "page"), out, { recursive: true });
cpSync(join(ORT, "ort.wasm.bundle.min.mjs"), join(out, "ort.js"));
// a plain file server does not compress, so that the page unpacks it
const runtime = readFileSync(join(ORT, "ort-wasm-simd-threaded.wasm"));
writeFileSync(join(out, LARGE), gzipSync(runtime, { level: 9 }));

const files = readdirSync(out).filter((name) => name !== "sw.js").sort();
const digest = createHash("sha256");
for (const name of files) digest.update(name).update(readFileSync(join(out, name)));
const shell = {
  version: digest.digest("hex").slice(0, 16),
  files: ["./", ...files.filter((name) => name !== LARGE)],
  large: [LARGE],
};
const worker = readFileSync(join(out, "sw.js"), "utf8");
writeFileSync(join(out, "sw.js"), worker.replace(PLACE, JSON.stringify(shell)));

mkdirSync(join(out, "model"));
const config = readFileSync(join(model, "config.json"), "utf8");
writeFileSync(join(out, "model", "config.json"), config);
const { files: listed } = JSON.parse(config);
for (const name of FILES) {
  const data = readFileSync(join(model, name));
  // a link may lead to any file of this computer; only what the model lists is published
  if (createHash("sha256").update(data).digest("hex") !== listed?.[name]?.sha256) {
    fail(`${join(model, name)} is not the file that config.json lists: export the model again`);
  }
  writeFileSync(join(out, "model", name), data);
}
const card = join(model, "README.md");
if (!existsSync(card) || !lstatSync(card).isFile()) fail(`${card} is not a file of the model`);
cpSync(card, join(out, "model", "README.md"));
console.log(`${out}: ready. Serve it, for example: python3 -m http.server -d "${out}"`);
