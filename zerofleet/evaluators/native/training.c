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

/* Tile of x into its points; `from`: the cells around it. */
INLINE void tile_in(int ny, int nx, int channels, const float *const *from, float *const *to) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][6];
        UNROLL for (int i = 0; i < nx; i++) {
            vec column[6], turned[6];
            UNROLL for (int j = 0; j < ny; j++) column[j] = LOAD(from[j * 6 + i] + c);
            enter(ny, column, turned);
            UNROLL for (int j = 0; j < ny; j++) half[j][i] = turned[j];
        }
        UNROLL for (int j = 0; j < ny; j++) {
            vec whole[6];
            enter(nx, half[j], whole);
            UNROLL for (int i = 0; i < nx; i++) STORE(to[j * nx + i] + c, whole[i]);
        }
    }
}

/* Points of a tile into its cells of y. */
INLINE void tile_out(int ny, int nx, int channels, float *const *from, const int *cells, float *y) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[4][6];
        UNROLL for (int j = 0; j < ny; j++) {
            vec row[6], turned[4];
            UNROLL for (int i = 0; i < nx; i++) row[i] = LOAD(from[j * nx + i] + c);
            leave(nx, row, turned);
            UNROLL for (int i = 0; i < nx - 2; i++) half[i][j] = turned[i];
        }
        UNROLL for (int i = 0; i < nx - 2; i++) {
            vec column[4];
            leave(ny, half[i], column);
            UNROLL for (int j = 0; j < ny - 2; j++)
                if (cells[j * 4 + i] >= 0) STORE(y + (long)cells[j * 4 + i] * channels + c, column[j]);
        }
    }
}

/* Transpose of `tile_out`; `from`: the cells of the gradient of y. */
INLINE void tile_spread(int ny, int nx, int channels, const float *const *from, float *const *to) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][4];
        UNROLL for (int i = 0; i < nx - 2; i++) {
            vec column[4], turned[6];
            UNROLL for (int j = 0; j < ny - 2; j++) column[j] = LOAD(from[j * 4 + i] + c);
            spread(ny, column, turned);
            UNROLL for (int j = 0; j < ny; j++) half[j][i] = turned[j];
        }
        UNROLL for (int j = 0; j < ny; j++) {
            vec whole[6];
            spread(nx, half[j], whole);
            UNROLL for (int i = 0; i < nx; i++) STORE(to[j * nx + i] + c, whole[i]);
        }
    }
}

/* Transpose of `tile_in`, added to the gradient of x. */
INLINE void tile_collect(int ny, int nx, int channels, float *const *from, const int *cells, int outside, float *of_x) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][6];
        UNROLL for (int j = 0; j < ny; j++) {
            vec row[6], turned[6];
            UNROLL for (int i = 0; i < nx; i++) row[i] = LOAD(from[j * nx + i] + c);
            collect(nx, row, turned);
            UNROLL for (int i = 0; i < nx; i++) half[i][j] = turned[i];
        }
        UNROLL for (int i = 0; i < nx; i++) {
            vec column[6];
            collect(ny, half[i], column);
            UNROLL for (int j = 0; j < ny; j++)
                if (cells[j * 6 + i] != outside) {
                    float *at = of_x + (long)cells[j * 6 + i] * channels + c;
                    STORE(at, LOAD(at) + column[j]);
                }
        }
    }
}

/* Addresses of the points of a tile of a position in a buffer of [slots][positions][channels]; those of a point follow one
 * another, so that they form one matrix. */
INLINE void places(const int *slots, int number, int positions, int position, int channels, float *buffer, float **to) {
    for (int i = 0; i < number; i++) to[i] = buffer + ((long)slots[i] * positions + position) * channels;
}

/* Fetch the features of a position; the next one, while this one is processed. */
INLINE void fetch(const float *x, long numbers, int written) {
    for (long i = 0; i < numbers; i += 16) {
        if (written) __builtin_prefetch(x + i, 1);
        else __builtin_prefetch(x + i, 0);
    }
}

/* Run `body` for each tile `t` of each of the positions of `x`, [positions][cells][channels]. */
#define TILES_OF(x, written, body) \
    float *place[36]; \
    const long stride = (long)board->cells * channels; \
    for (int n = 0; n < positions; n++, x += stride) { \
        if (n + 1 < positions) fetch(x + stride, stride, written); \
        for (int i = 0; i < board->tiles; i++) { \
            const struct zf_tile *t = board->tile + i; \
            places(board->slots + 36 * i, t->rows * t->columns, positions, n, channels, points, place); \
            body \
        } \
    }

/* Points of all tiles of x. */
static void enter_tiles(const struct zf_board *board, int positions, int channels, const float *x, const float *zeros,
                        float *points) {
    const float *from[36];
    TILES_OF(x, 0, {
        for (int k = 0; k < 36; k++) from[k] = t->inputs[k] == board->cells ? zeros : x + (long)t->inputs[k] * channels;
#define IN(ny, nx) tile_in(ny, nx, channels, from, place)
        SIZES(IN)
    })
}

static void leave_tiles(const struct zf_board *board, int positions, int channels, float *points, float *y) {
    TILES_OF(y, 1, {
#define OUT(ny, nx) tile_out(ny, nx, channels, place, t->outputs, y)
        SIZES(OUT)
    })
}

static void spread_tiles(const struct zf_board *board, int positions, int channels, const float *of_y, const float *zeros,
                         float *points) {
    const float *from[16];
    TILES_OF(of_y, 0, {
        for (int k = 0; k < 16; k++) from[k] = t->outputs[k] < 0 ? zeros : of_y + (long)t->outputs[k] * channels;
#define SPREAD(ny, nx) tile_spread(ny, nx, channels, from, place)
        SIZES(SPREAD)
    })
}

static void collect_tiles(const struct zf_board *board, int positions, int channels, float *points, float *of_x) {
    TILES_OF(of_x, 1, {
#define COLLECT(ny, nx) tile_collect(ny, nx, channels, place, t->inputs, board->cells, of_x)
        SIZES(COLLECT)
    })
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

/* Gradient of the norm's output: the gradient where the unit's output is positive. */
INLINE vec passed(const float *gradient, const float *out) {
    const vec zero = {0};
    return (vec)((mask)LOAD(gradient) & (mask)(LOAD(out) > zero));
}

/* Sums over the rows of this gradient and of its products with y - mean: [2][channels]. */
INLINE void sums_of(int vectors, long rows, int channels, const float *gradient, const float *out, const float *y,
                    const float *mean, float *sums) {
    vec sum[WIDE] = {0}, product[WIDE] = {0}, middle[WIDE];
    UNROLL for (int v = 0; v < vectors; v++) middle[v] = LOAD(mean + v * LANES);
    for (long n = 0, at = 0; n < rows; n++, at += channels)
        UNROLL for (int v = 0; v < vectors; v++) {
            const vec g = passed(gradient + at + v * LANES, out + at + v * LANES);
            sum[v] += g;
            product[v] += g * (LOAD(y + at + v * LANES) - middle[v]);
        }
    UNROLL for (int v = 0; v < vectors; v++) {
        STORE(sums + v * LANES, sum[v]);
        STORE(sums + channels + v * LANES, product[v]);
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
            const vec g = passed(unit->gradient + at + c, unit->out + at + c);
            if (unit->of_residual) STORE(unit->of_residual + at + c, g);
            STORE(of_y + c, LOAD(norm->scale + c) * (g - LOAD(norm->level + c)) -
                                LOAD(norm->slope + c) * (LOAD(unit->y + at + c) - LOAD(norm->mean + c)));
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
            vec sum = (LOAD(unit->y + at + c) - LOAD(norm->mean + c)) * LOAD(norm->scale + c) + LOAD(unit->shift + c);
            if (unit->residual) sum += LOAD(unit->residual + at + c);
            STORE(unit->out + at + c, relu(sum));
        }
}

static void sum_up(const struct zf_unit *unit, long from, int rows, float *sums) {
    const int channels = unit->outputs;
    const long at = from * unit->board->cells * channels, all = (long)rows * unit->board->cells;
#define SUMS(n) \
    sums_of(n, all, channels, unit->gradient + at + c, unit->out + at + c, unit->y + at + c, unit->mean + c, sums + c)
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
