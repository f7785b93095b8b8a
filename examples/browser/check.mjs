// Try the built page in a headless Chromium, beside the runtime.py of the same model.
//
//     npm run check -- --model MODEL --input LINES [--python python3]
//
// The translations must be those of runtime.py (but for 8-bit weights), another site must not be
// reached, a damaged model must be refused in one line, and without a server the page must still
// translate. CHROMIUM names the browser (default: /usr/bin/chromium).

import { spawnSync } from "node:child_process";
import { cpSync, createReadStream, existsSync, mkdtempSync, readFileSync } from "node:fs";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

import { chromium } from "playwright-core";

const HERE = dirname(fileURLToPath(import.meta.url));
const TYPES = {
  ".css": "text/css",
  ".html": "text/html",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
};
const MINUTES = 60_000; // milliseconds

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    input: { type: "string" },
    python: { type: "string", default: "python3" },
  },
});
const problems = [];

/** Take down what is not as it must be, and go on. */
function check(holds, problem) {
  if (!holds) problems.push(problem);
}

/** A file server that counts requests. */
async function serve(folder) {
  const counted = { requests: 0 };
  const server = createServer((request, response) => {
    counted.requests += 1;
    let path = normalize(join(folder, decodeURIComponent(request.url.split("?")[0])));
    if (path.endsWith("/")) path += "index.html";
    if (!path.startsWith(folder) || !existsSync(path) || statSync(path).isDirectory()) {
      response.writeHead(404).end();
      return;
    }
    const { size } = statSync(path);
    const type = TYPES[extname(path)] ?? "application/octet-stream";
    response.writeHead(200, { "Content-Type": type, "Content-Length": size });
    createReadStream(path).pipe(response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  };
  return { counted, stop, address: `http://127.0.0.1:${server.address().port}/` };
}

function run(command, words) {
  const done = spawnSync(command, words, { encoding: "utf8", maxBuffer: 2 ** 28 });
  if (done.status !== 0) throw new Error(`${command} ${words.join(" ")}: ${done.stderr}`);
  return done.stdout;
}

function ofPython() {
  const words = [join(options.model, "runtime.py"), "--graph", "--input", options.input];
  return run(options.python, words).split("\n").slice(0, -1);
}

async function ofPage(page, lines) {
  await page.fill("#source", lines.join("\n"));
  await translated(page, lines.length, 20 * MINUTES);
  return page.evaluate(() =>
    Array.from(document.querySelectorAll("#translation li"), (item) => item.textContent),
  );
}

function translated(page, lines, timeout = MINUTES) {
  return page.waitForFunction(
    (count) => {
      const list = document.getElementById("translation");
      const items = [...list.children];
      const busy = list.getAttribute("aria-busy");
      return busy === "false" && items.length === count && items.some((item) => item.textContent);
    },
    lines,
    { timeout },
  );
}

async function firstTranslation(page, address, line) {
  await page.goto(address);
  await page.fill("#source", line);
  await translated(page, 1);
}

async function refusal(page, address) {
  await page.goto(address);
  await page.waitForSelector("#problem:not([hidden])", { timeout: MINUTES });
  return page.textContent("#problem");
}

/** Models that must be refused, beside the built one. */
async function checkRefusals(page, built, address) {
  const damage = {
    nothing: [null, null, /^\/nothing\/config\.json is not on the server \(status 404\)/u],
    other: ["config.json", (text) => text.replace('"format": ', '"format": 9'), /of format 93/u],
    broken: ["config.json", (text) => text.slice(1), /is not JSON/u],
    flipped: ["target.txt", (text) => text.replace("e", "f"), /is not the file that config\.json/u],
    short: ["source.txt", (text) => text.slice(1), /is not the file that config\.json/u],
  };
  for (const [name, [file, change, expected]] of Object.entries(damage)) {
    if (file) {
      cpSync(join(built, "model"), join(built, name), { recursive: true });
      const path = join(built, name, file);
      writeFileSync(path, change(readFileSync(path, "utf8")));
    }
    const message = await refusal(page, `${address}?model=${name}`);
    check(expected.test(message) && !message.includes("\n"), `model "${name}": ${message}`);
  }
  const message = await refusal(page, `${address}?model=http://localhost:1/model`);
  check(/names another site/u.test(message), `model of another site: ${message}`);
}

/** Neither the page nor its worker reaches another site, with a service worker or without one. */
async function checkIsolation(page, foreign) {
  const before = foreign.counted.requests;
  for (const frame of [page, ...page.workers()]) {
    const reached = await frame.evaluate(
      (address) => fetch(address, { mode: "no-cors" }).then(() => true, () => false),
      foreign.address,
    );
    check(!reached, "another site was reached");
  }
  check(page.workers().length === 1, `${page.workers().length} workers, not 1`);
  check(foreign.counted.requests === before, "another site has got a request");
  await fetch(foreign.address);
  check(foreign.counted.requests === before + 1, "the other site does not count");
}

/** A window that stores nothing: the page translates, and still keeps to itself. */
async function checkPrivateWindow(browser, address, line, foreign) {
  const context = await browser.newContext();
  await context.addInitScript(() => {
    ServiceWorkerContainer.prototype.register = () => Promise.reject(new Error("not here"));
  });
  const page = await context.newPage();
  await firstTranslation(page, address, line);
  check((await page.textContent("#offline")).includes("stores nothing"), "offline use is promised");
  await checkIsolation(page, foreign);
  await context.close();
}

async function main() {
  const lines = readFileSync(options.input, "utf8").split("\n").slice(0, -1);
  const config = JSON.parse(readFileSync(join(options.model, "config.json"), "utf8"));
  const expected = ofPython();
  const built = join(mkdtempSync(join(tmpdir(), "page-")), "dist");
  run(process.execPath, [join(HERE, "build.mjs"), options.model, built]);
  const server = await serve(built);
  const foreign = await serve(built);
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    const context = await browser.newContext();
    const asked = new Set();
    context.on("request", (request) => asked.add(new URL(request.url()).origin));
    const page = await context.newPage();
    page.on("pageerror", (error) => problems.push(`error of the page: ${error.message}`));

    await firstTranslation(page, server.address, lines[0]);
    const example = page.locator("#examples button").last();
    if (await example.count()) {
      await example.click();
      const text = await page.inputValue("#source");
      check(text === (await example.textContent()), `the example is not in the text: ${text}`);
    }
    const card = await page.evaluate(() => document.getElementById("card").href);
    check((await fetch(card)).ok, `${card} is not on the server`);
    const found = await ofPage(page, lines);
    const same = found.filter((text, number) => text === expected[number]).length;
    // sums of 8-bit numbers are the same everywhere, what they are rounded from is not
    const exact = config.precision !== "int8";
    check(!exact || same === lines.length, `${same} of ${lines.length} are those of runtime.py`);
    const [, long] = await ofPage(page, [lines[0], "word ".repeat(999)]);
    check(/break the line into sentences$/u.test(long), `a line that is too long: ${long}`);
    await checkIsolation(page, foreign);
    await checkPrivateWindow(browser, server.address, lines[0], foreign);
    const origins = [...asked].filter((origin) => origin !== "null");
    const allowed = [new URL(server.address).origin, new URL(foreign.address).origin];
    check(origins.every((origin) => allowed.includes(origin)), `asked: ${origins}`);
    await checkRefusals(await context.newPage(), built, server.address);

    await server.stop();
    await page.reload();
    await page.fill("#source", lines[1]);
    await translated(page, 1);
    const text = await page.textContent("#translation li");
    check(text === found[1], `without a server: ${text}`);
    console.log(`${same} of ${lines.length} translations are those of runtime.py`);
  } finally {
    await browser.close();
    await server.stop().catch(() => {});
    await foreign.stop();
    rmSync(dirname(built), { recursive: true });
  }
  for (const problem of problems) console.error(`check: error: ${problem}`);
  process.exit(problems.length ? 1 : 0);
}

await main();
