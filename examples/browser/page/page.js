// The page: what is typed goes to the worker, what comes back is shown.

const PAUSE = 150; // milliseconds without a key before a translation begins
const FOLDER = new URL("model/", import.meta.url);
const byId = (id) => document.getElementById(id);
const source = byId("source");
const progress = new Map(); // of each file: bytes and total
let config = null, worker = null;
let request = 0, timer = 0;

start().catch((error) => fail(error.message));

async function start() {
  const offline = await keepForOffline();
  worker = newWorker();
  worker.onmessage = ({ data }) => receive(data, offline);
  worker.onerror = (event) => fail(event.message || "the program of the page cannot be loaded");
  worker.postMessage({ folder: FOLDER.href });
  source.addEventListener("input", () => {
    byId("translation").setAttribute("aria-busy", "true");
    clearTimeout(timer);
    timer = setTimeout(translate, PAUSE);
  });
}

/** Whether what is loaded from now on stays for offline use. */
async function keepForOffline() {
  let made;
  try {
    made = await navigator.serviceWorker.register("sw.js");
  } catch {
    return false; // no https://, or a private window, which has no store
  }
  const keeper = made.installing ?? made.waiting ?? made.active;
  while (!["activated", "redundant"].includes(keeper.state)) {
    await new Promise((resolve) => keeper.addEventListener("statechange", resolve, { once: true }));
  }
  return navigator.serviceWorker.controller !== null;
}

/** Only a worker whose address is that of a blob has the Content-Security-Policy of the page. */
function newWorker() {
  const program = `import ${JSON.stringify(new URL("worker.js", import.meta.url))};`;
  const address = URL.createObjectURL(new Blob([program], { type: "text/javascript" }));
  return new Worker(address, { type: "module" });
}

function receive(message, offline) {
  if (message.kind === "progress") showProgress(message);
  if (message.kind === "failed") fail(message.message);
  if (message.kind === "ready") ready(message.config, offline);
  if (message.kind === "translation" && message.number === request) showTranslation(message);
}

function showProgress({ name, bytes, total }) {
  progress.set(name, { bytes, total: Math.max(bytes, total) }); // compressed or unknown: less
  const sum = (part) => [...progress.values()].reduce((all, file) => all + file[part], 0) / 1e6;
  byId("loading-bar").value = sum("bytes") / sum("total") || 0;
  byId("loading-text").textContent =
    `Loading the model: ${sum("bytes").toFixed(1)} of ${sum("total").toFixed(1)} MB`;
}

function ready(loaded, offline) {
  config = loaded;
  const [from, to] = config.languages.map(languageName);
  document.title = `${from} to ${to}`;
  byId("title").textContent = `${from} to ${to}`;
  byId("source-label").textContent = from;
  byId("target-label").textContent = to;
  source.lang = config.languages[0];
  byId("translation").lang = config.languages[1];
  byId("loading").hidden = true;
  byId("card").href = new URL("README.md", FOLDER);
  byId("about").hidden = false;
  byId("offline").textContent = offline
    ? "The browser stores all of it, if it has room: the page then works without a network, too."
    : "This window stores nothing: the page needs the network when it is opened again.";
  translate();
}

function translate() {
  if (!config) return;
  const lines = source.value.split(/\r\n|\r|\n/u);
  request += 1;
  worker.postMessage({ number: request, lines });
  // what is there stays until its successor comes
  const list = byId("translation");
  while (list.children.length > lines.length) list.lastChild.remove();
  while (list.children.length < lines.length) {
    list.append(Object.assign(document.createElement("li"), { dir: "auto" }));
  }
}

function showTranslation({ place, text, problem }) {
  const list = byId("translation");
  if (place === list.children.length - 1) list.setAttribute("aria-busy", "false");
  const item = list.children[place];
  item.classList.toggle("problem", Boolean(problem));
  item.textContent = problem ?? text;
}

/** The English name of a language, for its code. */
function languageName(code) {
  try {
    return new Intl.DisplayNames("en", { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function fail(message) {
  byId("loading").hidden = true;
  byId("problem").hidden = false;
  byId("problem").textContent = message;
}
