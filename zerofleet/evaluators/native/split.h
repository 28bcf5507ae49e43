/* Products of matrices in the tiles of Intel's AMX, of numbers split into two of bfloat16, for tower.c.
 *
 * x = high + low to 2^-17, and high * high' + high * low' + low * high' misses 2^-17 of a product; sums are in float32. AMX
 * multiplies 16 times as many numbers of bfloat16 in a cycle as AVX-512 of float32, so that three products cost a fifth.
 *
 * Numbers of channels are multiples of 16. A row of channels takes as many bytes as in float32: groups of 32 channels, each
 * its high halves and then its low ones, and behind them the rest of 16 in the same way. A tile of 16 rows is a chunk of 64
 * bytes of each: the high or the low halves of a group, or both of the rest.
 *
 * Weights of a point are [columns / 32][groups][2][2], tiles of 32 channels and 16 columns, two of high numbers and then two of
 * low ones; the last 16 columns alone have one of each. A tile has pairs of channels, a column's two next to each other, as the
 * instruction reads them. The tiles of a rest hold its high halves twice, for both halves of a row, and its low halves, for the
 * high ones, with zeros behind them.
 */
#ifndef ZEROFLEET_SPLIT_H
#define ZEROFLEET_SPLIT_H

#include "winograd.h"

#include <string.h>

enum { SIDE = 16, GROUP = 32, CHUNK = 64, TILE_BYTES = 1024, TILES = 8 };

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
        wanted.bytes_of_row[i] = CHUNK;
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

/* Numbers of float32 that the weights of a point take. */
INLINE long weights_of_point(int inputs, int outputs) { return (long)(inputs + GROUP - 1) / GROUP * GROUP * outputs; }

/* Store a vector of channels of a row of `channels`, from channel c. */
INLINE void store_point(float *row, int c, int channels, vec numbers) {
    const __m256i high = (__m256i)_mm512_cvtneps_pbh((__m512)numbers);
    const vec rest = numbers - (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16);
    const int group = c / GROUP * GROUP, low = group + GROUP <= channels ? GROUP : SIDE;
    short *to = (short *)(row + group) + c % GROUP;
    _mm256_storeu_si256((__m256i *)to, high);
    _mm256_storeu_si256((__m256i *)(to + low), (__m256i)_mm512_cvtneps_pbh((__m512)rest));
}

/* One or two tiles of rows, and one or two of columns: c = a b. */
#define SPLIT_TILE(rows2, columns2) \
    do { \
        const long step = (columns2 ? 4 : 2) * TILE_BYTES; \
        const char *left = a, *high = panel, *low = panel + step / 2; \
        _tile_zero(0); \
        if (columns2) _tile_zero(1); \
        if (rows2) _tile_zero(2); \
        if (rows2 && columns2) _tile_zero(3); \
        for (int n = 0; n + GROUP <= k; n += GROUP, left += 2 * CHUNK, high += step, low += step) { \
            LEFT(rows2, left); \
            RIGHT(columns2, low); \
            SPLIT_PRODUCTS(rows2, columns2); \
            RIGHT(columns2, high); \
            SPLIT_PRODUCTS(rows2, columns2); \
            LEFT(rows2, left + CHUNK); \
            SPLIT_PRODUCTS(rows2, columns2); \
        } \
        if (k % GROUP) { \
            LEFT(rows2, left); \
            RIGHT(columns2, high); \
            SPLIT_PRODUCTS(rows2, columns2); \
            RIGHT(columns2, low); \
            SPLIT_PRODUCTS(rows2, columns2); \
        } \
        _tile_stored(0, c, width); \
        if (columns2) _tile_stored(1, c + CHUNK, width); \
        if (rows2) _tile_stored(2, c + SIDE * width, width); \
        if (rows2 && columns2) _tile_stored(3, c + SIDE * width + CHUNK, width); \
    } while (0)

#define LEFT(rows2, from) \
    do { \
        _tile_loadd(4, from, stride); \
        if (rows2) _tile_loadd(5, (from) + SIDE * stride, stride); \
    } while (0)

#define RIGHT(columns2, from) \
    do { \
        _tile_loadd(6, from, CHUNK); \
        if (columns2) _tile_loadd(7, (from) + TILE_BYTES, CHUNK); \
    } while (0)

#define SPLIT_PRODUCTS(rows2, columns2) \
    do { \
        _tile_dpbf16ps(0, 4, 6); \
        if (columns2) _tile_dpbf16ps(1, 4, 7); \
        if (rows2) _tile_dpbf16ps(2, 5, 6); \
        if (rows2 && columns2) _tile_dpbf16ps(3, 5, 7); \
    } while (0)

/* c[rows][columns] = a[rows][k] b[k][columns] at one point; k and columns are multiples of 16. Rows up to a multiple of 16 are
 * read and written: those of the next points, whose products follow, and room behind the last one. */
static void multiply(long rows, int columns, int k, const float *points, const float *weights, float *products) {
    const long stride = 4L * k, width = 4L * columns, groups = (k + GROUP - 1) / GROUP;
    STORED(points);
    for (int j = 0; j < columns; j += 2 * SIDE) {
        const char *panel = (const char *)weights + j / SIDE * groups * 2 * TILE_BYTES, *a = (const char *)points;
        char *c = (char *)(products + j);
        const int columns2 = j + 2 * SIDE <= columns;
        long left = rows;
        for (; left > SIDE; left -= 2 * SIDE, a += 2 * SIDE * stride, c += 2 * SIDE * width) {
            if (columns2) SPLIT_TILE(1, 1);
            else SPLIT_TILE(1, 0);
        }
        if (left > 0) {
            if (columns2) SPLIT_TILE(0, 1);
            else SPLIT_TILE(0, 0);
        }
    }
}

#endif
