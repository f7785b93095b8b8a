// SPDX-License-Identifier: MIT
// The encoder, the decoding step and the beam search of a model that `resmlp-mt export` wrote. A
// row is a hypothesis, or a token of a source. Sentences never mix: each has the same translations
// in any batch and on any number of threads. Widths are padded with zeros to a multiple of 32.

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <memory>
#include <new>
#include <string>
#include <vector>
#ifndef __wasm__
#include <future>
#endif

#include "products.h"

namespace {

constexpr int PAD = 1, EOS = 2;  // the first tokens of every fairseq dictionary
constexpr int TILE = 32;         // rows whose scores of all tokens are in the cache together

// Fitted by fit_polynomials.py; the constant coefficient comes first.
constexpr double LN2 = 0.693147180559945309;
constexpr float LN2_HIGH = 45426.f / 65536;  // its first 16 bits
constexpr float EXPONENTIAL[] = {0.49999994f, 0.166665211f, 0.041668389f, 0.00836871006f,
                                 0.00138146128f};
constexpr float GELU_TAIL[] = {-0.797889352f,   -0.318266958f,    -0.0364786796f,
                               0.00502214301f,  -0.000188588441f, -9.11303214e-05f,
                               1.94475942e-05f, -1.31841182e-06f};

int padded(int size, int to = WIDTH) { return (size + to - 1) / to * to; }

// What callers give, checked: the arrays of a folder, as folder.py lists them.
enum Type : int32_t { FLOAT32, FLOAT16, INT8 };

struct Array {
  const char* name;
  const void* data;
  int32_t type, rows, columns;  // columns: the last axis
};

struct Config {  // of the source and the target
  int32_t vocabulary[2], layers[2], channels[2], mixing_heads[2];
  int32_t heads, is_gated, is_matrix, is_gelu, is_normalized, arrays;  // heads: of the attention
  float factors[2];
  const char* embeddings[2];
};

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
  // The mixing is A (scale x + shift) + offset. Its weights are A as arrays.txt lists it, one head
  // after the other: by distance or, of a matrix, by rows, which begin with the newest token in the
  // decoder. The offset is N x width.
  Numbers weights, scale, shift, offset;
};

struct Stack {                     // encoder or decoder
  int channels, width, positions;  // width: padded channels
  int heads, distances;            // of the mixing; distances: weights of a head
  Config config;
  float factor;  // of embeddings
  const Linear* embedding;
  Numbers positional, alpha;
  std::vector<Layer> layers;
  const Linear* last;  // the output layer; or keys and values of all layers, each padded
};

struct Model {
  std::map<std::string, Linear> linears;  // embeddings may be the output layer
  Stack encoder, decoder;
};

struct Loader {
  const Config& config;
  Model& model;
  std::map<std::string, Array> arrays;

  static float number(const Array& array, size_t place) {
    if (array.type == FLOAT32) return load<float>(static_cast<const float*>(array.data) + place);
    const uint32_t half = load<uint16_t>(static_cast<const uint16_t*>(array.data) + place);
    const uint32_t bits = (half & 0x8000) << 16 | (half & 0x7fff) << 13;
    const float value = load<float>(&bits) * 0x1p112f;  // the exponent begins elsewhere
    return std::abs(value) < 0x1p16f ? value : NAN;     // infinity is not a weight either
  }

  // None, if a model of this kind has no such array.
  Numbers numbers(const std::string& name) const {
    if (!arrays.count(name)) return {};
    const Array& array = arrays.at(name);
    Numbers found(size_t(array.rows) * array.columns);
    for (size_t i = 0; i < found.size(); ++i) found[i] = number(array, i);
    return found;
  }

  // Each of the *parts* of the rows, padded.
  Numbers rows(const std::string& name, int parts = 1, float filler = 0) const {
    const Numbers all = numbers(name);
    if (all.empty()) return {};
    const size_t size = arrays.at(name).columns / parts, room = padded(int(size));
    Numbers found(all.size() / size * room, filler);
    for (size_t i = 0; i < all.size(); ++i) found[i / size * room + i % size] = all[i];
    return found;
  }

  // Panels of 16 columns, with the bytes of four inputs side by side.
  const Linear* linear(const std::string& name, int parts = 1) const {
    if (!arrays.count(name + ".weight")) return nullptr;
    const auto [place, is_new] = model.linears.insert({name, {}});
    Linear& layer = place->second;
    if (!is_new) return &layer;
    const Array& weight = arrays.at(name + ".weight");
    const int size = weight.columns / parts, room = padded(size);
    const bool is_integer = weight.type == INT8;
    layer.inputs = padded(weight.rows), layer.outputs = parts * room;
    const size_t all = size_t(layer.inputs) * layer.outputs;
    layer.integers.resize(is_integer ? all : 0), layer.floats.resize(is_integer ? 0 : all);
    layer.sums.resize(layer.outputs);
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
    layer.scale = rows(name + ".scale", parts);
    // no token is at the end of the padded vocabulary
    const float filler = name == "decoder.output" ? -INFINITY : 0;
    layer.bias = rows(name + ".bias", parts, filler);
    return &layer;
  }

  Stack stack(int side) const {
    const std::string name = side ? "decoder" : "encoder";
    Stack found{};
    found.channels = config.channels[side];
    found.width = padded(found.channels);
    found.positions = arrays.at(name + ".positions").rows;
    found.heads = config.mixing_heads[side];
    found.config = config;
    found.factor = config.factors[side];
    found.embedding = linear(config.embeddings[side]);
    found.positional = rows(name + ".positions");
    for (int i = 0; i < config.layers[side]; ++i) {
      const std::string layer = name + "." + std::to_string(i), mixing = layer + ".mixing.";
      found.layers.push_back({linear(layer + ".value_gate", 2), linear(layer + ".output"),
                              linear(layer + ".query"), linear(layer + ".attended"),
                              linear(layer + ".first"), linear(layer + ".second"),
                              numbers(mixing + "weights"), rows(mixing + "scale"),
                              rows(mixing + "shift"), rows(mixing + "offset")});
      found.layers[i].shift.resize(found.width);
    }
    found.distances = int(found.layers[0].weights.size()) / found.heads;
    found.alpha = rows(name + ".output_scale");
    const int parts = 2 * config.layers[1];
    found.last = side ? linear("decoder.output") : linear("encoder.keys_values", parts);
    return found;
  }
};

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

struct Hypothesis {
  struct Sentence* sentence = nullptr;
  float total = 0;
  std::vector<int32_t> tokens;
  // of the EOS on which it begins, and of each token: inputs of all mixing sublayers
  std::vector<std::shared_ptr<Numbers>> past;

  // It would repeat an n-gram.
  bool repeats(int32_t token, int size) const {
    const int before = size - 1, count = int(tokens.size());
    for (int end = before; before >= 0 && end < count; ++end)
      if (tokens[end] == token &&
          std::equal(tokens.end() - before, tokens.end(), tokens.begin() + end - before))
        return true;
    return false;
  }
};

struct Sentence {
  int number, length;
  std::vector<Hypothesis> rows{1};
  bool done = false;
  std::vector<float> keys, values;  // L x C x S, with S padded, and L x S x C
};

struct Request {
  int32_t sentences, length, beam, limit;
  int32_t no_repeat_ngram;  // size of n-grams that come once; 0: any
  int32_t threads;
  double lenpen;
  const int32_t *sources, *lengths;          // B x length, B
  const int32_t *prefixes, *prefix_lengths;  // of translations: B x limit, B; or null
  int32_t* counts;  // of hypotheses; null: the prefixes are whole, and their tokens get scores
  float* scores;                             // B x beam; of given tokens: B x (limit + 1)
  int32_t* sizes;                            // B x beam
  int32_t* tokens;                           // B x beam x limit
};

struct Continuation {
  float score;
  int32_t token, parent;
  bool operator<(const Continuation& other) const { return score > other.score; }  // the best first
};

struct Search {
  const Kernel& kernel;
  const Stack &encoder, &decoder;
  const Request& request;
  int step = 0, count = 0;  // count: best tokens of each row
  std::vector<Sentence> sentences;
  std::vector<const Hypothesis*> rows;
  std::vector<const float*> from;  // rows that are mixed
  // x: states, to which y is added; read: x, normalized; h: what attention found, padded with 0;
  // wide: values and gates, hidden units, or keys and values; weights: of attention
  std::vector<float> x, read, h, y, mixed, wide, logits, weights;
  std::vector<uint8_t> bytes;            // inputs of a product, with scale and zero of each row
  std::vector<float> scale, best, ends;  // best: rows x count
  std::vector<int32_t> zero, tokens;     // tokens: rows x count

  void run(int first, int last) {
    const size_t longest = request.length;
    const size_t most = std::max(size_t(last - first) * request.beam, longest);
    for (int i = first; i < last; ++i) sentences.push_back({i, request.lengths[i]});
    size_t wider = 0;
    for (const Stack* stack : {&encoder, &decoder})  // values and gates; hidden units
      wider = std::max({wider, size_t(2) * stack->width, size_t(stack->layers[0].first->outputs)});
    for (std::vector<float>* part : {&x, &read, &h, &y, &mixed})
      part->resize(most * std::max(encoder.width, decoder.width));
    wide.resize(std::max(most * wider, longest * encoder.last->outputs));
    logits.resize(std::min<size_t>(TILE, most) * decoder.last->outputs);
    weights.resize(padded(request.length));
    count = std::min(2 * request.beam + 2, decoder.config.vocabulary[1]);
    if (kernel.configure) kernel.configure(true);
    for (Sentence& sentence : sentences) kernel.encode(*this, sentence);
    for (step = 0; step <= request.limit && !sentences.empty(); ++step) {
      rows.clear();
      for (Sentence& sentence : sentences)
        for (Hypothesis& hypothesis : sentence.rows) {
          const size_t inputs = decoder.layers.size() * decoder.width;
          hypothesis.past.push_back(std::make_shared<Numbers>(inputs));
          hypothesis.sentence = &sentence;
          rows.push_back(&hypothesis);
        }
      ends.resize(rows.size()), best.resize(rows.size() * count), tokens.resize(best.size());
      kernel.step(*this);
      int row = 0;
      for (Sentence& sentence : sentences) {
        const int next = row + int(sentence.rows.size());
        advance(sentence, row);
        row = next;
      }
      const auto done = [](const Sentence& sentence) { return sentence.done; };
      sentences.erase(std::remove_if(sentences.begin(), sentences.end(), done), sentences.end());
    }
    if (kernel.configure) kernel.configure(false);
  }

  // Finish hypotheses and choose those that continue, as fairseq's beam search does.
  void advance(Sentence& sentence, int first) {
    if (!request.counts) {
      const size_t place = size_t(first) * count;
      request.scores[size_t(sentence.number) * (request.limit + 1) + step] = best[place];
      sentence.done = step == request.prefix_lengths[sentence.number];
      sentence.rows[0].tokens.push_back(tokens[place]);
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
    std::stable_sort(candidates.begin(), candidates.end());
    candidates.resize(std::min(candidates.size(), size_t(2) * request.beam));
    std::vector<Hypothesis> next;
    for (size_t rank = 0; rank < candidates.size(); ++rank) {
      const auto [score, token, parent] = candidates[rank];
      if (token != EOS && next.size() < size_t(request.beam)) {
        next.push_back(sentence.rows[parent]);
        next.back().total = score, next.back().tokens.push_back(token);
      }
      if (token != EOS || rank >= size_t(request.beam) || finished == request.beam) continue;
      const size_t place = size_t(sentence.number) * request.beam + finished++;
      const auto& found = sentence.rows[parent].tokens;
      request.scores[place] = score / float(std::pow(double(step + 1), request.lenpen));
      request.sizes[place] = int32_t(found.size());
      std::copy(found.begin(), found.end(), request.tokens + place * request.limit);
    }
    // none continues where every token is banned
    sentence.done = finished == request.beam || next.empty();
    sentence.rows = std::move(next);
  }
};

// GCC's and Clang's vector types, compiled for each target (AVX2, AVX-512).

// Outside of Step, since GCC ignores a size that alone depends on a template.
template <class T, int LANES>
struct Vector {
  typedef T Type __attribute__((vector_size(sizeof(T) * LANES)));
};

template <int LANES>
struct Step {
  typedef typename Vector<float, LANES>::Type Floats;
  typedef typename Vector<int32_t, LANES>::Type Integers;
  typedef typename Vector<uint8_t, LANES>::Type Bytes;

  // The sum of value(0), value(LANES), ... value(size - LANES)
  template <class Value>
  static INLINE float sum(int size, Value value) {
    Floats sums{};
    for (int i = 0; i < size; i += LANES) sums += value(i);
    for (int half = LANES / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) sums[i] += sums[i + half];
    return sums[0];
  }

  static INLINE Floats rounded(Floats v) {  // half to even, below 2^22
    return (v + 12582912.f) - 12582912.f;
  }

  template <size_t SIZE>
  static INLINE Floats polynomial(Floats x, const float (&coefficients)[SIZE]) {
    Floats y = Floats{} + coefficients[SIZE - 1];
    for (int i = int(SIZE) - 2; i >= 0; --i) y = y * x + coefficients[i];
    return y;
  }

  static INLINE Floats exponential(Floats x) {  // 2^n exp(r)
    x = x < -87.f ? Floats{} - 87.f : x > 88.f ? Floats{} + 88.f : x;
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
      v = v > 255.f ? Floats{} + 255.f : v > 0.f ? v : Floats{};
      const Integers n = __builtin_convertvector(v, Integers) - signs;
      store(bytes + i, __builtin_convertvector(n, Bytes));
    }
    zero = std::isfinite(shift) ? int32_t(shift) - signs : 0;
    for (int i = 0; i < LANES; ++i) scale += invalid[i];  // NaN if there is a NaN or an infinity
  }

  // Of two panels, together where there are registers: a sum waits for the one before.
  template <int ROWS>
  static INLINE void dot_floats(const Linear& layer, size_t column, const float* x, float* y) {
    constexpr int PARTS = PANEL / LANES, TOGETHER = 2 * ROWS * PARTS <= 8 ? 2 : 1;
    const size_t next = size_t(PANEL) * layer.inputs;
    for (int panel = 0; panel < 2; panel += TOGETHER, column += TOGETHER * PANEL) {
      const float* weight = &layer.floats[column * layer.inputs];
      Floats sums[TOGETHER][ROWS][PARTS] = {};
      for (int k = 0; k < layer.inputs; ++k, weight += PANEL)
        for (int p = 0; p < TOGETHER; ++p) {
          __builtin_prefetch(weight + p * next + AHEAD / 2);
          for (int i = 0; i < PARTS; ++i) {
            const Floats w = load<Floats>(weight + p * next + LANES * i);
            for (int row = 0; row < ROWS; ++row) sums[p][row][i] += x[row * layer.inputs + k] * w;
          }
        }
      for (int p = 0; p < TOGETHER; ++p)
        for (int row = 0; row < ROWS; ++row)
          for (int i = 0; i < PARTS; ++i) {
            const size_t place = column + p * PANEL + i * LANES;
            store(y + row * layer.outputs + place,
                  sums[p][row][i] + load<Floats>(&layer.bias[place]));
          }
    }
  }

  static INLINE void product_body(Search& s, const Linear& layer, const float* x, int rows,
                                  float* y) {
    const size_t inputs = layer.inputs, outputs = layer.outputs;
    for (size_t c = 0; layer.integers.empty() && c < outputs; c += WIDTH) {
      int row = 0;
      for (; row + 4 <= rows; row += 4)
        dot_floats<4>(layer, c, x + row * inputs, y + row * outputs);
      for (; row + 2 <= rows; row += 2)
        dot_floats<2>(layer, c, x + row * inputs, y + row * outputs);
      if (row < rows) dot_floats<1>(layer, c, x + row * inputs, y + row * outputs);
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

  // The sum of *count* rows, N vectors at a time from channel *first* on. Returns the first channel
  // that is left.
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

  // The weighted sum of *count* rows of *size* numbers. Their weights are *next* places apart.
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

  // What a sublayer reads: s.x, or fairseq's LayerNorm of it without scale and shift.
  static INLINE float* normal(Search& s, const Stack& m, int count) {
    if (!m.config.is_normalized) return &s.x[0];
    std::copy_n(&s.x[0], size_t(count) * m.width, &s.read[0]);
    for (float* row = &s.read[0]; row < &s.read[0] + size_t(count) * m.width; row += m.width) {
      const auto at = [&](int i) INLINED { return load<Floats>(row + i); };
      const float mean = sum(m.width, at) / m.channels;
      for (int i = 0; i < m.width; i += LANES) store(row + i, at(i) - mean);
      std::fill(row + m.channels, row + m.width, 0.f);
      const float squares = sum(m.width, [&](int i) INLINED { return at(i) * at(i); });
      const float scale = 1 / std::sqrt(squares / m.channels + 1e-5f);
      for (int i = 0; i < m.width; i += LANES) store(row + i, at(i) * scale);
    }
    return &s.read[0];
  }

  // A and what is around it: for the tokens of a sentence, or for the newest token of each row.
  static INLINE void mixing_branch(Search& s, const Stack& m, int number, int count) {
    const Layer& layer = m.layers[number];
    const bool is_decoder = &m == &s.decoder;
    const size_t width = m.width, stride = m.config.is_gated ? 2 * width : width;
    float *values = &s.wide[0], *y = m.config.is_gated ? &s.mixed[0] : &s.y[0];
    if (m.config.is_gated)
      s.kernel.product(s, *layer.mixing_in, normal(s, m, count), count, values);
    else
      std::copy_n(normal(s, m, count), count * width, values);
    s.from.clear();
    for (int row = 0; row < count; ++row) {
      s.from.push_back(values + row * stride);
      multiply(values + row * stride, &layer.scale[0], width);
      add(values + row * stride, &layer.shift[0], width);
    }
    for (int row = 0; row < count; ++row, values += stride, y += width) {
      // in the weights of each head, that of s.from[0]
      size_t begin = m.config.is_matrix ? row * m.positions : m.positions - 1 + row;
      if (is_decoder) {
        begin = m.config.is_matrix ? s.step * (s.step + 1) / 2 : 0;
        const auto& past = s.rows[row]->past;
        std::copy_n(values, width, &(*past.back())[number * width]);
        s.from.clear();
        for (size_t i = past.size(); i-- > 0;) s.from.push_back(&(*past[i])[number * width]);
      }
      mix_rows(s, m, &layer.weights[begin], m.config.is_matrix || is_decoder ? 1 : -1, y);
      add(y, &layer.offset[(is_decoder ? s.step : row) * width], width);
      if (!m.config.is_gated) continue;
      activate(m.config.is_gelu, values + width, width);
      multiply(y, values + width, width);
    }
    if (m.config.is_gated) s.kernel.product(s, *layer.mixing_out, &s.mixed[0], count, &s.y[0]);
    add(&s.x[0], &s.y[0], count * width);
  }

  static INLINE void feed_forward(Search& s, const Stack& m, const Layer& layer, int count) {
    s.kernel.product(s, *layer.first, normal(s, m, count), count, &s.wide[0]);
    activate(m.config.is_gelu, &s.wide[0], size_t(count) * layer.first->outputs);
    s.kernel.product(s, *layer.second, &s.wide[0], count, &s.y[0]);
    add(&s.x[0], &s.y[0], size_t(count) * m.width);
  }

  // The keys and values of a sentence.
  static INLINE void encode_body(Search& s, Sentence& sentence) {
    const Stack& m = s.encoder;
    const int count = sentence.length;
    const int32_t* tokens = s.request.sources + size_t(sentence.number) * s.request.length;
    for (int row = 0; row < count; ++row) embed(m, tokens[row], row, &s.x[size_t(row) * m.width]);
    for (int i = 0; i < int(m.layers.size()); ++i) {
      mixing_branch(s, m, i, count);
      feed_forward(s, m, m.layers[i], count);
    }
    s.kernel.product(s, *m.last, normal(s, m, count), count, &s.wide[0]);
    const size_t parts = s.decoder.layers.size(), width = s.decoder.width;
    const size_t room = padded(count, LANES);
    sentence.keys.resize(parts * width * room);
    sentence.values.resize(parts * width * count);
    for (int row = 0; row < count; ++row)
      for (size_t part = 0; part < parts; ++part) {
        const float* keys = &s.wide[row * size_t(m.last->outputs) + 2 * part * width];
        for (size_t i = 0; i < width; ++i) sentence.keys[(part * width + i) * room + row] = keys[i];
        std::copy_n(keys + width, width, &sentence.values[(part * count + row) * width]);
      }
  }

  // Cross-attention of one row; *query* is scaled.
  static INLINE void attend(Search& s, int number, const Hypothesis& row, const float* query,
                            float* y) {
    const Stack& m = s.decoder;
    const int heads = m.config.heads, each = m.channels / heads, width = m.width;
    const int length = row.sentence->length, end = padded(length, LANES);
    float* weights = s.weights.data();
    for (int head = 0; head < heads; ++head, query += each, y += each) {
      const size_t first_channel = size_t(head) * each;
      const float* keys = &row.sentence->keys[(size_t(number) * width + first_channel) * end];
      const float* values = &row.sentence->values[size_t(number) * length * width + first_channel];
      weighted_sum(
          end, each, query, 1, [&](int c) INLINED { return keys + size_t(c) * end; }, weights);
      std::fill(weights + length, weights + end, -INFINITY);
      const float most = *std::max_element(weights, weights + length);
      const float scale = 1 / sum(end, [&](int i) INLINED {
                            const Floats weight = exponential(load<Floats>(weights + i) - most);
                            store(weights + i, weight);
                            return weight;
                          });
      weighted_sum(
          each, length, weights, 1, [&](int i) INLINED { return values + size_t(i) * width; },
          y);
      for (int c = 0; c < each; ++c) y[c] *= scale;
    }
  }

  // The *count* best tokens of a row, the best first, and the score of the end.
  static INLINE void choose(Search& s, int row, const float* logits) {
    const Hypothesis& hypothesis = *s.rows[row];
    const Sentence& sentence = *hypothesis.sentence;
    const Request& given = s.request;
    int32_t forced = given.counts ? -1 : EOS;  // the only token that may come; -1: any may
    if (given.prefixes && s.step < given.prefix_lengths[sentence.number])
      forced = given.prefixes[size_t(sentence.number) * given.limit + s.step];
    const int size = s.decoder.last->outputs, last = s.count - 1;
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
        if (!(score > best[last]) || hypothesis.repeats(token, given.no_repeat_ngram)) continue;
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
    const Stack& m = s.decoder;
    const int count = int(s.rows.size());
    const size_t width = m.width;
    for (int row = 0; row < count; ++row) {
      const auto& tokens = s.rows[row]->tokens;
      embed(m, tokens.empty() ? EOS : tokens.back(), s.step, &s.x[row * width]);
    }
    for (int i = 0; i < int(m.layers.size()); ++i) {
      const Layer& layer = m.layers[i];
      mixing_branch(s, m, i, count);
      s.kernel.product(s, *layer.query, normal(s, m, count), count, &s.y[0]);
      for (int row = 0; row < count; ++row)
        attend(s, i, *s.rows[row], &s.y[row * width], &s.h[row * width]);
      s.kernel.product(s, *layer.attended, &s.h[0], count, &s.y[0]);
      add(&s.x[0], &s.y[0], count * width);
      feed_forward(s, m, layer, count);
    }
    float* last = normal(s, m, count);
    for (int row = 0; row < count; ++row) multiply(last + row * width, &m.alpha[0], m.width);
    for (int first = 0; first < count; first += TILE) {
      const int rows = std::min(TILE, count - first);
      s.kernel.product(s, *m.last, last + first * width, rows, &s.logits[0]);
      for (int row = 0; row < rows; ++row)
        choose(s, first + row, &s.logits[size_t(row) * m.last->outputs]);
    }
  }
};

// Kernels, the fastest first

#define LEVEL(NAME, LANES, FEATURES)                                                             \
  FEATURES void product_##NAME(Search& s, const Linear& l, const float* x, int rows, float* y) { \
    Step<LANES>::product_body(s, l, x, rows, y);                                                 \
  }                                                                                              \
  FEATURES void step_##NAME(Search& s) { Step<LANES>::step_body(s); }                            \
  FEATURES void encode_##NAME(Search& s, Sentence& sentence) {                                   \
    Step<LANES>::encode_body(s, sentence);                                                       \
  }

LEVEL(plain, 4, )
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
#ifdef HAS_AVX_VNNI
    {"avxvnni", has_avxvnni, dot_avxvnni, 0, product_avx2, step_avx2, encode_avx2},
#endif
    {"avx2", has_avx2, dot_avx2, 0, product_avx2, step_avx2, encode_avx2},
#elif defined(__aarch64__)
    {"neon", has_dot_products, dot_neon, 128, product_plain, step_plain, encode_plain},
#endif
    {"plain", [] { return true; }, dot_plain, 0, product_plain, step_plain, encode_plain},
};

// Runs *count* parts, each in a thread of its own. Returns true if memory, or threads, are out.
template <class Part>
bool run_parts(int count, Part part) {
#ifdef __wasm__  // without threads and exceptions
  for (int number = 0; number < count; ++number) part(number);
#else
  try {
    std::vector<std::future<void>> parts;
    for (int i = 0; i < count; ++i)
      parts.push_back(std::async(i ? std::launch::async : std::launch::deferred, part, i));
    for (std::future<void>& one : parts) one.get();
  } catch (const std::exception&) {
    return true;
  }
#endif
  return false;
}

// Threads have parts of the batch with about as many tokens each.
bool run_search(const Search& search) {
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
  return run_parts(threads, [&](int i) { Search(search).run(bounds[i], bounds[i + 1]); });
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
  const bool failed = run_parts(1, [&](int) {
    model.reset(new Model);
    Loader loader{*config, *model, {}};
    for (int i = 0; i < config->arrays; ++i) loader.arrays[arrays[i].name] = arrays[i];
    model->encoder = loader.stack(0), model->decoder = loader.stack(1);
  });
  return failed ? nullptr : model.release();
}

void resmlp_free(const Model* model) { delete model; }

// 0, or 1: out of memory
int resmlp_search(const Kernel* kernel, const Model* model, const Request* request) {
  return run_search({*kernel, model->encoder, model->decoder, *request});
}

// Of the structures that a caller lays out.
const int32_t* resmlp_sizes() {
  static const int32_t sizes[] = {sizeof(Array), sizeof(Config), sizeof(Request),
                                  offsetof(Config, factors), offsetof(Request, lenpen)};
  return sizes;
}

}  // extern "C"
