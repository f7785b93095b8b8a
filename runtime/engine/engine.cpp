// SPDX-License-Identifier: MIT
// The encoder, the decoding step and the beam search of a model that `resmlp-mt export` wrote.
//
// A row is a hypothesis, or a token of a source. Sentences never mix: each has the same
// translations in any batch and on any number of threads. Widths are padded with zeros to a multiple
// of 32, so that no loop over channels has a remainder. Weights are packed into panels of 16 columns.

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>
#ifndef __wasm__
#include <thread>
#endif

#include "products.h"

namespace {

constexpr int PAD = 1, EOS = 2;  // the first tokens of every fairseq dictionary
constexpr int TILE = 32;         // rows whose scores of all tokens are in the cache together

// Fitted by tests/runtime/fit_polynomials.py; the constant coefficient comes first.
constexpr float OTHER_BYTE = 2;  // what a byte that the source does not have costs, in nats
constexpr double LN2 = 0.693147180559945309;
constexpr float LN2_HIGH = 45426.f / 65536;  // its first 16 bits
constexpr float EXPONENTIAL[] = {0.49999994f, 0.166665211f, 0.041668389f, 0.00836871006f,
                                 0.00138146128f};
constexpr float GELU_TAIL[] = {-0.797889352f,     -0.318266958f,    -0.0364786796f,
                               0.00502214301f,    -0.000188588441f, -9.11303214e-05f,
                               1.94475942e-05f,   -1.31841182e-06f};

int padded(int size) { return (size + WIDTH - 1) / WIDTH * WIDTH; }

// What callers give, checked: the arrays of a folder, as folder.py lists them.

enum Type : int32_t { FLOAT32, FLOAT16, INT8 };

struct Array {
  const char* name;
  const void* data;
  int32_t type, rows, columns;  // columns: the last axis
};

struct Config {  // of the source and the target
  int32_t vocabulary[2], layers[2], channels[2], mixing_heads[2];
  int32_t heads, is_gated, is_matrix, is_gelu, arrays;  // heads: of the attention
  float factors[2];
  const char* embeddings[2];
  const int32_t* bytes[2];  // the 256 tokens that spell a byte each, -1: there is none
};

// The model

template <class T>
struct CacheLines {  // an allocator of whole ones
  typedef T value_type;
  static constexpr std::align_val_t SIZE{64};
  T* allocate(size_t size) { return static_cast<T*>(::operator new(size * sizeof(T), SIZE)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, SIZE); }
  bool operator==(const CacheLines&) const { return true; }
  bool operator!=(const CacheLines&) const { return false; }
};
typedef std::vector<float, CacheLines<float>> Numbers;

struct Linear {  // x W + b
  int inputs, outputs;
  std::vector<int8_t, CacheLines<int8_t>> integers;  // of the two, one is empty
  Numbers floats, scale, bias;
  std::vector<int32_t> sums;  // of the integers of each column
};

struct Layer {
  const Linear *mixing_in, *mixing_out, *query, *attended, *first, *second;
  // A, of each head over distances or, of a matrix, the rows of all positions one after the other,
  // those of the decoder from the newest token back. A (scale x + shift) + offset, in the decoder
  // without a shift; the offset is for each position.
  Numbers weights, scale, shift, offset;
};

struct Stack {                  // encoder or decoder
  int tokens, channels, width;  // width: padded channels
  bool is_gated, is_matrix, is_gelu;
  int heads, positions, distances;  // of the mixing
  int attention_heads;
  float factor;                     // of embeddings
  const Linear* embedding;
  Numbers positional, alpha;
  std::vector<int32_t> bytes;
  std::vector<Layer> layers;
  const Linear* last;  // keys and values of all layers of the decoder, each padded; or the output layer
};

struct Model {
  std::map<std::string, Linear> linears;  // embeddings may be the output layer
  Stack encoder, decoder;
};

struct Loader {
  const Array* arrays;
  const Config& config;
  Model& model;

  const Array* find(const std::string& name) const {
    const auto is_it = [&](const Array& one) { return name == one.name; };
    const Array* found = std::find_if(arrays, arrays + config.arrays, is_it);
    return found == arrays + config.arrays ? nullptr : found;
  }

  static float number(const Array& array, size_t place) {
    if (array.type == FLOAT32) return load<float>(static_cast<const float*>(array.data) + place);
    const uint32_t half = load<uint16_t>(static_cast<const uint16_t*>(array.data) + place);
    const uint32_t bits = (half & 0x8000) << 16 | (half & 0x7fff) << 13;
    return load<float>(&bits) * 0x1p112f;  // the exponent begins elsewhere
  }

  Numbers numbers(const std::string& name) const {
    const Array& array = *find(name);
    Numbers found(size_t(array.rows) * array.columns);
    for (size_t i = 0; i < found.size(); ++i) found[i] = number(array, i);
    return found;
  }

  // Each of the *parts* of the rows, padded.
  Numbers rows(const std::string& name, int parts = 1, float filler = 0) const {
    const Numbers all = numbers(name);
    const size_t size = find(name)->columns / parts, room = padded(int(size));
    Numbers found(all.size() / size * room, filler);
    for (size_t i = 0; i < all.size(); ++i) found[i / size * room + i % size] = all[i];
    return found;
  }

  // Panels of 16 columns, with the bytes of four inputs side by side.
  const Linear* linear(const std::string& name, int parts = 1) const {
    const auto [place, is_new] = model.linears.insert({name, {}});
    Linear& layer = place->second;
    if (!is_new) return &layer;
    const Array& weight = *find(name + ".weight");
    const int size = weight.columns / parts, room = padded(size);
    const bool is_integer = weight.type == INT8;
    layer.inputs = padded(weight.rows), layer.outputs = parts * room;
    const size_t all = size_t(layer.inputs) * layer.outputs;
    if (is_integer)
      layer.integers.resize(all), layer.sums.resize(layer.outputs);
    else
      layer.floats.resize(all);
    for (int input = 0; input < weight.rows; ++input)
      for (int i = 0; i < weight.columns; ++i) {
        const size_t from = size_t(input) * weight.columns + i;
        const int column = i / size * room + i % size;
        const size_t panel = size_t(column / PANEL) * PANEL * layer.inputs;
        if (is_integer) {
          const int8_t value = static_cast<const int8_t*>(weight.data)[from];
          layer.integers[panel + input / 4 * 4 * PANEL + column % PANEL * 4 + input % 4] = value;
          layer.sums[column] += value;
        } else {
          layer.floats[panel + input * PANEL + column % PANEL] = number(weight, from);
        }
      }
    if (is_integer) layer.scale = rows(name + ".scale", parts);
    // no token is at the end of the padded vocabulary
    const float filler = name == "decoder.output" ? -INFINITY : 0;
    if (find(name + ".bias")) layer.bias = rows(name + ".bias", parts, filler);
    return &layer;
  }

  Layer layer(const std::string& name, bool is_decoder) const {
    Layer found{};
    if (config.is_gated) {
      found.mixing_in = linear(name + ".value_gate", 2);
      found.mixing_out = linear(name + ".output");
    }
    if (is_decoder) found.query = linear(name + ".query"), found.attended = linear(name + ".attended");
    found.first = linear(name + ".first"), found.second = linear(name + ".second");
    found.weights = numbers(name + ".mixing.weights");
    found.scale = rows(name + ".mixing.scale");
    if (!is_decoder) found.shift = rows(name + ".mixing.shift");
    found.offset = rows(name + ".mixing.offset");
    return found;
  }

  Stack stack(int side) const {
    const std::string name = side ? "decoder" : "encoder";
    Stack found{};
    found.tokens = config.vocabulary[side], found.channels = config.channels[side];
    found.width = padded(found.channels), found.heads = config.mixing_heads[side];
    found.is_gated = config.is_gated, found.is_matrix = config.is_matrix;
    found.attention_heads = config.heads;
    found.is_gelu = config.is_gelu, found.factor = config.factors[side];
    found.embedding = linear(config.embeddings[side]);
    found.positions = find(name + ".positions")->rows;
    found.positional = rows(name + ".positions");
    found.bytes.assign(config.bytes[side], config.bytes[side] + 256);
    for (int i = 0; i < config.layers[side]; ++i)
      found.layers.push_back(layer(name + "." + std::to_string(i), side));
    found.distances = int(found.layers[0].weights.size()) / found.heads;
    if (side) found.alpha = rows("decoder.output_scale");
    found.last = side ? linear("decoder.output") : linear("encoder.keys_values", 2 * config.layers[1]);
    return found;
  }
};

// Products with the rows of a step

struct Kernel {
  const char* name;
  bool (*runs_here)();
  // of at most BLOCK rows; sums are rows x WIDTH
  void (*dots)(const uint8_t* x, int rows, int inputs, const int8_t* weight, int32_t* sums);
  int signs;  // 128 where bytes are signed
  void (*product)(struct Search&, const Linear&, const float* x, int rows, float* y);
  void (*step)(Search&);
  void (*encode)(Search&, struct Sentence&);
  void (*configure)(bool begin) = nullptr;  // called when a search begins and when it ends
};

// The search

struct Hypothesis {
  float total = 0;
  int32_t newest = EOS, slot = 0;
  std::vector<int32_t> tokens;  // all
  std::vector<int32_t> slots;   // of those before the newest, from the EOS on which it begins

  Hypothesis continued(int32_t token, float total) const {
    Hypothesis next = *this;
    next.total = total, next.newest = token;
    next.tokens.push_back(token), next.slots.push_back(slot);
    return next;
  }
};

struct Sentence {
  int number, length;
  std::vector<Hypothesis> rows;
  bool done = false;
  std::vector<int32_t> other_bytes;  // tokens of bytes that the source does not have, sorted
  std::vector<float> past;          // slots x L x C: inputs of the mixing sublayers
  std::vector<float> keys, values;  // L x C x S, with S padded, and L x S x C

  // Give the newest tokens slots that no hypothesis reads any more.
  void find_slots(size_t size) {
    std::vector<char> used(past.size() / size);
    for (const Hypothesis& hypothesis : rows)
      for (int32_t slot : hypothesis.slots) used[slot] = 1;
    int32_t free = 0;
    for (Hypothesis& hypothesis : rows) {
      while (free < int(used.size()) && used[free]) ++free;
      hypothesis.slot = free++;
    }
    past.resize(std::max(past.size(), free * size));
  }
};

struct Request {
  int32_t sentences, length, beam, limit;
  int32_t no_repeat_ngram;  // size of n-grams that come once; 0: any
  int32_t threads;
  double lenpen;
  const int32_t *sources, *lengths;          // B x length, B
  const int32_t *prefixes, *prefix_lengths;  // of translations: B x limit, B; or null
  int32_t* counts;                           // of hypotheses
  float* scores;                             // B x beam; of given tokens: B x (limit + 1)
  int32_t* sizes;                            // B x beam
  int32_t* tokens;                           // B x beam x limit
};

struct Continuation {
  float score;
  int32_t token, parent;
};

struct Row {
  Sentence* sentence;
  const Hypothesis* hypothesis;
};

struct Search {
  const Kernel& kernel;
  const Stack &encoder, &model;
  const Request& request;
  const bool is_given;  // the prefixes are whole translations, whose tokens get scores
  int step = 0, count = 0;  // count: best tokens of each row
  std::vector<Sentence> sentences;
  std::vector<Row> rows;
  std::vector<const float*> from;  // rows that are mixed
  std::vector<float> x, h, y, mixed, wide, logits, weights;
  std::vector<uint8_t> bytes;            // inputs of a product, with scale and zero of each row
  std::vector<float> scale, best, ends;  // best: rows x count
  std::vector<int32_t> zero, tokens;     // tokens: rows x count

  float* past(const Row& row, size_t slot, int layer) const {
    return &row.sentence->past[(slot * model.layers.size() + layer) * model.width];
  }
  void product(const Linear& layer, const float* x, int rows, float* y) {
    kernel.product(*this, layer, x, rows, y);
  }
  int32_t forced(const Sentence& sentence) const;
  bool is_other_byte(const Row& row, int32_t token) const;
  bool repeats(const Row& row, int32_t token) const;
  void find_other_bytes(Sentence& sentence) const;
  void run(int first, int last);
  void advance(Sentence& sentence, int row);
};

// GCC's and Clang's vector types, compiled for each target (AVX2, AVX-512).

#define VECTORS(LANES)                                                \
  template <>                                                         \
  struct Vectors<LANES> {                                             \
    typedef float Floats __attribute__((vector_size(4 * LANES)));     \
    typedef int32_t Integers __attribute__((vector_size(4 * LANES))); \
    typedef uint8_t Bytes __attribute__((vector_size(LANES)));        \
  };
template <int LANES>
struct Vectors;
VECTORS(4)
VECTORS(8)
VECTORS(16)

template <int LANES>
struct Step {
  typedef typename Vectors<LANES>::Floats Floats;
  typedef typename Vectors<LANES>::Integers Integers;
  typedef typename Vectors<LANES>::Bytes Bytes;

  static INLINE Floats all(float x) { return Floats{} + x; }

  // The sum of value(0), value(LANES), ... value(size - LANES); 4 lanes add in the order of 8.
  template <class Value>
  static INLINE float sum(int size, Value value) {
    constexpr int PARTS = LANES == 4 ? 2 : 1;
    Floats sums[PARTS] = {};
    for (int i = 0; i < size; i += LANES * PARTS)
      for (int part = 0; part < PARTS; ++part) sums[part] += value(i + part * LANES);
    float lanes[LANES * PARTS];
    std::memcpy(lanes, sums, sizeof sums);
    for (int half = LANES * PARTS / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
    return lanes[0];
  }

  static INLINE Floats rounded(Floats v) {  // half to even, below 2^22
    return (v + 12582912.f) - 12582912.f;
  }

  template <size_t SIZE>
  static INLINE Floats polynomial(Floats x, const float (&coefficients)[SIZE]) {
    Floats y = all(coefficients[SIZE - 1]);
    for (int i = int(SIZE) - 2; i >= 0; --i) y = y * x + coefficients[i];
    return y;
  }

  static INLINE Floats exponential(Floats x) {  // 2^n exp(r)
    x = x < -87.f ? all(-87.f) : x > 88.f ? all(88.f) : x;
    const Floats n = rounded(x * float(1 / LN2));
    // the first product is exact
    const Floats r = (x - n * LN2_HIGH) - n * float(LN2 - LN2_HIGH);
    const Floats p = polynomial(r, EXPONENTIAL) * (r * r) + r + 1.f;
    const Integers power = (__builtin_convertvector(n, Integers) + 127) << 23;
    return p * load<Floats>(&power);
  }

  // max(x, 0) - |x| / 2 erfc(|x| / sqrt 2), which does not cancel
  static INLINE Floats gelu(Floats x) {
    const Floats size = x < 0.f ? -x : x;
    const Floats tail = exponential(size * polynomial(size, GELU_TAIL));
    return (x > 0.f ? x : Floats{}) - 0.5f * size * tail;
  }

  static INLINE void activate(bool is_gelu, float* x, size_t size) {
    for (size_t i = 0; i < size; i += LANES) {
      const Floats v = load<Floats>(x + i);
      store(x + i, is_gelu ? gelu(v) : v < 0.f ? Floats{} : v);
    }
  }

  static INLINE void add(float* x, const float* y, size_t size) {
    for (size_t i = 0; i < size; i += LANES)
      store(x + i, load<Floats>(x + i) + load<Floats>(y + i));
  }

  static INLINE void multiply(float* x, const float* y, size_t size) {
    for (size_t i = 0; i < size; i += LANES)
      store(x + i, load<Floats>(x + i) * load<Floats>(y + i));
  }

  // To bytes from 0, the least of a row or less, to 255, its largest.
  static INLINE void quantize(const float* x, int size, int signs, uint8_t* bytes, float& scale,
                              int32_t& zero) {
    Floats low{}, high{}, invalid{};
    for (int i = 0; i < size; i += LANES) {
      const Floats v = load<Floats>(x + i);
      low = v < low ? v : low, high = v > high ? v : high, invalid += v - v;
    }
    float least = 0, most = 0;
    for (int i = 0; i < LANES; ++i) least = std::min(least, low[i]), most = std::max(most, high[i]);
    scale = most == least ? 1 : (most - least) / 255;
    const float shift = std::nearbyint(std::min(255.f, -least / scale)), inverse = 1 / scale;
    for (int i = 0; i < size; i += LANES) {
      Floats v = rounded(load<Floats>(x + i) * inverse) + shift;
      v = v > 255.f ? all(255) : v > 0.f ? v : Floats{};
      const Integers n = __builtin_convertvector(v, Integers) - signs;
      store(bytes + i, __builtin_convertvector(n, Bytes));
    }
    zero = std::isfinite(shift) ? int32_t(shift) - signs : 0;
    for (int i = 0; i < LANES; ++i) scale += invalid[i];  // NaN if there is a NaN or an infinity
  }

  template <int ROWS>
  static INLINE void dot_floats(const Linear& layer, size_t column, const float* x, float* y) {
    constexpr int PARTS = PANEL / LANES;
    const float* weight = &layer.floats[column * layer.inputs];
    Floats sums[ROWS][PARTS] = {};
    for (int k = 0; k < layer.inputs; ++k, weight += PANEL) {
      __builtin_prefetch(weight + AHEAD / 2);
      for (int i = 0; i < PARTS; ++i) {
        const Floats w = load<Floats>(weight + LANES * i);
        for (int row = 0; row < ROWS; ++row) sums[row][i] += x[row * layer.inputs + k] * w;
      }
    }
    for (int row = 0; row < ROWS; ++row)
      for (int i = 0; i < PARTS; ++i)
        store(y + row * layer.outputs + i * LANES,
              sums[row][i] + load<Floats>(&layer.bias[column + i * LANES]));
  }

  static INLINE void product_body(Search& s, const Linear& layer, const float* x, int rows,
                                  float* y) {
    const size_t inputs = layer.inputs, outputs = layer.outputs;
    for (size_t c = 0; layer.integers.empty() && c < outputs; c += PANEL) {
      int row = 0;
      for (; row + 4 <= rows; row += 4)
        dot_floats<4>(layer, c, x + row * inputs, y + row * outputs + c);
      for (; row < rows; ++row) dot_floats<1>(layer, c, x + row * inputs, y + row * outputs + c);
    }
    if (layer.integers.empty()) return;
    s.bytes.resize(size_t(rows + BLOCK - 1) / BLOCK * BLOCK * inputs);  // AMX reads all of a block
    s.scale.resize(rows), s.zero.resize(rows);
    for (int row = 0; row < rows; ++row)
      quantize(x + row * inputs, inputs, s.kernel.signs, &s.bytes[row * inputs], s.scale[row],
               s.zero[row]);
    alignas(64) int32_t sums[BLOCK * WIDTH];
    for (size_t c = 0; c < outputs; c += WIDTH)
      for (int first = 0; first < rows; first += BLOCK) {
        const int count = std::min(BLOCK, rows - first);
        s.kernel.dots(&s.bytes[first * inputs], count, inputs, &layer.integers[c * inputs], sums);
        for (int i = 0; i < WIDTH; i += LANES) {
          const Integers of_zero = load<Integers>(&layer.sums[c + i]);
          const Floats scale = load<Floats>(&layer.scale[c + i]);
          const Floats bias = load<Floats>(&layer.bias[c + i]);
          for (int row = 0; row < count; ++row) {
            const Integers found =
                load<Integers>(sums + row * WIDTH + i) - of_zero * s.zero[first + row];
            const Floats value = __builtin_convertvector(found, Floats);
            store(y + (first + row) * outputs + c + i,
                  value * (scale * s.scale[first + row]) + bias);
          }
        }
      }
  }

  // A row of x, from the panels of the embedding.
  static INLINE void embed(const Stack& m, size_t token, int position, float* x) {
    const Linear& table = *m.embedding;
    const size_t panel = token / PANEL * PANEL * table.inputs, column = token % PANEL;
    const bool is_integer = !table.integers.empty();
    const float scale = is_integer ? m.factor * table.scale[token] : m.factor;
    std::fill(x, x + m.width, 0.f);
    for (int i = 0; i < m.channels; ++i)
      x[i] = scale * (is_integer ? table.integers[panel + i / 4 * 64 + column * 4 + i % 4]
                                 : table.floats[panel + i * PANEL + column]);
    add(x, &m.positional[size_t(position) * m.width], m.width);
  }

  // From channel *first* on: N vectors of the sum of *count* rows by their weights; the next channel.
  template <int N, class Source>
  static INLINE int weigh(int first, int size, int count, const float* weights, int next,
                          Source source, float* y) {
    for (; first + N * LANES <= size; first += N * LANES) {
      Floats sums[N] = {};
      for (int i = 0; i < count; ++i)
        for (int k = 0; k < N; ++k)
          sums[k] += weights[i * next] * load<Floats>(source(i) + first + k * LANES);
      for (int k = 0; k < N; ++k) store(y + first + k * LANES, sums[k]);
    }
    return first;
  }

  // The weight of each row comes *next* after the one before; size: of rows.
  template <class Source>
  static INLINE void weighted_sum(int size, int count, const float* weights, int next,
                                  Source source, float* y) {
    int i = weigh<WIDTH / LANES>(0, size, count, weights, next, source, y);
    i = weigh<1>(i, size, count, weights, next, source, y);
    for (; i < size; ++i) {
      y[i] = 0;
      for (int row = 0; row < count; ++row) y[i] += weights[row * next] * source(row)[i];
    }
  }

  // The sum of the rows of s.from, by the weights of each head.
  static INLINE void mix_rows(const Search& s, const Stack& m, const float* weights, int next,
                              float* y) {
    const int each = m.channels / m.heads, count = int(s.from.size());
    for (int first = 0; first < m.channels; first += each, weights += m.distances)
      weighted_sum(
          each, count, weights, next, [&](int i) INLINED { return s.from[i] + first; }, y + first);
    std::fill(y + m.channels, y + m.width, 0.f);
  }

  // ``A x`` for the newest token, by the weights of its distances to itself and those before it.
  static INLINE void mix(Search& s, int number, const Row& row, const float* x, float* y) {
    const Stack& m = s.model;
    const Layer& layer = m.layers[number];
    s.from.assign(1, x);
    const auto& slots = row.hypothesis->slots;
    for (size_t i = slots.size(); i-- > 0;) s.from.push_back(s.past(row, slots[i], number));
    mix_rows(s, m, &layer.weights[m.is_matrix ? s.step * (s.step + 1) / 2 : 0], 1, y);
    const float* offset = &layer.offset[size_t(s.step) * m.width];
    for (int i = 0; i < m.width; i += LANES)
      store(y + i, load<Floats>(y + i) * load<Floats>(&layer.scale[i]) + load<Floats>(offset + i));
  }

  static INLINE void gate(const Stack& m, float* gates, float* y) {
    activate(m.is_gelu, gates, m.width);
    multiply(y, gates, m.width);
  }

  static INLINE void mixing_branch(Search& s, int number) {
    const Stack& m = s.model;
    const Layer& layer = m.layers[number];
    const int count = int(s.rows.size()), width = m.width;
    const float* put = &s.x[0];  // what the next tokens read
    int stride = width;
    if (m.is_gated) {
      put = &s.wide[0], stride = 2 * width;
      s.product(*layer.mixing_in, &s.x[0], count, &s.wide[0]);
      for (int row = 0; row < count; ++row) {
        float *value = &s.wide[size_t(row) * stride], *y = &s.mixed[size_t(row) * width];
        mix(s, number, s.rows[row], value, y);
        gate(m, value + width, y);
      }
      s.product(*layer.mixing_out, &s.mixed[0], count, &s.y[0]);
    } else {
      for (int row = 0; row < count; ++row)
        mix(s, number, s.rows[row], &s.x[size_t(row) * width], &s.y[size_t(row) * width]);
    }
    for (const Row& row : s.rows) {
      std::copy_n(put, width, s.past(row, row.hypothesis->slot, number));
      put += stride;
    }
    add(&s.x[0], &s.y[0], size_t(count) * width);
  }

  // ``A x`` for all positions of a sentence.
  static INLINE void mix_sentence(Search& s, const Layer& layer, int count) {
    const Stack& m = s.encoder;
    const int width = m.width;
    const float* x = &s.x[0];
    const size_t stride = m.is_gated ? 2 * width : width;
    if (m.is_gated) s.product(*layer.mixing_in, x, count, &s.wide[0]);
    for (int row = 0; !m.is_gated && row < count; ++row)
      for (int i = 0; i < width; i += LANES)
        store(&s.wide[row * stride + i],
              load<Floats>(x + row * stride + i) * load<Floats>(&layer.scale[i]) +
                  load<Floats>(&layer.shift[i]));
    s.from.resize(count);
    for (int i = 0; i < count; ++i) s.from[i] = &s.wide[i * stride];
    for (size_t row = 0; row < size_t(count); ++row) {
      float* y = m.is_gated ? &s.mixed[row * width] : &s.y[row * width];
      const size_t begin = m.is_matrix ? row * m.positions : m.positions - 1 + row;
      mix_rows(s, m, &layer.weights[begin], m.is_matrix ? 1 : -1, y);
      add(y, &layer.offset[row * width], width);
      if (m.is_gated) gate(m, &s.wide[row * stride + width], y);
    }
    if (m.is_gated) s.product(*layer.mixing_out, &s.mixed[0], count, &s.y[0]);
    add(&s.x[0], &s.y[0], size_t(count) * width);
  }

  static INLINE void feed_forward(Search& s, const Stack& m, const Layer& layer, int count) {
    s.product(*layer.first, &s.x[0], count, &s.wide[0]);
    activate(m.is_gelu, &s.wide[0], size_t(count) * layer.first->outputs);
    s.product(*layer.second, &s.wide[0], count, &s.y[0]);
    add(&s.x[0], &s.y[0], size_t(count) * m.width);
  }

  // The keys and values of a sentence.
  static INLINE void encode_body(Search& s, Sentence& sentence) {
    const Stack& m = s.encoder;
    const int count = sentence.length;
    const int32_t* tokens = s.request.sources + size_t(sentence.number) * s.request.length;
    for (int row = 0; row < count; ++row) embed(m, tokens[row], row, &s.x[size_t(row) * m.width]);
    for (int i = 0; i < int(m.layers.size()); ++i) {
      mix_sentence(s, m.layers[i], count);
      feed_forward(s, m, m.layers[i], count);
    }
    s.product(*m.last, &s.x[0], count, &s.wide[0]);
    const size_t parts = s.model.layers.size(), width = s.model.width, room = padded(count);
    sentence.keys.resize(parts * width * room);
    sentence.values.resize(parts * width * count);
    for (int row = 0; row < count; ++row)
      for (size_t part = 0; part < parts; ++part) {
        const float* keys = &s.wide[row * size_t(m.last->outputs) + 2 * part * width];
        for (size_t i = 0; i < width; ++i)
          sentence.keys[(part * width + i) * room + row] = keys[i];
        std::copy_n(keys + width, width, &sentence.values[(part * count + row) * width]);
      }
  }

  // Cross-attention of one row; *query* is scaled.
  static INLINE void attend(Search& s, int number, const Row& row, const float* query, float* y) {
    const int heads = s.model.attention_heads, each = s.model.channels / heads, width = s.model.width;
    const int length = row.sentence->length, end = padded(length);
    for (int head = 0; head < heads; ++head, query += each, y += each) {
      const size_t first_channel = size_t(head) * each;
      const float* keys = &row.sentence->keys[(size_t(number) * width + first_channel) * end];
      const float* values =
          &row.sentence->values[size_t(number) * length * width + first_channel];
      weighted_sum(
          end, each, query, 1, [&](int c) INLINED { return keys + size_t(c) * end; },
          &s.weights[0]);
      std::fill(&s.weights[length], &s.weights[0] + end, -INFINITY);
      const float most = *std::max_element(&s.weights[0], &s.weights[length]);
      const float scale = 1 / sum(end, [&](int i) INLINED {
        const Floats weight = exponential(load<Floats>(&s.weights[i]) - most);
        store(&s.weights[i], weight);
        return weight;
      });
      weighted_sum(
          each, length, &s.weights[0], 1,
          [&](int i) INLINED { return values + size_t(i) * width; }, y);
      for (int c = 0; c < each; ++c) y[c] *= scale;
    }
  }

  // The *count* best tokens of a row, the best first, and the score of the end.
  static INLINE void choose(Search& s, int row, const float* logits) {
    const int32_t forced = s.forced(*s.rows[row].sentence);
    const int size = s.model.last->outputs, last = s.count - 1;
    float* best = &s.best[size_t(row) * s.count];
    int32_t* tokens = &s.tokens[size_t(row) * s.count];
    std::fill_n(best, s.count, -INFINITY);
    std::fill_n(tokens, s.count, PAD);
    float most = -INFINITY;
    for (int first = 0; first < size; first += WIDTH) {
      Floats most_here = load<Floats>(logits + first);
      for (int i = LANES; i < WIDTH; i += LANES) {
        const Floats v = load<Floats>(logits + first + i);
        most_here = v > most_here ? v : most_here;
      }
      float largest = -INFINITY;
      for (int i = 0; i < LANES; ++i) largest = std::max(largest, most_here[i]);
      most = std::max(most, largest);
      if (!(largest > best[last])) continue;
      for (int token = first; token < first + WIDTH; ++token) {
        float score = logits[token];
        if (!(score > best[last]) || s.repeats(s.rows[row], token)) continue;
        if (s.is_other_byte(s.rows[row], token)) score -= OTHER_BYTE;
        if (!(score > best[last])) continue;
        int place = last;
        for (; place > 0 && best[place - 1] < score; --place)
          best[place] = best[place - 1], tokens[place] = tokens[place - 1];
        best[place] = score, tokens[place] = token;
      }
    }
    const float total = std::log(
        sum(size, [&](int i) INLINED { return exponential(load<Floats>(logits + i) - most); }));
    if (forced >= 0) {
      std::fill_n(tokens, s.count, PAD);
      best[0] = logits[forced], tokens[0] = forced;
    }
    for (int i = 0; i <= last; ++i) best[i] = best[i] - most - total;
    s.ends[row] = logits[EOS] - most - total;
  }

  static INLINE void step_body(Search& s) {
    const Stack& m = s.model;
    const int count = int(s.rows.size());
    const size_t width = m.width;
    for (int row = 0; row < count; ++row)
      embed(m, s.rows[row].hypothesis->newest, s.step, &s.x[row * width]);
    for (int i = 0; i < int(m.layers.size()); ++i) {
      const Layer& layer = m.layers[i];
      mixing_branch(s, i);
      s.product(*layer.query, &s.x[0], count, &s.y[0]);
      for (int row = 0; row < count; ++row)
        attend(s, i, s.rows[row], &s.y[row * width], &s.h[row * width]);
      s.product(*layer.attended, &s.h[0], count, &s.y[0]);
      add(&s.x[0], &s.y[0], count * width);
      feed_forward(s, m, layer, count);
    }
    for (int row = 0; row < count; ++row) multiply(&s.x[row * width], &m.alpha[0], m.width);
    for (int first = 0; first < count; first += TILE) {
      const int rows = std::min(TILE, count - first);
      s.product(*m.last, &s.x[first * width], rows, &s.logits[0]);
      for (int row = 0; row < rows; ++row)
        choose(s, first + row, &s.logits[size_t(row) * m.last->outputs]);
    }
  }
};

// The only token that may come next; -1: any may.
int32_t Search::forced(const Sentence& sentence) const {
  const int size = request.prefixes ? request.prefix_lengths[sentence.number] : 0;
  if (step < size) return request.prefixes[size_t(sentence.number) * request.limit + step];
  return is_given ? EOS : -1;
}

bool Search::is_other_byte(const Row& row, int32_t token) const {
  const auto& others = row.sentence->other_bytes;
  return std::binary_search(others.begin(), others.end(), token);
}

// It would repeat an n-gram.
bool Search::repeats(const Row& row, int32_t token) const {
  const auto& tokens = row.hypothesis->tokens;
  const int before = request.no_repeat_ngram - 1, size = int(tokens.size());
  for (int end = before; before >= 0 && end < size; ++end)
    if (tokens[end] == token &&
        std::equal(tokens.end() - before, tokens.end(), tokens.begin() + end - before))
      return true;
  return false;
}

void Search::find_other_bytes(Sentence& sentence) const {
  const int32_t* source = request.sources + size_t(sentence.number) * request.length;
  const int32_t* end = source + sentence.length;
  for (int byte = 0; byte < 256; ++byte)
    if (model.bytes[byte] >= 0 && std::find(source, end, encoder.bytes[byte]) == end)
      sentence.other_bytes.push_back(model.bytes[byte]);
  std::sort(sentence.other_bytes.begin(), sentence.other_bytes.end());
}

void Search::run(int first, int last) {
  size_t most = size_t(last - first) * request.beam, longest = 0, wider = 0;
  for (int i = first; i < last; ++i) {
    sentences.push_back({i, request.lengths[i], {{}}});
    longest = std::max<size_t>(longest, request.lengths[i]);
  }
  most = std::max(most, longest);
  for (const Stack* stack : {&encoder, &model}) {
    wider = std::max<size_t>(wider, 2 * stack->width);  // values and gates
    for (int i = 0; i < int(stack->layers.size()); ++i)
      wider = std::max<size_t>(wider, stack->layers[i].first->outputs);
  }
  for (std::vector<float>* part : {&x, &h, &y, &mixed})
    part->resize(most * std::max(encoder.width, model.width));
  wide.resize(std::max(most * wider, longest * encoder.last->outputs));
  logits.resize(std::min<size_t>(TILE, most) * model.last->outputs);
  weights.resize(padded(request.length));
  count = std::min(2 * request.beam + 2, model.tokens);
  if (kernel.configure) kernel.configure(true);
  for (Sentence& sentence : sentences) {
    find_other_bytes(sentence);
    kernel.encode(*this, sentence);
  }
  std::fill(h.begin(), h.end(), 0.f);  // attention does not write the padding of a row
  for (step = 0; step <= request.limit && !sentences.empty(); ++step) {
    rows.clear();
    for (Sentence& sentence : sentences) {
      sentence.find_slots(size_t(model.layers.size()) * model.width);
      for (const Hypothesis& hypothesis : sentence.rows) rows.push_back({&sentence, &hypothesis});
    }
    best.resize(rows.size() * count), tokens.resize(rows.size() * count), ends.resize(rows.size());
    kernel.step(*this);
    int row = 0;
    for (Sentence& sentence : sentences) {
      const int count = int(sentence.rows.size());
      advance(sentence, row);
      row += count;
    }
    const auto done = [](const Sentence& sentence) { return sentence.done; };
    sentences.erase(std::remove_if(sentences.begin(), sentences.end(), done), sentences.end());
  }
  if (kernel.configure) kernel.configure(false);
}

// Finish hypotheses and choose those that continue, as fairseq's beam search does.
void Search::advance(Sentence& sentence, int first) {
  if (is_given) {
    const size_t place = size_t(first) * count;
    request.scores[size_t(sentence.number) * (request.limit + 1) + step] = best[place];
    sentence.done = step == request.prefix_lengths[sentence.number];
    sentence.rows[0] = sentence.rows[0].continued(tokens[place], 0);
    return;
  }
  int32_t& finished = request.counts[sentence.number];
  std::vector<Continuation> candidates;
  for (int row = 0; row < int(sentence.rows.size()); ++row) {
    const float total = sentence.rows[row].total, end = total + ends[first + row];
    if (!std::isfinite(end)) {
      finished = 0, sentence.done = true;
      return;
    }
    if (step == request.limit) candidates.push_back({end, EOS, row});
    for (int i = 0; i < count && step < request.limit; ++i) {
      const size_t place = size_t(first + row) * count + i;
      if (tokens[place] != PAD && (step > 0 || tokens[place] != EOS))
        candidates.push_back({best[place] + total, tokens[place], row});
    }
  }
  const auto better = [](const Continuation& a, const Continuation& b) {
    return a.score > b.score;
  };
  std::stable_sort(candidates.begin(), candidates.end(), better);
  if (step < request.limit)
    candidates.resize(std::min(candidates.size(), size_t(2) * request.beam));
  const auto continues = [](const Continuation& one) { return one.token != EOS; };
  const size_t beam = std::min(candidates.size(), size_t(request.beam));
  const float length = float(std::pow(double(step + 1), request.lenpen));
  for (size_t rank = 0; rank < beam && !sentence.done; ++rank) {
    if (continues(candidates[rank])) continue;
    const size_t place = size_t(sentence.number) * request.beam + finished;
    const auto& tokens = sentence.rows[candidates[rank].parent].tokens;
    request.scores[place] = candidates[rank].score / length;
    request.sizes[place] = int32_t(tokens.size());
    std::copy(tokens.begin(), tokens.end(), request.tokens + place * request.limit);
    sentence.done = ++finished == request.beam;
  }
  if (sentence.done || step == request.limit) return;
  const auto end = std::stable_partition(candidates.begin(), candidates.end(), continues);
  candidates.resize(std::min<size_t>(request.beam, end - candidates.begin()));
  std::vector<Hypothesis> next;
  for (const Continuation& one : candidates)
    next.push_back(sentence.rows[one.parent].continued(one.token, one.score));
  sentence.rows = std::move(next);
  sentence.done = sentence.rows.empty();  // every token is banned
}

// Kernels, the fastest first

#define LEVEL(NAME, LANES, FEATURES)                                                     \
  FEATURES void product_##NAME(Search& s, const Linear& layer, const float* x, int rows, \
                               float* y) {                                               \
    Step<LANES>::product_body(s, layer, x, rows, y);                                     \
  }                                                                                      \
  FEATURES void step_##NAME(Search& s) { Step<LANES>::step_body(s); }                    \
  FEATURES void encode_##NAME(Search& s, Sentence& sentence) {                           \
    Step<LANES>::encode_body(s, sentence);                                               \
  }

LEVEL(plain, 4, )
bool always() { return true; }
#if defined(__x86_64__)
LEVEL(avx2, 8, TARGET("avx2,fma"))
LEVEL(avx512, 16, TARGET("avx512f,avx512vnni,avx2,fma"))
#endif

const Kernel KERNELS[] = {
#ifdef HAS_AMX
    {"amx", has_amx, dot_amx, 0, product_avx512, step_avx512, encode_avx512, tiles},
#endif
#if defined(__x86_64__)
    {"avx512", has_avx512, dot_avx512, 0, product_avx512, step_avx512, encode_avx512},
    {"avx2", has_avx2, dot_avx2, 0, product_avx2, step_avx2, encode_avx2},
#elif defined(__aarch64__)
    {"neon", has_dot_products, dot_neon, 128, product_plain, step_plain, encode_plain},
#endif
    {"plain", always, dot_plain, 0, product_plain, step_plain, encode_plain},
};

template <class Work>
bool is_out_of_memory(Work work) {
#ifdef __wasm__  // without exceptions
  work();
#else
  try {
    work();
  } catch (const std::exception&) {
    return true;
  }
#endif
  return false;
}

// Threads have parts of the batch with about as many tokens each. Returns true if memory is out.
bool run_parts(const Search& search) {
  const Request& request = search.request;
  const int threads = std::max(1, std::min(request.threads, request.sentences));
  int64_t all = 0, seen = 0;
  for (int i = 0; i < request.sentences; ++i) all += request.lengths[i];
  std::vector<int> bounds{0};
  for (int i = 0; i < request.sentences; ++i) {
    seen += request.lengths[i];
    while (int(bounds.size()) <= threads && seen * threads >= all * int(bounds.size()))
      bounds.push_back(i + 1);
  }
  const auto part = [&](int i) { Search(search).run(bounds[i], bounds[i + 1]); };
#ifdef __wasm__  // without threads
  for (int number = 0; number < threads; ++number) part(number);
  return false;
#else
  std::vector<char> failed(threads);
  const auto guarded = [&](int i) { failed[i] = is_out_of_memory([&] { part(i); }); };
  std::vector<std::thread> others;
  is_out_of_memory([&] {  // or of threads
    while (int(others.size()) < threads - 1) others.emplace_back(guarded, int(others.size()));
  });
  for (int number = int(others.size()); number < threads; ++number) guarded(number);
  for (std::thread& other : others) other.join();
  return std::count(failed.begin(), failed.end(), 1) > 0;
#endif
}

}  // namespace

extern "C" {  // for ctypes

// The fastest kernel of this CPU, or that of a name; null: it does not run here.
const Kernel* resmlp_kernel(const char* name) {
  for (const Kernel& one : KERNELS)
    if ((!*name || !std::strcmp(one.name, name)) && one.runs_here()) return &one;
  return nullptr;
}

// A copy of the arrays, to be freed; null: out of memory
const Model* resmlp_load(const Array* arrays, const Config* config) {
  std::unique_ptr<Model> model;
  const bool failed = is_out_of_memory([&] {
    model.reset(new Model);
    const Loader loader{arrays, *config, *model};
    model->encoder = loader.stack(0), model->decoder = loader.stack(1);
  });
  return failed ? nullptr : model.release();
}

void resmlp_free(const Model* model) { delete model; }

// 0, or 1: out of memory
int resmlp_search(const Kernel* kernel, const Model* model, const Request* request) {
  return run_parts({*kernel, model->encoder, model->decoder, *request, false});
}

// The log probabilities of the tokens of given translations, the prefixes, and of their ends.
int resmlp_score(const Kernel* kernel, const Model* model, const Request* request) {
  return run_parts({*kernel, model->encoder, model->decoder, *request, true});
}

// Of the structures that a caller lays out.
const int32_t* resmlp_sizes() {
  static const int32_t sizes[] = {sizeof(Array), sizeof(Config), sizeof(Request)};
  return sizes;
}

}  // extern "C"
