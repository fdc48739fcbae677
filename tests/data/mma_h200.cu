// Writes rows of `mma.sync` as a Hopper GPU computes them, in the format of mma_sample.txt.
// nvcc -gencode arch=compute_90a,code=sm_90a mma_h200.cu -o mma_h200 && ./mma_h200 ROWS_PER_TAG > rows.txt
#include <cstdint>
#include <cstdio>
#include <cstdlib>

// Operands as bit patterns: a [16][K], b [8][K], c [16][8], d [16][8].
struct Tile { uint32_t a[16 * 32], b[8 * 32], c[16 * 8], d[16 * 8]; };

// Packs `n` elements of `bits` each from row-major patterns into one register.
template <int bits> __device__ uint32_t pack(const uint32_t *x) {
  uint32_t word = 0;
  for (int i = 0; i < 32 / bits; i++) word |= x[i] << (bits % 32 * i);
  return word;
}

// One warp, one MMA. `bits` of an operand, K, `half` accumulators in f16.
#define KERNEL(name, bits, K, NA, NB, half, asm_f32, asm_f16)                                          \
  __global__ void name(Tile *t) {                                                                      \
    int g = threadIdx.x / 4, l = threadIdx.x % 4, per = 32 / bits;                                     \
    uint32_t a[4] = {}, b[2] = {};                                                                     \
    for (int i = 0; i < NA; i++) a[i] = pack<bits>(t->a + (g + i % 2 * 8) * K + l * per + i / 2 * 4 * per); \
    for (int i = 0; i < NB; i++) b[i] = pack<bits>(t->b + g * K + l * per + i * 4 * per);               \
    int at[4] = {g * 8 + 2 * l, g * 8 + 2 * l + 1, (g + 8) * 8 + 2 * l, (g + 8) * 8 + 2 * l + 1};      \
    if (half) {                                                                                        \
      uint32_t c0 = t->c[at[0]] | t->c[at[1]] << 16, c1 = t->c[at[2]] | t->c[at[3]] << 16;              \
      asm_f16;                                                                                         \
      t->d[at[0]] = c0 & 0xffff, t->d[at[1]] = c0 >> 16, t->d[at[2]] = c1 & 0xffff, t->d[at[3]] = c1 >> 16; \
    } else {                                                                                           \
      float c[4];                                                                                      \
      for (int i = 0; i < 4; i++) c[i] = __uint_as_float(t->c[at[i]]);                                 \
      asm_f32;                                                                                         \
      for (int i = 0; i < 4; i++) t->d[at[i]] = __float_as_uint(c[i]);                                 \
    }                                                                                                  \
  }
#define F32(op, A, B, ...) asm volatile("mma.sync.aligned." op " {%0,%1,%2,%3}," A "," B ",{%0,%1,%2,%3};" \
    : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : __VA_ARGS__)
#define F16(op, A, B, ...) asm volatile("mma.sync.aligned." op " {%0,%1}," A "," B ",{%0,%1};" : "+r"(c0), "+r"(c1) : __VA_ARGS__)
#define R42 "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])
#define R21 "r"(a[0]), "r"(a[1]), "r"(b[0])
#define K42_32(op) F32(op, "{%4,%5,%6,%7}", "{%8,%9}", R42)
#define K42_16(op) F16(op, "{%2,%3,%4,%5}", "{%6,%7}", R42)
#define K21_32(op) F32(op, "{%4,%5}", "{%6}", R21)
#define K21_16(op) F16(op, "{%2,%3}", "{%4}", R21)
KERNEL(bf16_k16, 16, 16, 4, 2, false, K42_32("m16n8k16.row.col.f32.bf16.bf16.f32"), )
KERNEL(f16_k16, 16, 16, 4, 2, false, K42_32("m16n8k16.row.col.f32.f16.f16.f32"), )
KERNEL(f16_k16_h, 16, 16, 4, 2, true, , K42_16("m16n8k16.row.col.f16.f16.f16.f16"))
KERNEL(bf16_k8, 16, 8, 2, 1, false, K21_32("m16n8k8.row.col.f32.bf16.bf16.f32"), )
KERNEL(f16_k8, 16, 8, 2, 1, false, K21_32("m16n8k8.row.col.f32.f16.f16.f32"), )
KERNEL(f16_k8_h, 16, 8, 2, 1, true, , K21_16("m16n8k8.row.col.f16.f16.f16.f16"))
KERNEL(tf32_k8, 32, 8, 4, 2, false, K42_32("m16n8k8.row.col.f32.tf32.tf32.f32"), )
KERNEL(tf32_k4, 32, 4, 2, 1, false, K21_32("m16n8k4.row.col.f32.tf32.tf32.f32"), )
#define FP8(A, B)                                                                                       \
  KERNEL(A##_##B##_k32, 8, 32, 4, 2, false, K42_32("m16n8k32.row.col.f32." #A "." #B ".f32"), )         \
  KERNEL(A##_##B##_k32_h, 8, 32, 4, 2, true, , K42_16("m16n8k32.row.col.f16." #A "." #B ".f16"))        \
  KERNEL(A##_##B##_k16, 8, 16, 2, 1, false, K21_32("m16n8k16.row.col.f32." #A "." #B ".f32"), )         \
  KERNEL(A##_##B##_k16_h, 8, 16, 2, 1, true, , K21_16("m16n8k16.row.col.f16." #A "." #B ".f16"))
FP8(e4m3, e4m3) FP8(e4m3, e5m2) FP8(e5m2, e4m3) FP8(e5m2, e5m2)

static uint64_t state = 20261201;
static uint32_t random32() {
  state ^= state << 13, state ^= state >> 7, state ^= state << 17;
  return uint32_t(state >> 16);
}
// A pattern of a format: raw bits, or an exponent near the middle, with zeros among them.
static uint32_t pattern(int bits, int mantissa, int mode) {
  uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1, x = random32() & mask;
  if (mode == 0) return x;
  if (random32() % 8 == 0) return x & 1u << (bits - 1);
  int exponent_bits = bits - 1 - mantissa, spread = mode == 1 ? 3 : 9;
  uint32_t middle = (1u << (exponent_bits - 1)) - 1 + random32() % spread - spread / 2;
  uint32_t sign_and_mantissa = x & (1u << (bits - 1) | ((1u << mantissa) - 1));
  return sign_and_mantissa | (middle & ((1u << exponent_bits) - 1)) << mantissa;
}
static void list(const uint32_t *x, int n, int step) {
  for (int i = 0; i < n; i++) printf("%s%x", i ? "," : " ", x[i * step]);
}
static int mantissa(const char *type) {
  switch (type[0] == 'e' ? type[1] : type[0]) {
    case '4': return 3;
    case '5': return 2;
    case 'b': return 7;
    case 't': return 23;
  }
  return 10;
}
static void rows(const char *tag, void (*kernel)(Tile *), int bits, int K, const char *a, const char *b, bool half, int n, Tile *t) {
  for (int done = 0; done < n;) {
    int mode = random32() % 3;
    for (int i = 0; i < 16 * K; i++) t->a[i] = pattern(bits, mantissa(a), mode);
    for (int i = 0; i < 8 * K; i++) t->b[i] = pattern(bits, mantissa(b), mode);
    for (int i = 0; i < 16 * 8; i++) t->c[i] = half ? pattern(16, 10, mode) : pattern(32, 23, mode);
    kernel<<<1, 32>>>(t);
    if (cudaDeviceSynchronize() != cudaSuccess) exit(1);
    for (int i = 0; i < 128 && done < n; i += 11, done++) {
      printf("%s:%s:%s:%s", tag, a, b, half ? "f16" : "f32");
      list(t->a + i / 8 * K, K, 1), list(t->b + i % 8 * K, K, 1);
      printf(" %x - - %x\n", t->c[i], t->d[i]);
    }
  }
}
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 20;
  Tile *t;
  if (cudaMallocManaged(&t, sizeof(Tile)) != cudaSuccess) return 1;
  rows("hop16", bf16_k16, 16, 16, "bf16", "bf16", false, n, t), rows("hop16", f16_k16, 16, 16, "f16", "f16", false, n, t);
  rows("hop16", f16_k16_h, 16, 16, "f16", "f16", true, n, t), rows("hop8", bf16_k8, 16, 8, "bf16", "bf16", false, n, t);
  rows("hop8", f16_k8, 16, 8, "f16", "f16", false, n, t), rows("hop8", f16_k8_h, 16, 8, "f16", "f16", true, n, t);
  rows("hopt8", tf32_k8, 32, 8, "tf32", "tf32", false, n, t), rows("hopt4", tf32_k4, 32, 4, "tf32", "tf32", false, n, t);
#define ROWS(A, B)                                                                                     \
  rows("hopq32", A##_##B##_k32, 8, 32, #A, #B, false, n, t), rows("hopq32", A##_##B##_k32_h, 8, 32, #A, #B, true, n, t); \
  rows("hopq16", A##_##B##_k16, 8, 16, #A, #B, false, n, t), rows("hopq16", A##_##B##_k16_h, 8, 16, #A, #B, true, n, t);
  ROWS(e4m3, e4m3) ROWS(e4m3, e5m2) ROWS(e5m2, e4m3) ROWS(e5m2, e5m2)
}
