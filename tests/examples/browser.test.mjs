// What the page of examples/browser computes, without a browser. Run by test_browser.py.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { FILES, readChecked, readConfig } from "../../examples/browser/page/folder.js";
import { beamSearch } from "../../examples/browser/page/search.js";
import { attentionByWord, wordsOf } from "../../examples/browser/page/words.js";

const EOS = 2;
const WORDS = 9; // in the dictionary
const NO_PAUSE = async () => {};

/** Log probabilities of the next word, which depend on the whole history. */
function scoresAfter(history) {
  let state = 17;
  for (const word of history) state = (state * 31 + word * 7 + 3) % 1009;
  const weights = Array.from({ length: WORDS }, (_, word) => 1 + ((state * (word + 5)) % 97));
  weights[0] = weights[1] = 0; // <s> and padding
  weights[EOS] /= 50; // so that some translations are long
  const sum = weights.reduce((all, weight) => all + weight, 0);
  return weights.map((weight) => Math.log(weight / sum));
}

/** The same without an end at once. */
function continuations(history) {
  const scores = scoresAfter(history);
  if (history.length === 1) scores[EOS] = -Infinity;
  return scores;
}

function best(candidates, count) {
  return candidates.sort((one, other) => other.total - one.total).slice(0, count);
}

/** Beam search as in fairseq, with the histories themselves for memory. */
function plainSearch({ beam, lenpen }, limit) {
  const finished = [];
  let rows = [{ tokens: [], total: 0 }];
  for (let step = 0; step <= limit && finished.length < beam; step++) {
    const candidates = rows.flatMap(({ tokens, total }) =>
      continuations([EOS, ...tokens])
        .map((score, word) => ({ tokens: [...tokens, word], total: total + score }))
        .filter((one) => step < limit || one.tokens.at(-1) === EOS),
    );
    const top = best(candidates, 2 * beam);
    const ends = ({ tokens, total }) => tokens.at(-1) === EOS && total !== -Infinity;
    for (const { tokens, total } of top.slice(0, beam).filter(ends)) {
      if (finished.length < beam) finished.push({ tokens, score: total / (step + 1) ** lenpen });
    }
    rows = top.filter((candidate) => !ends(candidate)).slice(0, beam);
  }
  return finished.sort((one, other) => other.score - one.score);
}

/**
 * In the place of the graphs: a "model" that knows of the past only what the memory gives it. Its
 * inputs of mixing are the words themselves, twice in two groups of two channels.
 */
const engine = {
  tensor: (type, data, shape) => ({ data, shape }),
  encode: async () => ({}),
  async step(feed) {
    const [, count] = feed.words.shape;
    const slots = feed.reads.shape[2];
    const position = feed.position.data[0];
    const candidates = [];
    const endScores = [];
    for (let row = 0; row < count; row++) {
      const history = [];
      for (let slot = 0; slot < slots; slot++) {
        if (!feed.reads.data[row * slots + slot]) continue;
        const [first, second] = [slot * 2, (slots + slot) * 2].map((at) => feed["past.0"].data[at]);
        assert.equal(first, second);
        assert.equal(history[feed.slot_positions.data[slot]], undefined);
        history[feed.slot_positions.data[slot]] = first;
      }
      assert.equal(history.length, position);
      assert.ok(!history.includes(undefined));
      history.push(feed.words.data[row]);
      endScores.push(feed.totals.data[row] + scoresAfter(history)[EOS]);
      continuations(history).forEach((score, word) => {
        candidates.push({ total: feed.totals.data[row] + score, word, parent: row });
      });
    }
    const top = best(candidates, feed.count.data[0]);
    const newest = Array.from({ length: 2 }, () =>
      Array.from(feed.words.data, (word) => [word, -1]),
    ).flat(2);
    return {
      scores: top.map(({ total }) => total),
      candidates: top.map(({ word }) => word),
      parents: top.map(({ parent }) => parent),
      end_scores: endScores,
      attention: Float32Array.from({ length: count * 3 }, (_, place) => place),
      "new.0": Float32Array.from(newest),
      "row.0": Float32Array.from({ length: 2 * count * slots }, (_, place) => {
        return 100 * Math.floor(place / (count * slots)) + feed.slot_positions.data[place % slots];
      }),
      "own.0": Float32Array.of(-1, -2),
    };
  },
};
const CONFIG = { positions: [40, 40], window: 0, states: [[2, 2]] };

for (const [beam, lenpen, most] of [[1, 1, 30], [3, 0.6, 30], [4, 0, 39], [4, 2, 3], [2, 1, 99]]) {
  test(`beam search: beam ${beam}, length penalty ${lenpen}, ${most} words`, async () => {
    const options = { beam, lenpen, max_len_a: 0.4, max_len_b: most };
    const { hypotheses } = await beamSearch(engine, CONFIG, [5, 6, EOS], options, NO_PAUSE);
    const expected = plainSearch(options, Math.min(most + 1, 39));
    if (most >= 30) assert.ok(expected.some(({ tokens }) => tokens.length > 20));
    assert.deepEqual(
      hypotheses.map(({ tokens }) => tokens),
      expected.map(({ tokens }) => tokens),
    );
    hypotheses.forEach(({ score, tokens, attention }, number) => {
      assert.ok(Math.abs(score - expected[number].score) < 1e-5);
      assert.equal(attention.length, tokens.length);
      assert.equal(attention[0].length, 3);
    });
  });
}

test("the rows of A belong to the positions before the word, by heads", async () => {
  const options = { beam: 3, lenpen: 1, max_len_a: 0, max_len_b: 20 };
  const { mixing } = await beamSearch(engine, CONFIG, [5, EOS, EOS], options, NO_PAUSE);
  assert.deepEqual(mixing[0][0], [[[0, -1]], [[0, -2]]]);
  assert.deepEqual(mixing[0][2][1], [[0, 100], [1, 101], [2, -2]]);
});

test("scores that overflow stop the search", async () => {
  const step = async (feed) => ({ ...(await engine.step(feed)), end_scores: [NaN] });
  const options = { beam: 2, lenpen: 1, max_len_a: 0, max_len_b: 20 };
  const search = beamSearch({ ...engine, step }, CONFIG, [5, 6, EOS], options, NO_PAUSE);
  await assert.rejects(search, /overflowed/u);
});

test("words of pieces", () => {
  const pieces = ["▁Das", "▁ist", "▁Marie", "’", "s", "▁Hund", "e", "haus", ".", "▁„", "Ja", "!", "“"];
  const words = wordsOf(pieces);
  const texts = words.map(({ text, space }) => (space ? ` ${text}` : text));
  assert.deepEqual(texts, [" Das", " ist", " Marie’s", " Hundehaus", ".", " „Ja", "!“"]);
  assert.deepEqual(words.map(({ from }) => from), [0, 1, 2, 5, 8, 9, 11]);
  assert.equal(words.at(-1).to, pieces.length);
});

test("attention of a word is the mean over its pieces, the sum over those of the source", () => {
  const attention = [[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]].map((row) => Float32Array.from(row));
  const source = [{ from: 0, to: 2 }];
  const weights = attentionByWord(attention, { from: 0, to: 2 }, source);
  assert.ok(Math.abs(weights[0] - 0.525) < 1e-6 && Math.abs(weights[1] - 0.475) < 1e-6);
});

const BODY = new TextEncoder().encode("what is in a file");
const HASH = createHash("sha256").update(BODY).digest("hex");
const LISTED = { bytes: BODY.length, sha256: HASH };
const GOOD = { format: 1, files: Object.fromEntries(FILES.map((name) => [name, LISTED])) };
const FOLDER = new URL("http://here/model/");

function serving(answer) {
  globalThis.fetch = async (url) => answer(url);
}

const REFUSED = {
  "no folder": [() => new Response("", { status: 404 }), /^\/model\/config\.json is not on the/u],
  "no server": [() => Promise.reject(new TypeError("failed")), /the server does not answer/u],
  "no JSON": [() => new Response("<html>"), /is not JSON/u],
  "another format": [() => Response.json({ ...GOOD, format: 2 }), /format 2, but .* format 1/u],
  "a list": [() => Response.json([]), /format none/u],
  "no files": [() => Response.json({ ...GOOD, files: {} }), /does not list encoder\.onnx/u],
};
for (const [name, [answer, message]] of Object.entries(REFUSED)) {
  test(`config.json: ${name}`, async () => {
    serving(answer);
    await assert.rejects(readConfig(FOLDER), ({ message: found }) => {
      assert.match(found, message);
      return !found.includes("\n");
    });
  });
}

test("a file is what config.json lists", async () => {
  serving(() => Response.json(GOOD));
  const config = await readConfig(FOLDER);
  const arrived = [];
  serving((url) => new Response(url.search === `?${HASH}` ? BODY : "another"));
  const data = await readChecked(FOLDER, config, "spm.model", (bytes) => arrived.push(bytes));
  assert.deepEqual(data, BODY);
  assert.equal(arrived.at(-1), BODY.length);
  for (const wrong of [BODY.slice(1), BODY.map((byte, at) => (at === 3 ? byte ^ 1 : byte))]) {
    serving(() => new Response(wrong));
    await assert.rejects(readChecked(FOLDER, config, "spm.model", () => {}), /config\.json lists/u);
  }
});
