// Try a built page in a headless Chromium.
//
//     npm run check -- DIST LINES TRANSLATIONS
//
// TRANSLATIONS are the runtime's. The page must find the same, reach no other site, and translate
// without a server once it is loaded. CHROMIUM names the browser (default: /usr/bin/chromium).

import { createReadStream, existsSync, readFileSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join, normalize, resolve } from "node:path";

import { chromium } from "playwright-core";

const TYPES = { ".css": "text/css", ".html": "text/html", ".js": "text/javascript" };
const MINUTES = 60_000; // milliseconds
const problems = [];

/** Take down what is not as it must be, and go on. */
function check(holds, problem) {
  if (!holds) problems.push(problem);
}

/** A file server that counts requests and bytes; while *replaced*, it has other weights. */
async function serve(folder) {
  const counted = { requests: 0, bytes: 0, replaced: false };
  const server = createServer((request, response) => {
    counted.requests += 1;
    if (request.url === "/index.html") {
      response.writeHead(308, { Location: "/" }).end(); // as many servers do
      return;
    }
    let path = normalize(join(folder, decodeURIComponent(request.url.split("?")[0])));
    if (path.endsWith("/")) path += "index.html";
    if (!existsSync(path)) {
      response.writeHead(404).end();
      return;
    }
    if (counted.replaced && path.endsWith("weights.safetensors")) {
      response.end("weights of another model");
      return;
    }
    const { size } = statSync(path);
    counted.bytes += size;
    const type = TYPES[extname(path)] ?? "application/octet-stream";
    response.writeHead(200, { "Content-Type": type, "Content-Length": size });
    createReadStream(path).pipe(response);
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  const stop = () => {
    server.closeAllConnections();
    return new Promise((stopped) => server.close(stopped));
  };
  return { counted, stop, address: `http://127.0.0.1:${server.address().port}/` };
}

/** The translations that the page shows, once there are as many. */
async function translate(page, lines) {
  await page.fill("#source", lines.join("\n"));
  await page.waitForFunction(
    (count) => {
      const list = document.getElementById("translation");
      const items = [...list.children];
      const busy = list.getAttribute("aria-busy");
      return busy === "false" && items.length === count && items.some((item) => item.textContent);
    },
    lines.length,
    { timeout: 20 * MINUTES },
  );
  return page.$$eval("#translation li", (items) => items.map((item) => item.textContent));
}

/** Neither the page nor its worker reaches another site. */
async function checkIsolation(page, foreign) {
  check(page.workers().length === 1, `${page.workers().length} workers, not 1`);
  for (const frame of [page, ...page.workers()]) {
    const reached = await frame.evaluate(
      (address) => fetch(address, { mode: "no-cors" }).then(() => true, () => false),
      foreign.address,
    );
    check(!reached && !foreign.counted.requests, "another site was reached");
  }
}

/** A window that stores nothing: the page translates, and still keeps to itself. */
async function checkPrivateWindow(browser, server, foreign, line) {
  const context = await browser.newContext();
  await context.addInitScript(() => {
    ServiceWorkerContainer.prototype.register = () => Promise.reject(new Error("not here"));
  });
  const page = await context.newPage();
  await page.goto(server.address);
  await translate(page, [line]);
  check((await page.textContent("#offline")).includes("stores nothing"), "offline use is promised");
  await checkIsolation(page, foreign);
}

/** What came from a server while its files were replaced is not used for ever. */
async function checkReplacedFiles(browser, server, line, expected) {
  const page = await (await browser.newContext()).newPage();
  server.counted.replaced = true;
  await page.goto(server.address);
  for (const again of [true, false]) { // the second time from what is stored
    await page.waitForSelector("#problem:not([hidden])");
    check((await page.textContent("#problem")).includes("is not the file that"), "wrong weights");
    await page.waitForFunction(() => navigator.serviceWorker.controller);
    if (again) await page.reload();
  }
  server.counted.replaced = false;
  await page.reload();
  const [text] = await translate(page, [line]);
  check(text === expected, `after files were replaced: ${text}`);
}

async function checkPage(browser, server, foreign, lines, expected) {
  const page = await (await browser.newContext()).newPage();
  page.on("pageerror", (error) => problems.push(`error of the page: ${error.message}`));
  await page.goto(server.address);
  await translate(page, lines.slice(0, 1));
  console.log(`${server.counted.bytes} bytes until the first translation`);
  const start = performance.now();
  const found = await translate(page, lines);
  const each = (performance.now() - start) / lines.length;
  const same = found.filter((text, number) => text === expected[number]).length;
  console.log(`${same} of ${lines.length} translations are the runtime's, ${each.toFixed(1)} ms each`);
  check(same === lines.length, `${lines.length - same} translations are others`);
  await checkIsolation(page, foreign);
  const others = await page.evaluate(() => fetch("save", { method: "POST" }).then((r) => r.status, String));
  check(others === 404, "a request of another page of the server is not passed on");
  await page.goto(`${server.address}index.html`);
  await server.stop();
  await page.reload();
  const [text] = await translate(page, [lines[1]]);
  check(text === expected[1], `without a server: ${text}`);
}

const [folder, ...texts] = process.argv.slice(2).map((path) => resolve(path));
const [lines, expected] = texts.map((path) => readFileSync(path, "utf8").split("\n").slice(0, -1));
const server = await serve(folder);
const foreign = await serve(folder);
const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  await checkPrivateWindow(browser, server, foreign, lines[0]);
  await checkReplacedFiles(browser, server, lines[0], expected[0]);
  server.counted.bytes = 0;
  await checkPage(browser, server, foreign, lines, expected);
} finally {
  await browser.close();
  await Promise.allSettled([server.stop(), foreign.stop()]);
}
for (const problem of problems) console.error(`check: error: ${problem}`);
process.exit(problems.length ? 1 : 0);
