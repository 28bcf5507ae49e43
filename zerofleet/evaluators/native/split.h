/* Products of matrices in the tiles of Intel's AMX, of numbers split into two of bfloat16, for tower.c.
 *
 * x = high + low to 2^-17, and high * high' + high * low' + low * high' misses 2^-17 of a product; sums are in float32. AMX
 * multiplies 16 times as many numbers of bfloat16 in a cycle as AVX-512 of float32, so that three products cost a fifth.
 *
 * a point of a tile    [k / 32][2][32]: 32 channels, their high halves and then their low ones: as many bytes as in float32
 * weights of a point   [columns / 32][k / 32][2][2][16][16][2]: high and low; the first and the last 16 columns; pairs of
 *                      channels, a column's two next to each other, as the instruction reads them
 */
#ifndef ZEROFLEET_SPLIT_H
#define ZEROFLEET_SPLIT_H

#include "winograd.h"

#include <string.h>

enum { SIDE = 16, GROUP = 32, TILE_BYTES = 1024, TILES = 8 };

/* Configuration of the tile registers, as `ldtilecfg` reads it. */
struct tiles {
    unsigned char palette, start_row, reserved[14];
    unsigned short bytes_of_row[16];
    unsigned char rows[16];
} __attribute__((aligned(64)));

struct products {
    struct tiles before;
};

/* Let no store move across, and none to `*p` be left out: gcc's intrinsics do not state which memory tile loads and the loads
 * of a configuration read. */
#define STORED(p) __asm__ volatile("" : : "r"(p) : "memory")

/* Configure the tile registers of this thread. Other libraries, torch among them, remember theirs: `end_products` restores
 * them. Their numbers are lost, as in every call of a function. */
INLINE void begin_products(struct products *kept) {
    struct tiles wanted;
    memset(&wanted, 0, sizeof wanted);
    wanted.palette = 1;
    for (int i = 0; i < TILES; i++) {
        wanted.bytes_of_row[i] = 64;
        wanted.rows[i] = SIDE;
    }
    STORED(kept);
    _tile_storeconfig(&kept->before);
    STORED(&wanted);
    _tile_loadconfig(&wanted);
    STORED(kept);
}

INLINE void end_products(const struct products *kept) {
    STORED(kept);
    _tile_loadconfig(&kept->before);
}

/* Store a vector of channels of a point, from channel c; `row`: its tile of its position. */
INLINE void store_point(float *row, int c, vec numbers) {
    const __m256i high = (__m256i)_mm512_cvtneps_pbh((__m512)numbers);
    const vec rest = numbers - (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
    short *to = (short *)(row + c / GROUP * GROUP) + c % GROUP;
    _mm256_storeu_si256((__m256i *)to, high);
    _mm256_storeu_si256((__m256i *)(to + GROUP), (__m256i)_mm512_cvtneps_pbh((__m512)rest));
}

/* One or two tiles of rows, and 32 columns. */
#define SPLIT_TILE(two) \
    do { \
        _tile_zero(0); \
        _tile_zero(1); \
        if (two) { \
            _tile_zero(2); \
            _tile_zero(3); \
        } \
        for (int n = 0; n < k; n += GROUP, b += 4 * TILE_BYTES) { \
            const char *left = a + 4 * n; \
            _tile_loadd(4, left, stride); \
            if (two) _tile_loadd(5, left + SIDE * stride, stride); \
            _tile_loadd(6, b + 2 * TILE_BYTES, 64); \
            _tile_loadd(7, b + 3 * TILE_BYTES, 64); \
            SPLIT_PRODUCTS(two); \
            _tile_loadd(6, b, 64); \
            _tile_loadd(7, b + TILE_BYTES, 64); \
            SPLIT_PRODUCTS(two); \
            _tile_loadd(4, left + 64, stride); \
            if (two) _tile_loadd(5, left + SIDE * stride + 64, stride); \
            SPLIT_PRODUCTS(two); \
        } \
        _tile_stored(0, c, width); \
        _tile_stored(1, c + 64, width); \
        if (two) { \
            _tile_stored(2, c + SIDE * width, width); \
            _tile_stored(3, c + SIDE * width + 64, width); \
        } \
    } while (0)

#define SPLIT_PRODUCTS(two) \
    do { \
        _tile_dpbf16ps(0, 4, 6); \
        _tile_dpbf16ps(1, 4, 7); \
        if (two) { \
            _tile_dpbf16ps(2, 5, 6); \
            _tile_dpbf16ps(3, 5, 7); \
        } \
    } while (0)

/* c[rows][columns] = a[rows][k] b[k][columns] at one point; k and columns are multiples of 32. Rows up to a multiple of 16 are
 * read and written: those of the next points, whose products follow, and room behind the last one. */
static void multiply(long rows, int columns, int k, const float *points, const float *weights, float *products) {
    const long stride = 4L * k, width = 4L * columns;
    STORED(points);
    for (int j = 0; j < columns; j += GROUP) {
        const char *panel = (const char *)(weights + (long)j * k), *a = (const char *)points;
        char *c = (char *)(products + j);
        long left = rows;
        for (; left > SIDE; left -= 2 * SIDE, a += 2 * SIDE * stride, c += 2 * SIDE * width) {
            const char *b = panel;
            SPLIT_TILE(1);
        }
        if (left > 0) {
            const char *b = panel;
            SPLIT_TILE(0);
        }
    }
}

#endif
