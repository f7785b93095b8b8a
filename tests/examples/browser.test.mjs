// What the page of examples/browser computes, without a browser. Run by test_browser.py.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { FILES, readChecked, readConfig } from "../../examples/browser/page/folder.js";
import { beamSearch } from "../../examples/browser/page/search.js";
import { decode } from "../../examples/browser/page/subwords.js";

const PAD = 1, EOS = 2;
const WORDS = 9; // in the dictionary
const NO_PAUSE = async () => {};

/** Log probabilities of the next word, which depend on the whole history. */
function scoresAfter(history) {
  let state = 17;
  for (const word of history) state = (state * 31 + word * 7 + 3) % 1009;
  const weights = Array.from({ length: WORDS }, (_, word) => 1 + ((state * (word + 5)) % 97));
  weights[0] = 0; // <s>; padding is left to the search
  weights[EOS] /= 50; // so that some translations are long
  const sum = weights.reduce((all, weight) => all + weight, 0);
  return weights.map((weight) => Math.log(weight / sum));
}

/** The same, without an end at once and without padding. */
function continuations(history) {
  const scores = scoresAfter(history);
  scores[PAD] = -Infinity;
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
 * inputs of mixing are the tokens themselves, twice in two groups of two channels.
 */
const engine = {
  tensor: (type, data, shape) => ({ data, shape }),
  encode: async () => ({}),
  embed: (tokens) => ({ embedded: tokens }),
  async step({ embedded, ages, past, position, count }) {
    const [, rows, slots] = ages.shape;
    const out = { scores: [], tokens: [], end_scores: [], new: [] };
    for (let row = 0; row < rows; row++) {
      const history = [];
      for (let slot = 0; slot < slots; slot++) {
        const age = ages.data[row * slots + slot];
        if (!age) continue;
        const [first, second] = [slot * 2, (slots + slot) * 2].map((at) => past.data[at]);
        assert.equal(first, second);
        const place = position.data[0] - age;
        assert.equal(history[place], undefined);
        history[place] = first;
      }
      assert.equal(history.length, position.data[0]);
      assert.ok(!history.includes(undefined));
      history.push(embedded[row]);
      const scores = scoresAfter(history).map((total, word) => ({ total, word }));
      out.end_scores.push(scores[EOS].total);
      for (const { total, word } of best(scores, Number(count.data[0]))) {
        out.scores.push(total);
        out.tokens.push(BigInt(word));
      }
      out.new.push(embedded[row], -1, embedded[row], -1);
    }
    return { ...out, new: Float32Array.from(out.new) };
  },
};
const CONFIG = { positions: [40, 40], vocabulary: [WORDS, WORDS], memory: [2, 2] };

for (const [beam, lenpen, most] of [[1, 1, 30], [3, 0.6, 30], [4, 0, 39], [4, 2, 3], [2, 1, 99]]) {
  test(`beam search: beam ${beam}, length penalty ${lenpen}, ${most} tokens`, async () => {
    const options = { beam, lenpen, max_len_a: 0.4, max_len_b: most };
    const hypotheses = await beamSearch(engine, CONFIG, [5, 6, EOS], options, NO_PAUSE);
    const expected = plainSearch(options, Math.min(most + 1, 39));
    if (most >= 30) assert.ok(expected.some(({ tokens }) => tokens.length > 20));
    assert.deepEqual(
      hypotheses.map(({ tokens }) => tokens),
      expected.map(({ tokens }) => tokens),
    );
    hypotheses.forEach(({ score }, number) => {
      assert.ok(Math.abs(score - expected[number].score) < 1e-5);
    });
  });
}

test("scores that overflow stop the search", async () => {
  const step = async (feed) => ({ ...(await engine.step(feed)), end_scores: [NaN] });
  const options = { beam: 2, lenpen: 1, max_len_a: 0, max_len_b: 20 };
  const search = beamSearch({ ...engine, step }, CONFIG, [5, 6, EOS], options, NO_PAUSE);
  await assert.rejects(search, /overflowed/u);
});

const BODY = new TextEncoder().encode("what is in a file");
const HASH = createHash("sha256").update(BODY).digest("hex");
const LISTED = { bytes: BODY.length, sha256: HASH };
const GOOD = { format: 3, files: Object.fromEntries(FILES.map((name) => [name, LISTED])) };
const FOLDER = new URL("http://here/model/");

function serving(answer) {
  globalThis.fetch = async (url) => answer(url);
}

const REFUSED = {
  "no folder": [() => new Response("", { status: 404 }), /^\/model\/config\.json is not on the/u],
  "no server": [() => Promise.reject(new TypeError("failed")), /the server does not answer/u],
  "no JSON": [() => new Response("<html>"), /is not JSON/u],
  "another format": [() => Response.json({ ...GOOD, format: 1 }), /format 1, but .* format 3/u],
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

test("bytes are text again", () => {
  const pieces = ["\u2581a", "<0xC3>", "<0xA9>", "\u2581<0x41>", "<0x0A>", "<0xC3>"];
  assert.equal(decode(pieces), "a\u00e9 <0x41>\ufffd");
});

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
