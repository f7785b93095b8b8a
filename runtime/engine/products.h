// SPDX-License-Identifier: MIT
// Products of integers: up to 32 rows of bytes with two panels. A panel has 16 columns, and the
// bytes of four inputs lie side by side. The sums, rows x 32, are exact: every kernel gives the
// same.

#pragma once

#include <cstdint>
#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#if defined(__linux__) && (defined(__clang__) || __GNUC__ >= 11)
#define HAS_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if __has_include(<avxvnniintrin.h>)  // GCC 11, Clang 12
#define HAS_AVX_VNNI
#endif
#elif defined(__wasm_simd128__)
#include <wasm_simd128.h>
#else
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif
#endif

#define INLINED __attribute__((always_inline))
#define INLINE inline INLINED
#define TARGET(features) __attribute__((target(features)))

namespace {

constexpr int PANEL = 16, WIDTH = 2 * PANEL, BLOCK = 32;
constexpr int AHEAD = 1024;  // bytes by which weights are fetched ahead

template <class V, class T>
INLINE V load(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

template <class V, class T>
INLINE void store(T* p, V v) {
  std::memcpy(p, &v, sizeof v);
}

// V holds the sums of several columns; ADD adds four products to each.

#define DOT(NAME, FEATURES, V, ADD)                                                              \
  template <int ROWS>                                                                            \
  FEATURES void NAME##_some(const uint8_t* x, int inputs, const int8_t* weight, int32_t* sums) { \
    constexpr int COUNT = 4 * PANEL / sizeof(V), TOGETHER = COUNT == 1 ? 2 : 1;                  \
    for (int panel = 0; panel < 2; panel += TOGETHER) {                                          \
      V found[TOGETHER][COUNT][ROWS] = {};                                                       \
      for (int k = 0; k < inputs; k += 4)                                                        \
        for (int p = 0; p < TOGETHER; ++p) {                                                     \
          const int8_t* from = weight + ((panel + p) * inputs + k) * PANEL;                      \
          __builtin_prefetch(from + AHEAD);                                                      \
          for (int i = 0; i < COUNT; ++i) {                                                      \
            V w;                                                                                 \
            std::memcpy(&w, from + i * sizeof w, sizeof w);                                      \
            for (int row = 0; row < ROWS; ++row)                                                 \
              found[p][i][row] = ADD(found[p][i][row], load<int32_t>(x + row * inputs + k), w);  \
          }                                                                                      \
        }                                                                                        \
      for (int row = 0; row < ROWS; ++row)                                                       \
        for (int p = 0; p < TOGETHER; ++p)                                                       \
          for (int i = 0; i < COUNT; ++i)                                                        \
            std::memcpy(sums + row * WIDTH + (panel + p) * PANEL + i * PANEL / COUNT,            \
                        &found[p][i][row], sizeof(V));                                           \
    }                                                                                            \
  }                                                                                              \
  FEATURES void NAME(const uint8_t* x, int rows, int inputs, const int8_t* weight,               \
                     int32_t* sums) {                                                            \
    int row = 0;                                                                                 \
    for (; row + 4 <= rows; row += 4)                                                            \
      NAME##_some<4>(x + row * inputs, inputs, weight, sums + row * WIDTH);                      \
    for (; row + 2 <= rows; row += 2)                                                            \
      NAME##_some<2>(x + row * inputs, inputs, weight, sums + row * WIDTH);                      \
    if (row < rows) NAME##_some<1>(x + row * inputs, inputs, weight, sums + row * WIDTH);        \
  }

typedef int32_t Fours __attribute__((vector_size(16)));
typedef int16_t Eights __attribute__((vector_size(16)));

// The sums of neighbouring products, which the sets of 128 bits have as an instruction.
INLINE Fours add_pairs(Eights a, Eights b) {
#if defined(__x86_64__)
  return Fours(_mm_madd_epi16(__m128i(a), __m128i(b)));
#elif defined(__wasm_simd128__)
  return Fours(wasm_i32x4_dot_i16x8(v128_t(a), v128_t(b)));
#else
  return vpaddq_s32(vmull_s16(vget_low_s16(a), vget_low_s16(b)), vmull_high_s16(a, b));
#endif
}

INLINE Fours add_plain(Fours sums, int32_t x, Fours w) {  // of 16 bits the even and the odd byte
  const Eights even = Eights(w << 8) >> 8, odd = Eights(w) >> 8;
  const int32_t bytes = 0xff00ff;
  return sums + add_pairs(even, Eights(Fours{} + (x & bytes))) +
         add_pairs(odd, Eights(Fours{} + (x >> 8 & bytes)));
}
DOT(dot_plain, , Fours, add_plain)

#if defined(__x86_64__)
TARGET("avx2") INLINE __m256i add_avx2(__m256i sums, int32_t x, __m256i w) {
  const __m256i pairs =
      _mm256_maddubs_epi16(_mm256_set1_epi32(x), w);  // the export keeps them small
  return _mm256_add_epi32(sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
DOT(dot_avx2, TARGET("avx2"), __m256i, add_avx2)

TARGET("avx512f,avx512vnni") INLINE __m512i add_avx512(__m512i sums, int32_t x, __m512i w) {
  return _mm512_dpbusd_epi32(sums, _mm512_set1_epi32(x), w);
}
DOT(dot_avx512, TARGET("avx512f,avx512vnni"), __m512i, add_avx512)

// Features of leaf 7, FMA, and the registers that the system saves. (__builtin_cpu_supports finds
// nothing where zig links its own library.)
bool has(unsigned saved, unsigned ebx, unsigned ecx, unsigned edx) {
  unsigned a, b, c = 0, d = 0, low, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || ~c & (1 << 12 | 1 << 27)) return false;  // FMA, OSXSAVE
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  if ((low & saved) != saved || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return false;
  return (b & ebx) == ebx && (c & ecx) == ecx && (d & edx) == edx;
}
bool has_avx2() { return has(0x6, 1 << 5, 0, 0); }
bool has_avx512() { return has(0xe6, 1 << 5 | 1 << 16, 1 << 11, 0); }  // F, VNNI

#ifdef HAS_AVX_VNNI
bool has_avxvnni() {
  unsigned a, b, c, d;
  return has_avx2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && a & 1 << 4;
}
TARGET("avx2,avxvnni") INLINE __m256i add_avxvnni(__m256i sums, int32_t x, __m256i w) {
  return _mm256_dpbusd_avx_epi32(sums, _mm256_set1_epi32(x), w);
}
DOT(dot_avxvnni, TARGET("avx2,avxvnni"), __m256i, add_avxvnni)
#endif

#ifdef HAS_AMX
bool has_amx() {  // Linux has to be asked first: ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return has_avx512() && has(0, 0, 0, 1 << 24 | 1 << 25) && !syscall(SYS_arch_prctl, 0x1023, 18);
}

#define AMX TARGET("amx-tile,amx-int8")
const struct {
  uint8_t palette = 1, unused[15] = {};
  uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};  // of each row of each tile
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
} TILES;
AMX void tiles(bool begin) { begin ? _tile_loadconfig(&TILES) : _tile_release(); }

AMX void dot_amx(const uint8_t* x, int rows, int inputs, const int8_t* weight, int32_t* sums) {
  if (rows < 8 || inputs % 64) return dot_avx512(x, rows, inputs, weight, sums);
  const int8_t* second = weight + inputs * PANEL;
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  for (int k = 0; k < inputs; k += 64) {
    _tile_loadd(4, x + k, inputs);
    _tile_loadd(5, x + 16 * inputs + k, inputs);
    _tile_loadd(6, weight + k * PANEL, 64);
    _tile_loadd(7, second + k * PANEL, 64);
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_stored(0, sums, 4 * WIDTH);
  _tile_stored(1, sums + PANEL, 4 * WIDTH);
  sums += 16 * WIDTH;
  _tile_stored(2, sums, 4 * WIDTH);
  _tile_stored(3, sums + PANEL, 4 * WIDTH);
}
#endif
#elif defined(__aarch64__)
#define DOT_PRODUCTS TARGET("arch=armv8.2-a+dotprod")
DOT_PRODUCTS INLINE int32x4_t add_neon(int32x4_t sums, int32_t x, int32x4_t w) {
  return vdotq_s32(sums, vreinterpretq_s8_s32(vdupq_n_s32(x)), vreinterpretq_s8_s32(w));
}
DOT(dot_neon, DOT_PRODUCTS, int32x4_t, add_neon)

#if defined(__linux__)
bool has_dot_products() { return getauxval(AT_HWCAP) & HWCAP_ASIMDDP; }
#elif defined(__APPLE__)
bool has_dot_products() { return true; }
#else
bool has_dot_products() { return false; }  // not known
#endif
#endif

}  // namespace
