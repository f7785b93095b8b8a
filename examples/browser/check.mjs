// Try the built page in a headless Chromium, beside the runtime.py of the same model.
//
//     npm run check -- --model MODEL --input LINES [--python python3] [--out result.json]
//                      [--pictures FOLDER]
//
// The translations must be those of runtime.py (but for 8-bit weights), another site must not be
// reached, a damaged model must be refused in one line, and without a server the page must still
// translate. CHROMIUM names the browser (default: /usr/bin/chromium).

import { spawnSync } from "node:child_process";
import { cpSync, createReadStream, existsSync, mkdtempSync, readFileSync } from "node:fs";
import { rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { cpus, loadavg, tmpdir } from "node:os";
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
const LOADS = 5; // of the page, to time them
const MINUTES = 60_000; // milliseconds

const { values: options } = parseArgs({
  options: {
    model: { type: "string" },
    input: { type: "string" },
    python: { type: "string", default: "python3" },
    out: { type: "string" },
    pictures: { type: "string" },
  },
});
const problems = [];

/** Take down what is not as it must be, and go on. */
function check(holds, problem) {
  if (!holds) problems.push(problem);
}

/** A file server that counts: bytes sent, and requests. */
async function serve(folder) {
  const counted = { bytes: 0, requests: 0 };
  const server = createServer((request, response) => {
    counted.requests += 1;
    let path = normalize(join(folder, decodeURIComponent(request.url.split("?")[0])));
    if (path.endsWith("/")) path += "index.html";
    if (!path.startsWith(folder) || !existsSync(path) || statSync(path).isDirectory()) {
      response.writeHead(404).end();
      return;
    }
    const { size } = statSync(path);
    counted.bytes += size;
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

/** For each line all translations of the beam by runtime.py. */
function ofPython(lines, beam) {
  const words = [join(options.model, "runtime.py"), "--input", options.input, "--nbest", beam];
  const found = run(options.python, words.map(String)).split("\n");
  return lines.map((_, number) => found.slice(beam * number, beam * (number + 1)));
}

/** Type lines into the page; for each the alternatives that it shows. */
async function ofPage(page, lines) {
  await page.fill("#source", lines.join("\n"));
  await translated(page, lines.length, 20 * MINUTES);
  return page.evaluate(() =>
    [...document.querySelectorAll("#translation li")].map((item) => {
      item.click();
      if (document.getElementById("details").hidden) return [item.textContent];
      return Array.from(document.querySelectorAll("#alternatives .text"), (x) => x.textContent);
    }),
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

/** The seconds from the address to a translation, with nothing stored in the browser. */
async function firstTranslation(page, address, line) {
  const started = performance.now();
  await page.goto(address);
  await page.fill("#source", line);
  await translated(page, 1);
  return Number(((performance.now() - started) / 1000).toFixed(2));
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
    other: ["config.json", (text) => text.replace('"format": ', '"format": 9'), /of format 91/u],
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
  await takePictures(page, "refused");
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

async function takePictures(page, name) {
  if (!options.pictures) return;
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [1100, 360]) {
      await page.emulateMedia({ colorScheme });
      await page.setViewportSize({ width, height: 800 });
      const path = join(options.pictures, `${name}.${colorScheme}.${width}.png`);
      await page.screenshot({ path, fullPage: true });
    }
  }
  await page.emulateMedia({ colorScheme: "light" });
  await page.setViewportSize({ width: 1100, height: 800 });
}

async function main() {
  const lines = readFileSync(options.input, "utf8").split("\n").slice(0, -1);
  const config = JSON.parse(readFileSync(join(options.model, "config.json"), "utf8"));
  const { beam } = config.search;
  const expected = ofPython(lines, beam);
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

    const seconds = [await firstTranslation(page, server.address, lines[0])];
    const bytes = server.counted.bytes;
    for (let load = 1; load < LOADS; load++) {
      const other = await browser.newContext();
      seconds.push(await firstTranslation(await other.newPage(), server.address, lines[0]));
      await other.close();
    }
    await page.click("summary");
    await takePictures(page, "first");

    const found = await ofPage(page, lines);
    const same = found.filter(([best], number) => best === expected[number][0]).length;
    const sameAll = found.filter((all, n) => all.join("\n") === expected[n].join("\n")).length;
    // sums of 8-bit numbers are the same everywhere, what they are rounded from is not
    const exact = config.precision !== "int8";
    check(!exact || same === lines.length, `${same} of ${lines.length} translations are those of runtime.py`);

    await page.fill("#source", [...lines.slice(0, 3), "word ".repeat(999)].join("\n"));
    await translated(page, 4);
    await takePictures(page, "lines");
    await checkIsolation(page, foreign);
    await checkPrivateWindow(browser, server.address, lines[0], foreign);
    const origins = [...asked].filter((origin) => origin !== "null");
    const allowed = [new URL(server.address).origin, new URL(foreign.address).origin];
    check(origins.every((origin) => allowed.includes(origin)), `asked: ${origins}`);
    await checkRefusals(await context.newPage(), built, server.address);

    await server.stop();
    const again = performance.now();
    await page.reload();
    await page.fill("#source", lines[1]);
    await translated(page, 1);
    const offlineSeconds = (performance.now() - again) / 1000;
    const text = await page.textContent("#translation li");
    check(text === found[1][0], `without a server: ${text}`);

    const { dependencies } = JSON.parse(readFileSync(join(HERE, "package.json"), "utf8"));
    const result = {
      model: Object.fromEntries(
        ["languages", "layers", "channels", "vocabulary", "precision"].map((x) => [x, config[x]]),
      ),
      made_by: config.made_by,
      sentences: lines.length,
      same_translation: same,
      same_alternatives: sameAll,
      beam,
      bytes_loaded: bytes,
      bytes_of_model: Object.values(config.files).reduce((sum, file) => sum + file.bytes, 0),
      bytes_of_runtime: statSync(join(built, "ort.wasm.gz")).size,
      seconds_to_first_translation: seconds,
      seconds_without_network: Number(offlineSeconds.toFixed(2)),
      processor: `${cpus().length} cores, ${cpus()[0].model}`,
      load_average: loadavg()[0],
      versions: { chromium: browser.version(), node: process.version, ...dependencies },
    };
    console.log(JSON.stringify(result, null, 1));
    if (options.out && !problems.length) {
      writeFileSync(options.out, `${JSON.stringify(result, null, 1)}\n`);
    }
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
