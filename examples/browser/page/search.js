// fairseq's beam search, for one sentence, and what the decoder remembers on the way.

const ROOM = 16; // positions by which the memory of past tokens grows
export const BOS = 0, PAD = 1, EOS = 2, UNKNOWN = 3; // the dictionaries' numbers

/**
 * @param engine with `encode(tokens)` and `step(feed)`, and `tensor(type, data, shape)`.
 * @param config of the exported folder.
 * @param {number[]} tokens indices of the source and its end.
 * @param {{beam, lenpen, max_len_a, max_len_b}} options as of fairseq-generate.
 * @param {() => Promise<void>} pause is awaited between steps; may throw to stop the search.
 * @returns hypotheses, the best first: tokens (their end included) and score.
 */
export async function beamSearch(engine, config, tokens, options, pause) {
  const { beam, lenpen, max_len_a: a, max_len_b: b } = options;
  const memory = new Memory(engine, config, beam, await engine.encode(tokens));
  const limit = Math.min(Math.trunc(a * tokens.length + b), config.positions[1] - 1);
  const finished = [];
  let rows = [{ token: EOS, total: 0, tokens: [] }];
  for (let step = 0; ; step++) {
    await pause();
    const out = await memory.step(step, rows);
    if (!out.end_scores.every(Number.isFinite)) {
      throw new Error("scores are NaN or infinite: the model overflowed");
    }
    const last = step === limit;
    const found = last ? ends(rows, out) : continuations(rows, out, step);
    const candidates = found.sort((one, other) => other.total - one.total).slice(0, 2 * beam);
    const isEnd = ({ token, total }) => token === EOS && total !== -Infinity;
    for (const { total, parent } of candidates.slice(0, beam).filter(isEnd)) {
      const score = Math.fround(total / Math.fround((step + 1) ** lenpen));
      if (finished.length < beam) finished.push({ score, tokens: [...rows[parent].tokens, EOS] });
    }
    if (last || finished.length === beam) break;
    // a row ends at most once, so that enough continue
    const best = candidates.filter((candidate) => !isEnd(candidate)).slice(0, beam);
    memory.follow(best.map(({ parent }) => parent));
    rows = best.map(({ token, total, parent }) => {
      return { token, total, tokens: [...rows[parent].tokens, token] };
    });
  }
  return finished.sort((one, other) => other.score - one.score);
}

/** The best tokens of each row. Padding is not one, and a sentence does not end before its first. */
function continuations(rows, { scores, tokens }, step) {
  const each = scores.length / rows.length;
  return Array.from(scores, (score, place) => {
    const [token, parent] = [Number(tokens[place]), Math.floor(place / each)];
    const excluded = token === PAD || (step === 0 && token === EOS);
    return { token, parent, total: excluded ? -Infinity : Math.fround(rows[parent].total + score) };
  });
}

function ends(rows, { end_scores: scores }) {
  return rows.map(({ total }, parent) => {
    return { token: EOS, parent, total: Math.fround(total + scores[parent]) };
  });
}

/**
 * What the decoder remembers: keys and values of the source, and past inputs of the
 * mixing sublayers, `beam` slots for each position. A past token stays in its slot. `ages` says how
 * many tokens back it is for each row, 0 if it is not in its past.
 */
class Memory {
  constructor(engine, config, beam, encoded) {
    Object.assign(this, { engine, config, beam, encoded });
    [this.groups, this.channels] = config.memory ?? [0, 0];
    this.room = ROOM; // positions that there are slots for
    this.past = new Float32Array(this.groups * this.slots * this.channels);
    this.ages = [new Int32Array(this.slots)]; // of each row
  }

  get slots() {
    return this.room * this.beam;
  }

  /** The outputs of one step, whose tokens are stored. */
  async step(step, rows) {
    if (this.groups && step === this.room) this.grow();
    const { tensor } = this.engine;
    const tokens = rows.map(({ token }) => token);
    const most = Math.min(2 * this.beam + 2, this.config.vocabulary[1]);
    const feed = {
      ...this.encoded,
      ...this.engine.embed(tokens),
      count: tensor("int64", BigInt64Array.of(BigInt(most)), [1]),
      position: tensor("int32", Int32Array.of(step), [1]),
    };
    if (this.groups) {
      const { groups, slots, channels } = this;
      const ages = Int32Array.from(this.ages.flatMap((one) => [...one]));
      feed.past = tensor("float32", this.past, [groups, 1, slots, channels]);
      feed.ages = tensor("int32", ages, [1, rows.length, slots]);
    }
    const out = await this.engine.step(feed);
    if (this.groups) this.write(step, rows.length, out.new);
    return out;
  }

  write(step, rows, newest) {
    const { groups, channels, slots } = this;
    const first = step * this.beam;
    for (let row = 0; row < rows; row++) {
      for (let group = 0; group < groups; group++) {
        const at = (row * groups + group) * channels;
        const place = (group * slots + first + row) * channels;
        this.past.set(newest.subarray(at, at + channels), place);
      }
    }
    this.ages.forEach((ages, row) => {
      ages.forEach((age, slot) => (ages[slot] = age && age + 1));
      ages[first + row] = 1;
    });
  }

  /** Let row j continue row `parents[j]`. */
  follow(parents) {
    this.ages = parents.map((parent) => this.ages[parent].slice());
  }

  grow() {
    const before = this.slots * this.channels;
    this.room += ROOM;
    const after = this.slots * this.channels;
    const past = new Float32Array(this.groups * after);
    for (let group = 0; group < this.groups; group++) {
      past.set(this.past.subarray(group * before, (group + 1) * before), group * after);
    }
    this.past = past;
    this.ages = this.ages.map((ages) => {
      const longer = new Int32Array(this.slots);
      longer.set(ages);
      return longer;
    });
  }
}
