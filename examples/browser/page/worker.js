// Loads the model and translates, beside the page, so that typing never waits.

import { join } from "./sentences.js";
import { load } from "./translator.js";

const REMEMBERED = 2000; // lines whose translations are kept
const translations = new Map();
let translator = null;
let newest = 0; // number of the request that counts
let running = Promise.resolve();

self.onmessage = ({ data }) => {
  if (data.folder) {
    start(new URL(data.folder));
  } else {
    newest = data.number;
    running = running.then(() => answer(data));
  }
};

async function start(folder) {
  try {
    const report = (progress) => self.postMessage({ kind: "progress", ...progress });
    translator = await load(folder, report);
    self.postMessage({ kind: "ready", config: translator.config });
  } catch (error) {
    self.postMessage({ kind: "failed", message: error.message });
  }
}

/** Translate one sentence after the other, until the page asks for something else. */
async function answer({ number, lines }) {
  for (const [place, line] of lines.entries()) {
    await nextMessage();
    if (number !== newest) return;
    const made = translations.get(line) ?? (await translate(line, number));
    if (number !== newest) return;
    translations.set(line, made);
    self.postMessage({ kind: "translation", number, place, ...made });
  }
  if (translations.size > REMEMBERED) translations.clear();
}

async function translate(line, number) {
  try {
    const found = [];
    for (const sentence of translator.translate(line)) {
      found.push(sentence);
      await nextMessage();
      if (number !== newest) break;
    }
    return { text: join(found) };
  } catch (error) {
    const isTrap = error instanceof WebAssembly.RuntimeError; // of memory that is not there
    return { problem: isTrap ? "out of memory: load the page again" : error.message };
  }
}

/** Lets what the page has sent arrive; a timer would wait for four milliseconds. */
function nextMessage() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => resolve(port1.close());
    port2.postMessage(null);
  });
}
