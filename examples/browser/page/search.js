// Beam search as in fairseq, for one sentence, and what the decoder remembers on the way.

const PAD_ROOM = 16; // positions by which the memory of past words grows
export const BOS = 0, EOS = 2, UNKNOWN = 3; // the dictionaries' numbers

/**
 * @param engine with `encode(words)` and `step(feed, fetched)`, and `tensor(type, data, shape)`.
 * @param config of the exported folder.
 * @param {number[]} words numbers of the pieces of the source and their end, S.
 * @param {{beam, lenpen, max_len_a, max_len_b}} options as of fairseq-generate.
 * @param {() => Promise<void>} pause is awaited between steps; may throw to stop the search.
 * @returns hypotheses, the best first: tokens (their end included), score, attention (a row of S
 *   weights for each token); and `mixing`: for each layer and position the rows of A.
 */
export async function beamSearch(engine, config, words, options, pause) {
  const { beam, lenpen, max_len_a: a, max_len_b: b } = options;
  const memory = new Memory(engine, config, beam, await engine.encode(words));
  const limit = Math.min(Math.trunc(a * words.length + b), config.positions[1] - 1);
  const finished = [];
  const mixing = config.states.map(() => []);
  let rows = [{ word: EOS, total: 0, tokens: [], attention: [] }];
  for (let step = 0; ; step++) {
    await pause();
    const out = await memory.run(step, rows);
    if (!out.end_scores.every(Number.isFinite)) {
      throw new Error("scores are NaN or infinite: the model overflowed");
    }
    mixing.forEach((layer, number) => layer.push(memory.rowsOfA(step, out, number)));
    memory.write(step, rows.length, out);
    const last = step === limit;
    const candidates = last ? ends(out.end_scores) : continuations(out);
    const taken = candidates.map((candidate) => {
      const { tokens, attention } = rows[candidate.parent];
      const weights = out.attention.slice(
        candidate.parent * words.length,
        (candidate.parent + 1) * words.length,
      );
      return {
        ...candidate,
        tokens: [...tokens, candidate.word],
        attention: [...attention, weights],
      };
    });
    const isEnd = ({ word, total }) => word === EOS && total !== -Infinity;
    for (const { total, tokens, attention } of taken.slice(0, beam).filter(isEnd)) {
      const score = Math.fround(total / Math.fround((step + 1) ** lenpen));
      if (finished.length < beam) finished.push({ score, tokens, attention });
    }
    if (last || finished.length === beam) break;
    // the best that do not end; a row ends at most once, so that there are enough
    rows = taken.filter((candidate) => !isEnd(candidate)).slice(0, beam);
    memory.follow(rows.map(({ parent }) => parent));
  }
  finished.sort((one, other) => other.score - one.score);
  return { hypotheses: finished, mixing };
}

/** What goes on, the best first: the word, its row and the total score. */
function continuations({ scores, candidates, parents }) {
  return Array.from(scores, (total, rank) => ({
    total,
    word: candidates[rank],
    parent: parents[rank],
  }));
}

/** All rows with the end of sentence, the best first. */
function ends(scores) {
  const all = Array.from(scores, (total, parent) => ({ total, parent, word: EOS }));
  return all.sort((one, other) => other.total - one.total);
}

/**
 * What the decoder remembers: keys and values of the source, and the past inputs of the mixing
 * sublayers, `beam` slots for each position. A past input stays in its slot, and `reads` says
 * which slots are in the past of each row.
 */
class Memory {
  constructor(engine, config, beam, encoded) {
    Object.assign(this, { engine, config, beam, encoded, window: config.window });
    this.room = this.window || PAD_ROOM; // positions that there are slots for
    this.past = config.states.map(([groups, channels]) => ({
      groups,
      channels,
      values: new Float32Array(groups * this.slots * channels),
    }));
    this.reads = [new Float32Array(this.slots)]; // of each row
    this.positions = new Int32Array(this.slots);
  }

  get slots() {
    return this.room * this.beam;
  }

  /** The outputs of one step. */
  run(step, rows) {
    if (!this.window && step === this.room) this.grow();
    const { tensor } = this.engine;
    const int32 = (...values) => tensor("int32", Int32Array.from(values), [values.length]);
    const shape = [1, rows.length];
    const feed = {
      words: tensor("int32", Int32Array.from(rows, (row) => row.word), shape),
      totals: tensor("float32", Float32Array.from(rows, (row) => row.total), shape),
      count: int32(2 * this.beam),
      position: int32(step),
      ...this.encoded,
      reads: tensor("float32", joined(this.reads), [...shape, this.slots]),
      slot_positions: tensor("int32", this.positions, [1, this.slots]),
    };
    this.past.forEach(({ groups, channels, values }, number) => {
      feed[`past.${number}`] = tensor("float32", values, [groups, 1, this.slots, channels]);
    });
    return this.engine.step(feed);
  }

  /** Keep what the rows' newest words have put into the mixing sublayers. */
  write(step, rows, out) {
    const first = this.firstSlot(step);
    this.past.forEach(({ groups, channels, values }, number) => {
      const newest = out[`new.${number}`];
      for (let group = 0; group < groups; group++) {
        const size = rows * channels;
        const source = newest.subarray(group * size, (group + 1) * size);
        values.set(source, (group * this.slots + first) * channels);
      }
    });
    this.positions.fill(step, first, first + this.beam);
    this.reads.forEach((reads, row) => {
      reads.fill(0, first, first + this.beam);
      reads[first + row] = 1;
    });
  }

  firstSlot(step) {
    return (step % this.room) * this.beam;
  }

  /** Let row j go on from row `parents[j]`. */
  follow(parents) {
    this.reads = parents.map((parent) => this.reads[parent].slice());
  }

  grow() {
    const before = this.slots;
    this.room += PAD_ROOM;
    const longer = (values, size) => {
      const grown = new values.constructor(size);
      grown.set(values);
      return grown;
    };
    for (const past of this.past) {
      const { groups, channels, values } = past;
      past.values = new Float32Array(groups * this.slots * channels);
      for (let group = 0; group < groups; group++) {
        const size = before * channels;
        const source = values.subarray(group * size, (group + 1) * size);
        past.values.set(source, group * this.slots * channels);
      }
    }
    this.reads = this.reads.map((reads) => longer(reads, this.slots));
    this.positions = longer(this.positions, this.slots);
  }

  /**
   * The rows of A of a layer that the newest position used, one for each head: pairs of a position,
   * from the oldest to this one, and its weight. A is the same for all hypotheses, so that those
   * of the first are taken. Null for a layer without A.
   */
  rowsOfA(step, out, number) {
    const ofSlots = out[`row.${number}`]; // heads x hypotheses x slots
    const own = out[`own.${number}`];
    if (!ofSlots) return null;
    return Array.from(own, (weight, head) => {
      const first = (head * ofSlots.length) / own.length;
      const row = [];
      this.reads[0].forEach((read, slot) => {
        if (read) row.push([this.positions[slot], ofSlots[first + slot]]);
      });
      return [...row.sort(([one], [other]) => one - other), [step, weight]];
    });
  }
}

function joined(arrays) {
  const all = new Float32Array(arrays.length * arrays[0].length);
  arrays.forEach((array, number) => all.set(array, number * array.length));
  return all;
}
