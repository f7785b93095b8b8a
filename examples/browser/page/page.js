// The page: what is typed goes to the worker, what comes back is shown.

const PAUSE = 150; // milliseconds without a key before a translation begins
const EXAMPLES = {
  en: [
    "Where did you buy this book?",
    "I would have called you if I had known your number.",
    "Click on the button to save the file.",
  ],
};
const byId = (id) => document.getElementById(id);
const source = byId("source");
const progress = new Map(); // of each file: bytes and total
let config = null;
let worker = null;
let request = 0;
let timer = 0;

start().catch((error) => fail(error.message));

async function start() {
  if (!navigator.serviceWorker) {
    const why = window.isSecureContext
      ? "this browser is too old: take one of 2023 or later"
      : "open it by https:// or from localhost: the browser allows no offline use elsewhere";
    throw new Error(`This page cannot run here: ${why}`);
  }
  const folder = modelFolder();
  const offline = await keepForOffline();
  worker = newWorker();
  worker.onmessage = ({ data }) => receive(data, offline);
  worker.onerror = (event) => fail(event.message || "the program of the page cannot be loaded");
  worker.postMessage({ folder: folder.href });
  source.addEventListener("input", () => {
    byId("translation").setAttribute("aria-busy", "true");
    clearTimeout(timer);
    timer = setTimeout(translate, PAUSE);
  });
}

/** The folder "model" beside the page, or the one that the address names: ?model=FOLDER. */
function modelFolder() {
  const name = new URLSearchParams(location.search).get("model") ?? "model";
  const folder = new URL(`${name}/`, location.href);
  if (folder.origin !== location.origin) {
    throw new Error("?model= names another site: give a folder of this one");
  }
  folder.search = folder.hash = "";
  folder.pathname = folder.pathname.replace(/\/+$/u, "/");
  return folder;
}

/** Whether what is loaded from now on stays for offline use. */
async function keepForOffline() {
  try {
    await navigator.serviceWorker.register("sw.js");
  } catch {
    return false; // a private window may have no store
  }
  const { active } = await navigator.serviceWorker.ready;
  while (active.state === "activating") {
    await new Promise((resolve) => active.addEventListener("statechange", resolve, { once: true }));
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
  progress.set(name, { bytes, total });
  const sum = (part) => [...progress.values()].reduce((all, file) => all + file[part], 0);
  byId("loading-bar").value = sum("bytes") / sum("total");
  byId("loading-text").textContent =
    `Loading the model: ${sizeText(sum("bytes"))} of ${sizeText(sum("total"))}`;
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
  byId("source-hint").textContent =
    `One sentence a line, of at most ${config.positions[0] - 1} subwords.`;
  byId("loading").hidden = true;
  byId("card").href = new URL("README.md", modelFolder());
  byId("about").hidden = false;
  showExamples(EXAMPLES[config.languages[0]] ?? []);
  byId("offline").textContent = offline
    ? "All of it is stored in this browser: the page now works without a network, too."
    : "This window stores nothing: the page needs the network when it is opened again.";
  translate();
}

/** A button for each example; the first one stands in the text until something is typed. */
function showExamples(examples) {
  source.value ||= examples[0] ?? "";
  for (const example of examples) {
    const button = document.createElement("button");
    button.textContent = example;
    button.addEventListener("click", () => {
      source.value = example;
      source.dispatchEvent(new Event("input"));
    });
    byId("examples").append(button);
  }
}

function translate() {
  if (!config) return;
  const lines = source.value.split(/\r\n|\r|\n/u);
  request += 1;
  worker.postMessage({ number: request, lines });
  // what is there stays until its successor comes
  const list = byId("translation");
  while (list.children.length > lines.length) list.lastChild.remove();
  while (list.children.length < lines.length) list.append(document.createElement("li"));
}

function showTranslation({ place, text, problem }) {
  const list = byId("translation");
  if (place === list.children.length - 1) list.setAttribute("aria-busy", "false");
  const item = list.children[place];
  item.classList.toggle("problem", Boolean(problem));
  item.textContent = problem ?? text;
}

function sizeText(bytes) {
  return `${(bytes / 1e6).toFixed(1)} MB`;
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
