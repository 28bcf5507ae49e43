/* Vectors, products of matrices and transforms of one instruction set, for tower.c and training.c.
 *
 * Each of those files is compiled once per instruction set (build.py): ZF_VECTOR_BYTES is the width of a vector, ZF_ROWS the
 * rows of a register tile. Everything here is static, so that no function compiled for one instruction set can be linked
 * into another.
 */
#ifndef ZEROFLEET_WINOGRAD_H
#define ZEROFLEET_WINOGRAD_H

#include "tower.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

typedef float vec __attribute__((vector_size(ZF_VECTOR_BYTES), aligned(4), may_alias));
typedef int mask __attribute__((vector_size(ZF_VECTOR_BYTES), aligned(4), may_alias));

enum { LANES = ZF_VECTOR_BYTES / 4, ROWS = ZF_ROWS };

#define INLINE static inline __attribute__((always_inline))
#define LOAD(p) (*(const vec *)(p))
#define STORE(p, v) (*(vec *)(p) = (v))
#define INTEGERS(p) (*(const mask *)(p))
#define UNROLL _Pragma("GCC unroll 16")

/* Negative numbers become 0 and NaN stays NaN, as in TorchScript: the answers of a network that is not finite must show it.
 * The maximum of x86 returns its second operand when either is NaN. */
#if ZF_VECTOR_BYTES == 64
INLINE vec relu(vec x) { return _mm512_max_ps(_mm512_setzero_ps(), x); }
#elif ZF_VECTOR_BYTES == 32
INLINE vec relu(vec x) { return _mm256_max_ps(_mm256_setzero_ps(), x); }
#else
INLINE vec relu(vec x) {
    const vec zero = {0};
    return (vec)((mask)x & ~(mask)(x < zero));
}
#endif

/* a b + c, rounded once where the processor has the instruction. A compiler that may choose fuses the sums of some tiles only:
 * gcc 16, and gcc 12 with -mtune=znver3, split those of one row and one vector (--param=avoid-fma-max-bits). The answer of a
 * position would then depend on the number of positions beside it. */
#if ZF_VECTOR_BYTES == 64
INLINE vec fused(float a, vec b, vec c) { return _mm512_fmadd_ps(_mm512_set1_ps(a), b, c); }
#elif ZF_VECTOR_BYTES == 32
INLINE vec fused(float a, vec b, vec c) { return _mm256_fmadd_ps(_mm256_set1_ps(a), b, c); }
#elif defined __FMA__
INLINE vec fused(float a, vec b, vec c) { return _mm_fmadd_ps(_mm_set1_ps(a), b, c); }
#else
INLINE vec fused(float a, vec b, vec c) { return c + a * b; }
#endif

/* ---- products of matrices --------------------------------------------------------------------------------------- */

/* One register tile: c[rows][vectors] = a[rows][k] b[k][vectors], then bias and relu if asked. */
INLINE void tile(int rows, int vectors, int k, const float *a, long a_stride, const float *b, float *c, long c_stride,
                 const float *bias, int positive) {
    vec sum[ROWS][2];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++) {
            const vec zero = {0};
            sum[i][j] = bias ? LOAD(bias + j * LANES) : zero;
        }
    for (int n = 0; n < k; n++) {
        vec right[2];
        UNROLL for (int j = 0; j < vectors; j++) right[j] = LOAD(b + j * LANES);
        b += vectors * LANES;
        UNROLL for (int i = 0; i < rows; i++) {
            const float left = a[i * a_stride + n];
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = fused(left, right[j], sum[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++)
            STORE(c + i * c_stride + j * LANES, positive ? relu(sum[i][j]) : sum[i][j]);
}

#define TILE_CASE(n) \
    case n: \
        if (n <= ROWS) tile(n <= ROWS ? n : 1, vectors, k, a, a_stride, b, c, c_stride, bias, positive); \
        break;

INLINE void rows_of_tiles(int vectors, long rows, int k, const float *a, long a_stride, const float *b, float *c,
                          long c_stride, const float *bias, int positive) {
    for (; rows >= ROWS; rows -= ROWS, a += ROWS * a_stride, c += ROWS * c_stride)
        tile(ROWS, vectors, k, a, a_stride, b, c, c_stride, bias, positive);
    switch (rows) {
        TILE_CASE(1) TILE_CASE(2) TILE_CASE(3) TILE_CASE(4) TILE_CASE(5) TILE_CASE(6)
        TILE_CASE(7) TILE_CASE(8) TILE_CASE(9) TILE_CASE(10) TILE_CASE(11)
        default: break;
    }
}

/* c[rows][columns] = a[rows][k] b[k][columns]. `b` is packed in panels of two vectors, [k][2 * LANES] each, the last of
 * one vector where the number of vectors is odd. */
__attribute__((unused)) static void product(long rows, int columns, int k, const float *a, long a_stride, const float *b,
                                            float *c, long c_stride) {
    int j = 0;
    for (; j + 2 * LANES <= columns; j += 2 * LANES)
        rows_of_tiles(2, rows, k, a, a_stride, b + (long)j * k, c + j, c_stride, 0, 0);
    if (j < columns) rows_of_tiles(1, rows, k, a, a_stride, b + (long)j * k, c + j, c_stride, 0, 0);
}

/* ---- transforms ------------------------------------------------------------------------------------------------- */

/* Transform of `n` inputs in one direction; `n` is the tile's size + 2. */
INLINE void enter(int n, const vec *d, vec *v) {
    if (n == 6) {
        const vec even = d[4] - 4.0f * d[2], odd = d[3] - 4.0f * d[1];
        const vec even2 = d[4] - d[2], odd2 = 2.0f * (d[3] - d[1]);
        v[0] = 4.0f * d[0] - 5.0f * d[2] + d[4];
        v[1] = even + odd;
        v[2] = even - odd;
        v[3] = even2 + odd2;
        v[4] = even2 - odd2;
        v[5] = 4.0f * d[1] - 5.0f * d[3] + d[5];
    } else if (n == 5) {
        v[0] = 4.0f * (d[0] - d[2]) + 2.0f * (d[3] - d[1]);
        v[1] = 3.0f * (d[3] - d[2]) - 6.0f * d[1];
        v[2] = 2.0f * d[1] - 3.0f * d[2] + d[3];
        v[3] = 4.0f * (d[3] - d[1]);
        v[4] = 2.0f * (d[1] - d[3]) - d[2] + d[4];
    } else {
        v[0] = 4.0f * (d[0] - d[2]);
        v[1] = -3.0f * (d[1] + d[2]);
        v[2] = 3.0f * (d[1] - d[2]);
        v[3] = d[3] - d[1];
    }
}

/* Inverse transform of `n` products into n - 2 outputs. */
INLINE void leave(int n, const vec *m, vec *y) {
    const vec sum = m[1] + m[2], difference = m[1] - m[2];
    if (n == 6) {
        const vec sum2 = m[3] + m[4], difference2 = m[3] - m[4];
        y[0] = m[0] + sum + sum2;
        y[1] = difference + 2.0f * difference2;
        y[2] = sum + 4.0f * sum2;
        y[3] = difference + 8.0f * difference2 + m[5];
    } else if (n == 5) {
        y[0] = m[0] + sum + m[3];
        y[1] = difference + 2.0f * m[3];
        y[2] = sum + 4.0f * m[3] + m[4];
    } else {
        y[0] = m[0] + sum;
        y[1] = difference + m[3];
    }
}

#define SIZES(call) \
    switch (t->rows * 8 + t->columns) { \
        case 4 * 8 + 4: call(4, 4); break; \
        case 4 * 8 + 5: call(4, 5); break; \
        case 4 * 8 + 6: call(4, 6); break; \
        case 5 * 8 + 4: call(5, 4); break; \
        case 5 * 8 + 5: call(5, 5); break; \
        case 5 * 8 + 6: call(5, 6); break; \
        case 6 * 8 + 4: call(6, 4); break; \
        case 6 * 8 + 5: call(6, 5); break; \
        case 6 * 8 + 6: call(6, 6); break; \
        default: break; \
    }

#endif
