// Arguments: a built page, and folders. Standard input: lines. Standard output: what the page makes
// of the lines with the model of each folder, or its refusal.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [page, ...folders] = process.argv.slice(2);
globalThis.fetch = async ({ pathname }) => {
  try {
    const data = readFileSync(decodeURIComponent(pathname));
    return new Response(data, { headers: { "Content-Length": data.length } });
  } catch {
    return new Response("", { status: 404 });
  }
};
const { join } = await import(pathToFileURL(`${page}/sentences.js`));
const { load } = await import(pathToFileURL(`${page}/translator.js`));
const lines = readFileSync(0, "utf8").split("\n").slice(0, -1);
const found = [];
for (const folder of folders) {
  try {
    const translator = await load(pathToFileURL(`${folder}/`), () => {});
    found.push(lines.map((line) => join([...translator.translate(line)])));
  } catch (error) {
    found.push(error.message);
  }
}
console.log(JSON.stringify(found));
