/* Convolutions and norms in training, for one instruction set; compiled as tower.c is.
 *
 * Forward, a convolution is Winograd's as in tower.c. Backward it is the transpose of the same linear maps. With B, A and G
 * for the transforms of tiles, products and weights, and a product for each point,
 *
 *     y = A' (U * B' x),  U = G w G'          of a tile
 *     gradient of x = B (U' * A of_y)         added up where tiles overlap
 *     gradient of w = G' (sum over tiles of (B' x) (A of_y)') G
 *
 * so both gradients share the transform of the gradient of y. The sum for the weights is a matrix for each point, added up
 * over blocks of positions and transformed once.
 */
#include "training.h"
#include "winograd.h"

#include <stdint.h>
#include <string.h>

enum { WIDE = 4 }; /* vectors of channels whose sums are held in registers */

/* ---- transposed transforms -------------------------------------------------------------------------------------- */

/* Transpose of `leave`: n - 2 gradients into n points. */
INLINE void spread(int n, const vec *y, vec *m) {
    if (n == 6) {
        const vec even = y[0] + y[2], odd = y[1] + y[3];
        const vec even2 = y[0] + 4.0f * y[2], odd2 = 2.0f * y[1] + 8.0f * y[3];
        m[0] = y[0];
        m[1] = even + odd;
        m[2] = even - odd;
        m[3] = even2 + odd2;
        m[4] = even2 - odd2;
        m[5] = y[3];
    } else if (n == 5) {
        const vec even = y[0] + y[2];
        m[0] = y[0];
        m[1] = even + y[1];
        m[2] = even - y[1];
        m[3] = y[0] + 2.0f * y[1] + 4.0f * y[2];
        m[4] = y[2];
    } else {
        m[0] = y[0];
        m[1] = y[0] + y[1];
        m[2] = y[0] - y[1];
        m[3] = y[1];
    }
}

/* Transpose of `enter`: n points into n gradients. */
INLINE void collect(int n, const vec *v, vec *d) {
    if (n == 6) {
        const vec sum = v[1] + v[2], sum2 = v[3] + v[4], difference = v[2] - v[1], difference2 = v[4] - v[3];
        d[0] = 4.0f * v[0];
        d[1] = 4.0f * (difference + v[5]) + 2.0f * difference2;
        d[2] = -5.0f * v[0] - 4.0f * sum - sum2;
        d[3] = -5.0f * v[5] - difference - 2.0f * difference2;
        d[4] = v[0] + sum + sum2;
        d[5] = v[5];
    } else if (n == 5) {
        d[0] = 4.0f * v[0];
        d[1] = 2.0f * (v[2] + v[4] - v[0]) - 6.0f * v[1] - 4.0f * v[3];
        d[2] = -4.0f * v[0] - 3.0f * (v[1] + v[2]) - v[4];
        d[3] = 2.0f * (v[0] - v[4]) + 3.0f * v[1] + v[2] + 4.0f * v[3];
        d[4] = v[4];
    } else {
        const vec difference = v[2] - v[1];
        d[0] = 4.0f * v[0];
        d[1] = 3.0f * difference - v[3];
        d[2] = -4.0f * v[0] - 3.0f * (v[1] + v[2]);
        d[3] = v[3];
    }
}

/* Kernel of 3 at the six points (`POINT_ROWS` in tiles.py), and the transpose. */
INLINE void enter_kernel(const vec *g, vec *u) {
    const float sixth = 1.0f / 6, twelfth = 1.0f / 12, of24 = 1.0f / 24;
    const vec even = (g[0] + g[2]) * sixth, odd = g[1] * sixth, even2 = (g[0] + 4.0f * g[2]) * of24, odd2 = g[1] * twelfth;
    u[0] = 0.25f * g[0];
    u[1] = -even - odd;
    u[2] = odd - even;
    u[3] = even2 + odd2;
    u[4] = even2 - odd2;
    u[5] = g[2];
}

INLINE void leave_kernel(const vec *u, vec *g) {
    const float sixth = 1.0f / 6, twelfth = 1.0f / 12, of24 = 1.0f / 24;
    const vec near = (u[1] + u[2]) * sixth, far = u[3] + u[4];
    g[0] = 0.25f * u[0] - near + far * of24;
    g[1] = (u[2] - u[1]) * sixth + (u[3] - u[4]) * twelfth;
    g[2] = u[5] - near + far * sixth;
}

/* ---- tiles ------------------------------------------------------------------------------------------------------ */

/* Addresses of the cells or points of a tile, by row and column, for one position; 0: a cell outside the board that is not
 * written. */
struct cursor {
    uintptr_t at[36], step[36]; /* bytes to the next position */
};

#define FROM(place, c) LOAD((const float *)(place) + (c))
#define TO(place, c) ((float *)(place) + (c))

/* Tile of x into its points; `from`: the cells around it. */
INLINE void tile_in(int ny, int nx, int channels, const uintptr_t *from, const uintptr_t *to) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][6];
        UNROLL for (int i = 0; i < nx; i++) {
            vec column[6], turned[6];
            UNROLL for (int j = 0; j < ny; j++) column[j] = FROM(from[j * 6 + i], c);
            enter(ny, column, turned);
            UNROLL for (int j = 0; j < ny; j++) half[j][i] = turned[j];
        }
        UNROLL for (int j = 0; j < ny; j++) {
            vec whole[6];
            enter(nx, half[j], whole);
            UNROLL for (int i = 0; i < nx; i++) STORE(TO(to[j * nx + i], c), whole[i]);
        }
    }
}

/* Points of a tile into its cells of y. */
INLINE void tile_out(int ny, int nx, int channels, const uintptr_t *to, const uintptr_t *from) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[4][6];
        UNROLL for (int j = 0; j < ny; j++) {
            vec row[6], turned[4];
            UNROLL for (int i = 0; i < nx; i++) row[i] = FROM(from[j * nx + i], c);
            leave(nx, row, turned);
            UNROLL for (int i = 0; i < nx - 2; i++) half[i][j] = turned[i];
        }
        UNROLL for (int i = 0; i < nx - 2; i++) {
            vec column[4];
            leave(ny, half[i], column);
            UNROLL for (int j = 0; j < ny - 2; j++)
                if (to[j * 4 + i]) STORE(TO(to[j * 4 + i], c), column[j]);
        }
    }
}

/* Transpose of `tile_out`; `from`: the cells of the gradient of y. */
INLINE void tile_spread(int ny, int nx, int channels, const uintptr_t *from, const uintptr_t *to) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][4];
        UNROLL for (int i = 0; i < nx - 2; i++) {
            vec column[4], turned[6];
            UNROLL for (int j = 0; j < ny - 2; j++) column[j] = FROM(from[j * 4 + i], c);
            spread(ny, column, turned);
            UNROLL for (int j = 0; j < ny; j++) half[j][i] = turned[j];
        }
        UNROLL for (int j = 0; j < ny; j++) {
            vec whole[6];
            spread(nx, half[j], whole);
            UNROLL for (int i = 0; i < nx; i++) STORE(TO(to[j * nx + i], c), whole[i]);
        }
    }
}

/* Transpose of `tile_in`, added to the gradient of x. */
INLINE void tile_collect(int ny, int nx, int channels, const uintptr_t *to, const uintptr_t *from) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][6];
        UNROLL for (int j = 0; j < ny; j++) {
            vec row[6], turned[6];
            UNROLL for (int i = 0; i < nx; i++) row[i] = FROM(from[j * nx + i], c);
            collect(nx, row, turned);
            UNROLL for (int i = 0; i < nx; i++) half[i][j] = turned[i];
        }
        UNROLL for (int i = 0; i < nx; i++) {
            vec column[6];
            collect(ny, half[i], column);
            UNROLL for (int j = 0; j < ny; j++)
                if (to[j * 6 + i]) STORE(TO(to[j * 6 + i], c), FROM(to[j * 6 + i], c) + column[j]);
        }
    }
}

/* Cursor over cells of features [positions][cells][channels]; `outside`: address for what is no cell of the board. */
INLINE void over_cells(struct cursor *cursor, const int *cells, int number, int last, int channels, const float *features,
                       const float *outside) {
    for (int i = 0; i < number; i++) {
        const int beyond = cells[i] < 0 || cells[i] == last;
        cursor->at[i] = (uintptr_t)(beyond ? outside : features + (long)cells[i] * channels);
        cursor->step[i] = beyond ? 0 : sizeof(float) * last * channels;
    }
}

/* Cursor over points in a buffer of [slots][positions][channels]; the slots of a point follow one another, so that they form
 * one matrix. */
INLINE void over_points(struct cursor *cursor, const int *slots, int positions, int channels, const float *buffer) {
    for (int i = 0; i < 36; i++) {
        cursor->at[i] = (uintptr_t)(buffer + (long)slots[i] * positions * channels);
        cursor->step[i] = sizeof(float) * channels;
    }
}

INLINE void advance(struct cursor *cursor) {
    for (int i = 0; i < 36; i++) cursor->at[i] += cursor->step[i];
}

/* Fetch the features of a position into the cache: the next one, while this one is processed. */
INLINE void fetch(const float *x, long numbers, int written) {
    for (long i = 0; i < numbers; i += 16) {
        if (written) __builtin_prefetch(x + i, 1);
        else __builtin_prefetch(x + i, 0);
    }
}

/* Run `body` for each tile `t` of each position, with the addresses of its cells and points. */
INLINE void all_tiles(const struct zf_board *board, int positions, int channels, const float *x, int writes, int outputs,
                      const float *outside, const float *points,
                      void (*body)(const struct zf_tile *, int, const uintptr_t *, const uintptr_t *)) {
    struct cursor cells[ZF_MOST_TILES], places[ZF_MOST_TILES];
    const long stride = (long)board->cells * channels;
    for (int i = 0; i < board->tiles; i++) {
        const struct zf_tile *t = board->tile + i;
        over_cells(cells + i, outputs ? t->outputs : t->inputs, outputs ? 16 : 36, board->cells, channels, x, outside);
        over_points(places + i, board->slots + 36 * i, positions, channels, points);
    }
    for (int n = 0; n < positions; n++) {
        if (n + 1 < positions) fetch(x + (n + 1) * stride, stride, writes);
        for (int i = 0; i < board->tiles; i++) {
            body(board->tile + i, channels, cells[i].at, places[i].at);
            advance(cells + i);
            advance(places + i);
        }
    }
}

#define TILE_BODY(name, of_size) \
    INLINE void name(const struct zf_tile *t, int channels, const uintptr_t *cells, const uintptr_t *points) { SIZES(of_size) }

#define IN(ny, nx) tile_in(ny, nx, channels, cells, points)
#define OUT(ny, nx) tile_out(ny, nx, channels, cells, points)
#define SPREAD(ny, nx) tile_spread(ny, nx, channels, cells, points)
#define COLLECT(ny, nx) tile_collect(ny, nx, channels, cells, points)
TILE_BODY(any_in, IN)
TILE_BODY(any_out, OUT)
TILE_BODY(any_spread, SPREAD)
TILE_BODY(any_collect, COLLECT)

static void enter_tiles(const struct zf_board *board, int positions, int channels, const float *x, const float *zeros,
                        float *points) {
    all_tiles(board, positions, channels, x, 0, 0, zeros, points, any_in);
}

static void leave_tiles(const struct zf_board *board, int positions, int channels, const float *points, float *y) {
    all_tiles(board, positions, channels, y, 1, 1, 0, points, any_out);
}

static void spread_tiles(const struct zf_board *board, int positions, int channels, const float *of_y, const float *zeros,
                         float *points) {
    all_tiles(board, positions, channels, of_y, 0, 1, zeros, points, any_spread);
}

static void collect_tiles(const struct zf_board *board, int positions, int channels, const float *points, float *of_x) {
    all_tiles(board, positions, channels, of_x, 1, 0, 0, points, any_collect);
}

/* ---- products --------------------------------------------------------------------------------------------------- */

/* c[rows][vectors] += transpose of a[k][rows], times b[k][vectors]: one register tile. */
INLINE void outer_tile(int rows, int vectors, long k, const float *a, long a_stride, const float *b, long b_stride, float *c,
                       long c_stride) {
    vec sum[ROWS][2];
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++) sum[i][j] = LOAD(c + i * c_stride + j * LANES);
    for (long n = 0; n < k; n++, a += a_stride, b += b_stride) {
        vec right[2];
        UNROLL for (int j = 0; j < vectors; j++) right[j] = LOAD(b + j * LANES);
        UNROLL for (int i = 0; i < rows; i++) {
            const float left = a[i];
            UNROLL for (int j = 0; j < vectors; j++) sum[i][j] += left * right[j];
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
        UNROLL for (int j = 0; j < vectors; j++) STORE(c + i * c_stride + j * LANES, sum[i][j]);
}

#define OUTER_CASE(n) \
    case n: \
        if (n <= ROWS) outer_tile(n <= ROWS ? n : 1, vectors, k, a + from, rows, b + j, columns, c + from * columns + j, columns); \
        break;

INLINE void outer_panel(int vectors, int j, long k, int rows, int columns, const float *a, const float *b, float *c) {
    const int parts = (rows + ROWS - 1) / ROWS; /* of sizes as equal as possible: a small tile waits for its own sums */
    for (int part = 0; part < parts; part++) {
        const long from = (long)rows * part / parts, size = (long)rows * (part + 1) / parts - from;
        switch (size) {
            OUTER_CASE(1) OUTER_CASE(2) OUTER_CASE(3) OUTER_CASE(4) OUTER_CASE(5) OUTER_CASE(6)
            OUTER_CASE(7) OUTER_CASE(8) OUTER_CASE(9) OUTER_CASE(10) OUTER_CASE(11) OUTER_CASE(12)
            default: break;
        }
    }
}

/* c[rows][columns] += transpose of a[k][rows], times b[k][columns]. */
static void outer_product(long k, int rows, int columns, const float *a, const float *b, float *c) {
    int j = 0;
    for (; j + 2 * LANES <= columns; j += 2 * LANES) outer_panel(2, j, k, rows, columns, a, b, c);
    if (j < columns) outer_panel(1, j, k, rows, columns, a, b, c);
}

/* ---- norms ------------------------------------------------------------------------------------------------------ */

/* Mean of each channel over the rows, and the sum of squared differences from it: [2][channels]. */
INLINE void moments_of(int vectors, long rows, int channels, const float *y, float *moments) {
    vec sum[WIDE] = {0}, spread[WIDE] = {0};
    for (long n = 0; n < rows; n++)
        UNROLL for (int v = 0; v < vectors; v++) sum[v] += LOAD(y + n * channels + v * LANES);
    UNROLL for (int v = 0; v < vectors; v++) sum[v] *= 1.0f / (float)rows;
    for (long n = 0; n < rows; n++)
        UNROLL for (int v = 0; v < vectors; v++) {
            const vec difference = LOAD(y + n * channels + v * LANES) - sum[v];
            spread[v] += difference * difference;
        }
    UNROLL for (int v = 0; v < vectors; v++) {
        STORE(moments + v * LANES, sum[v]);
        STORE(moments + channels + v * LANES, spread[v]);
    }
}

/* Output of the norm at one vector of y. */
INLINE vec normal(vec y, const struct zf_norm *norm, const float *shift, int c) {
    return (y - LOAD(norm->mean + c)) * LOAD(norm->scale + c) + LOAD(shift + c);
}

/* Gradient of the norm's output at one vector: that of the unit where the unit's output is positive. */
INLINE vec passed(const struct zf_unit *unit, const struct zf_norm *norm, long at, int c, vec y) {
    const vec zero = {0}, out = unit->out ? LOAD(unit->out + at + c) : normal(y, norm, unit->shift, c);
    return (vec)((mask)LOAD(unit->gradient + at + c) & (mask)(out > zero));
}

/* Sums of this gradient over the rows from `first`, and of its products with y - mean: [2][channels]. */
INLINE void sums_of(int vectors, const struct zf_unit *unit, const struct zf_norm *norm, long first, long rows, int c,
                    float *sums) {
    const int channels = unit->outputs;
    vec sum[WIDE] = {0}, product[WIDE] = {0};
    for (long n = 0, at = first; n < rows; n++, at += channels)
        UNROLL for (int v = 0; v < vectors; v++) {
            const vec y = LOAD(unit->y + at + c + v * LANES), g = passed(unit, norm, at, c + v * LANES, y);
            sum[v] += g;
            product[v] += g * (y - LOAD(norm->mean + c + v * LANES));
        }
    UNROLL for (int v = 0; v < vectors; v++) {
        STORE(sums + c + v * LANES, sum[v]);
        STORE(sums + channels + c + v * LANES, product[v]);
    }
}

#define BY_VECTORS(call) \
    for (int c = 0; c < channels; c += WIDE * LANES) { \
        const int left = (channels - c) / LANES; \
        if (left >= 4) call(4); \
        else if (left == 3) call(3); \
        else if (left == 2) call(2); \
        else call(1); \
    }

/* Gradient of y into of_y, and that of the residual, if wanted. */
static void gradient_of_y(const struct zf_unit *unit, long from, long rows, const struct zf_norm *norm, float *of_y) {
    const int channels = unit->outputs;
    const long first = from * unit->board->cells * channels, end = first + rows * unit->board->cells * channels;
    for (long at = first; at < end; at += channels, of_y += channels)
        for (int c = 0; c < channels; c += LANES) {
            const vec y = LOAD(unit->y + at + c), g = passed(unit, norm, at, c, y);
            if (unit->of_residual) STORE(unit->of_residual + at + c, g);
            STORE(of_y + c, LOAD(norm->scale + c) * (g - LOAD(norm->level + c)) -
                                LOAD(norm->slope + c) * (y - LOAD(norm->mean + c)));
        }
}

/* ---- entry points ----------------------------------------------------------------------------------------------- */

static void enter_weights(int inputs, int outputs, const float *weights, float *panels) {
    const long pairs = (long)inputs * outputs;
    for (int j = 0; j < outputs; j += 2 * LANES) {
        const int width = outputs - j < 2 * LANES ? LANES : 2 * LANES;
        for (int n = 0; n < inputs; n++)
            for (int c = 0; c < width; c += LANES) {
                const float *from = weights + (long)n * outputs + j + c;
                float *to = panels + (long)j * inputs + (long)n * width + c;
                vec half[6][3];
                UNROLL for (int i = 0; i < 3; i++) {
                    vec column[3], turned[6];
                    UNROLL for (int k = 0; k < 3; k++) column[k] = LOAD(from + (k * 3 + i) * pairs);
                    enter_kernel(column, turned);
                    UNROLL for (int k = 0; k < 6; k++) half[k][i] = turned[k];
                }
                UNROLL for (int k = 0; k < 6; k++) {
                    vec whole[6];
                    enter_kernel(half[k], whole);
                    UNROLL for (int i = 0; i < 6; i++) STORE(to + (k * 6 + i) * pairs, whole[i]);
                }
            }
    }
}

static void leave_weights(int inputs, int outputs, const float *of_points, float *of_weights) {
    const long pairs = (long)inputs * outputs;
    for (long at = 0; at < pairs; at += LANES) {
        vec half[6][3];
        UNROLL for (int k = 0; k < 6; k++) {
            vec row[6];
            UNROLL for (int i = 0; i < 6; i++) row[i] = LOAD(of_points + (k * 6 + i) * pairs + at);
            leave_kernel(row, half[k]);
        }
        UNROLL for (int i = 0; i < 3; i++) {
            vec column[6], turned[3];
            UNROLL for (int k = 0; k < 6; k++) column[k] = half[k][i];
            leave_kernel(column, turned);
            UNROLL for (int k = 0; k < 3; k++) STORE(of_weights + (k * 3 + i) * pairs + at, turned[k]);
        }
    }
}

/* A matrix product for each point; `a` is [points][positions * tiles][k], `c` the same with `columns`. */
static void products(const struct zf_board *board, int positions, int columns, int k, const float *a, const float *panels,
                     float *c) {
    for (int point = 0; point < 36; point++) {
        const long rows = (long)positions * board->count[point], before = (long)positions * board->first[point];
        if (rows) product(rows, columns, k, a + before * k, k, panels + (long)point * k * columns, c + before * columns, columns);
    }
}

static long points_of(const struct zf_board *board) { return board->first[35] + board->count[35]; }

/* Scratch memory: a row of zeros, points of x, products. */
static void convolve(const struct zf_unit *unit, long from, int rows, const float *panels, float *scratch, float *moments) {
    const struct zf_board *board = unit->board;
    const int channels = unit->outputs;
    float *zeros = scratch, *points = zeros + unit->inputs, *made = points + rows * points_of(board) * unit->inputs;
    float *y = unit->y + from * board->cells * channels;
    memset(zeros, 0, sizeof(float) * unit->inputs);
    enter_tiles(board, rows, unit->inputs, unit->x + from * board->cells * unit->inputs, zeros, points);
    products(board, rows, channels, unit->inputs, points, panels, made);
    leave_tiles(board, rows, channels, made, y);
#define MOMENTS(n) moments_of(n, (long)rows *board->cells, channels, y + c, moments + c)
    if (moments) BY_VECTORS(MOMENTS)
}

static void normalise(const struct zf_unit *unit, long from, long rows, const struct zf_norm *norm) {
    const int channels = unit->outputs;
    const long first = from * unit->board->cells * channels, end = first + rows * unit->board->cells * channels;
    for (long at = first; at < end; at += channels)
        for (int c = 0; c < channels; c += LANES) {
            vec sum = normal(LOAD(unit->y + at + c), norm, unit->shift, c);
            if (unit->residual) sum += LOAD(unit->residual + at + c);
            STORE(unit->out + at + c, relu(sum));
        }
}

static void sum_up(const struct zf_unit *unit, long from, int rows, const struct zf_norm *norm, float *sums) {
    const int channels = unit->outputs;
    const long at = from * unit->board->cells * channels, all = (long)rows * unit->board->cells;
#define SUMS(n) sums_of(n, unit, norm, at, all, c, sums)
    BY_VECTORS(SUMS)
}

/* Scratch memory: a row of zeros, gradient of y, its points, points of x or of its gradient. */
static void differentiate(const struct zf_unit *unit, long from, int rows, const float *panels, const struct zf_norm *norm,
                          float *scratch, float *of_points) {
    const struct zf_board *board = unit->board;
    const int inputs = unit->inputs, outputs = unit->outputs, most = inputs > outputs ? inputs : outputs;
    float *zeros = scratch, *of_y = zeros + most, *spread = of_y + (long)rows * board->cells * outputs;
    float *points = spread + rows * points_of(board) * outputs;
    const float *gradient = of_y;
    memset(zeros, 0, sizeof(float) * most);
    if (norm) gradient_of_y(unit, from, rows, norm, of_y);
    else gradient = unit->gradient + from * board->cells * outputs;
    spread_tiles(board, rows, outputs, gradient, zeros, spread);
    if (of_points) {
        enter_tiles(board, rows, inputs, unit->x + from * board->cells * inputs, zeros, points);
        for (int point = 0; point < 36; point++) {
            const long k = (long)rows * board->count[point], before = (long)rows * board->first[point];
            if (k)
                outer_product(k, inputs, outputs, points + before * inputs, spread + before * outputs,
                              of_points + (long)point * inputs * outputs);
        }
    }
    if (unit->of_x) {
        float *of_x = unit->of_x + from * board->cells * inputs;
        if (!unit->add) memset(of_x, 0, sizeof(float) * rows * board->cells * inputs);
        products(board, rows, inputs, outputs, spread, panels, points);
        collect_tiles(board, rows, inputs, points, of_x);
    }
}

#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)

const struct zf_training NAMED(zf_training_, ZF_SUFFIX) = {enter_weights, leave_weights, convolve,
                                                          normalise,     sum_up,        differentiate};
