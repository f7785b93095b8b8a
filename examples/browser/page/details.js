// Of one sentence: the alternatives, the attention of each word, and what the layers read.

import { arrowKeys, element, percent } from "./elements.js";
import { SPACE } from "./subwords.js";
import { attentionByWord, wordsOf } from "./words.js";

const VISIBLE_SPACE = "\u2423";
const END = "end of sentence";
const byId = (id) => document.getElementById(id);
const chosen = { hypothesis: 0, word: null, layer: 0, head: 0 };
let result = null;
let source = []; // words
let target = [];
let sourceLine = null;

export function showDetails(newest, config) {
  if (newest.line !== sourceLine) chosen.hypothesis = 0; // another sentence
  sourceLine = newest.line;
  result = newest;
  source = wordsOf(result.source);
  showLayers(config);
  showAlternatives();
  showHypothesis();
}

const hypothesis = () => result.hypotheses[chosen.hypothesis];

function showAlternatives() {
  const container = byId("alternatives");
  const buttons = result.hypotheses.map(({ text, score }) => {
    const button = element("button", { type: "button", className: "alternative" });
    button.setAttribute("role", "radio");
    button.append(
      element("span", { className: "text" }, ...withDifferences(text || "(nothing)")),
      element("span", { className: "score" }, score.toFixed(2).replace("-", "\u2212")),
    );
    return button;
  });
  container.replaceChildren(...buttons);
  const choose = (number) => {
    chosen.hypothesis = number;
    mark(buttons, number, "aria-checked");
    showHypothesis();
  };
  arrowKeys(container, buttons, choose);
  mark(buttons, chosen.hypothesis, "aria-checked");
}

/** The words of a translation, those that the best one does not have there in bold. */
function withDifferences(text) {
  const words = text.split(" ");
  const best = result.hypotheses[0].text.split(" ");
  const most = Math.min(words.length, best.length);
  let first = 0;
  while (first < most && words[first] === best[first]) first++;
  let behind = 0;
  while (behind < most - first && words.at(-1 - behind) === best.at(-1 - behind)) behind++;
  const end = words.length - behind;
  const parts = [words.slice(0, first), words.slice(first, end), words.slice(end)];
  const [before, other, after] = parts.map((part) => part.join(" "));
  const shown = [before, other && element("b", {}, other), after].filter(Boolean);
  return shown.flatMap((part, place) => (place ? [" ", part] : [part]));
}

/** Of several buttons one is chosen, and this one is reached by Tab. */
function mark(buttons, number, attribute) {
  buttons.forEach((button, place) => {
    button.setAttribute(attribute, String(place === number));
    button.tabIndex = place === number ? 0 : -1;
  });
}

function showHypothesis() {
  target = wordsOf(hypothesis().pieces);
  const last = hypothesis().pieces.length;
  target.push({ text: END, space: true, from: last, to: last + 1, end: true });
  // in the middle there is something to see
  chosen.word = Math.min(chosen.word ?? Math.floor(target.length / 2), target.length - 1);
  const buttons = target.map(({ text, end }) => {
    const className = end ? "word end" : "word";
    return element("button", { type: "button", className }, text || VISIBLE_SPACE);
  });
  const choose = (number) => {
    chosen.word = number;
    mark(buttons, number, "aria-pressed");
    showWord();
  };
  buttons.forEach((button, number) => {
    button.addEventListener("pointerenter", () => choose(number));
  });
  byId("target-words").replaceChildren(...buttons);
  arrowKeys(byId("target-words"), buttons, choose);
  showAllAttention();
  choose(chosen.word);
}

function showWord() {
  showAttention();
  showMixing();
}

function showAttention() {
  const word = target[chosen.word];
  const weights = attentionByWord(hypothesis().attention, word, source);
  const names = [...source.map(({ text }) => text), END];
  const chips = names.map((name, place) => {
    const isEnd = place === source.length;
    const chip = element("span", { className: isEnd ? "word end" : "word" }, name || VISIBLE_SPACE);
    chip.style.setProperty("--weight", weights[place].toFixed(3));
    chip.title = percent(weights[place]);
    chip.append(element("span", { className: "share" }, percent(weights[place])));
    return chip;
  });
  byId("source-words").replaceChildren(...chips);
  const order = names.map((_, place) => place).sort((a, b) => weights[b] - weights[a]);
  const seen = order.slice(0, 3).filter((place) => weights[place] >= 0.005);
  const most = seen.map((place) => `${quoted(names[place])} ${percent(weights[place])}`);
  byId("attention-summary").textContent =
    `${word.end ? "The end" : quoted(word.text)} reads ${most.join(", ")}.`;
}

/** A table of all words: a row for each word of the translation. */
function showAllAttention() {
  const names = [...source.map(({ text }) => text), END];
  const head = element("tr", {}, element("td"));
  for (const name of names) head.append(element("th", { scope: "col" }, element("span", {}, name)));
  const rows = target.map((word) => {
    const row = element("tr", {}, element("th", { scope: "row" }, word.text));
    const weights = attentionByWord(hypothesis().attention, word, source);
    weights.forEach((weight, place) => {
      const cell = element("td", { title: `${word.text}, ${names[place]}: ${percent(weight)}` });
      cell.append(element("span", { className: "unseen" }, percent(weight)));
      cell.style.setProperty("--weight", weight.toFixed(3));
      row.append(cell);
    });
    return row;
  });
  byId("all-attention").replaceChildren(head, ...rows);
}

function quoted(name) {
  return name === END ? `the ${END}` : `“${name}”`;
}

function showLayers(config) {
  // a layer with an MLP over positions reads several states, one without mixing none
  byId("mixing").hidden = result.mixing.length !== config.layers[1];
  const select = byId("layer");
  const options = result.mixing.flatMap((layer, number) =>
    (layer[0] ?? [null]).map((_, head, heads) => {
      const name = `${number + 1} of ${config.layers[1]}`;
      const which = heads.length > 1 ? `, head ${head + 1} of ${heads.length}` : "";
      return element("option", { value: `${number} ${head}` }, name + which);
    }),
  );
  select.replaceChildren(...options);
  select.value = `${chosen.layer} ${chosen.head}`;
  select.onchange = () => {
    [chosen.layer, chosen.head] = select.value.split(" ").map(Number);
    showMixing();
  };
}

function showMixing() {
  const word = target[chosen.word];
  const rows = result.mixing[chosen.layer]?.[word.from];
  const pieces = hypothesis().pieces.map((piece) => piece.replaceAll(SPACE, VISIBLE_SPACE));
  const names = ["start", ...pieces];
  byId("bars-table").hidden = !rows;
  if (!rows) {
    byId("mixing-summary").textContent =
      "This layer has no matrix A: it reads its newest words by a convolution.";
    return;
  }
  const row = rows[chosen.head] ?? rows[0];
  const largest = Math.max(...row.map(([, weight]) => Math.abs(weight)), Number.MIN_VALUE);
  const bars = row.map(([position, weight]) => {
    const bar = element("span", { className: weight < 0 ? "bar negative" : "bar" });
    bar.style.setProperty("--length", (Math.abs(weight) / largest).toFixed(3));
    return element(
      "tr",
      {},
      element("th", { scope: "row" }, names[position]),
      element("td", { className: "number" }, weight.toFixed(3).replace("-", "\u2212")),
      element("td", { className: "track" }, bar),
    );
  });
  byId("bars").replaceChildren(...bars);
  const before = row.length - 1;
  byId("mixing-summary").textContent =
    `To choose ${quoted(word.text)}, layer ${chosen.layer + 1} reads the start` +
    (before ? ` and ${before === 1 ? "the subword" : `${before} subwords`} before it` : "") +
    ", with these weights:";
}
