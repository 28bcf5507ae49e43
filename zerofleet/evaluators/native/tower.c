/* Evaluation of a residual tower on small boards, for one instruction set.
 *
 * This file is compiled once per instruction set (build.py): ZF_SUFFIX names the entry point, ZF_VECTOR_BYTES is the
 * width of a vector, ZF_ROWS the rows of a register tile. Everything else is static, so that no function compiled for
 * one instruction set can be linked into another.
 *
 * A 3x3 convolution is computed by Winograd's minimal filtering (Lavin and Gray 2016) with output tiles of 2, 3 or 4
 * cells a side. A board of 6 x 7 is cut into rows of 3 + 3 and columns of 4 + 3: 110 products a channel pair in place of
 * 378. All sizes share the transformed weights, since the points of a smaller tile are among those of a larger one:
 *
 *     points   0   1  -1   2  -2   infinity      scaled as for tiles of 4
 *     4 cells  x   x   x   x   x   x
 *     3 cells  x   x   x   x       x
 *     2 cells  x   x   x           x
 *
 * Positions are processed in blocks. For each point, the transformed tiles of a block form a matrix, which is multiplied
 * with the weights of this point. Features are stored by cell, [positions][cells + 1][channels]; the last cell is zero
 * and stands for every cell outside the board.
 */
#include "winograd.h"
#ifdef ZF_AMX
#include "split.h"
#endif

#include <math.h>
#include <string.h>

/* ---- linear layers ---------------------------------------------------------------------------------------------- */

/* `product` with a bias for each column; `positive`: negative sums become 0. */
static void dense(const struct zf_dense *layer, long rows, const float *a, long a_stride, float *c, long c_stride) {
    const int k = layer->inputs, columns = layer->outputs;
    for (int j = 0; j < columns; j += 2 * LANES) {
        const float *b = layer->weights + (long)j * k, *bias = layer->bias + j;
        if (j + 2 * LANES <= columns) {
            if (layer->relu) rows_of_tiles(2, rows, k, a, a_stride, b, c + j, c_stride, bias, 1);
            else rows_of_tiles(2, rows, k, a, a_stride, b, c + j, c_stride, bias, 0);
        } else {
            if (layer->relu) rows_of_tiles(1, rows, k, a, a_stride, b, c + j, c_stride, bias, 1);
            else rows_of_tiles(1, rows, k, a, a_stride, b, c + j, c_stride, bias, 0);
        }
    }
}

/* ---- numbers between transforms and products -------------------------------------------------------------------- */

#ifndef ZF_AMX
struct products {
    char unused;
};
INLINE void begin_products(struct products *kept) { (void)kept; }
INLINE void end_products(const struct products *kept) { (void)kept; }

/* Store a vector of channels of a row of `channels`, from channel c. */
INLINE void store_point(float *row, int c, int channels, vec numbers) {
    (void)channels;
    STORE(row + c, numbers);
}

/* Numbers that the weights of a point take. */
INLINE long weights_of_point(int inputs, int outputs) { return (long)inputs * outputs; }

/* c[rows][columns] = a[rows][k] b[k][columns] at one point. */
INLINE void multiply(long rows, int columns, int k, const float *a, const float *b, float *c) {
    product(rows, columns, k, a, k, b, c, columns);
}
#endif

/* ---- transforms ------------------------------------------------------------------------------------------------- */

INLINE void tile_in(int ny, int nx, int channels, const float *x, const struct zf_tile *t, float *buffer,
                    const int *at) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][6];
        UNROLL for (int i = 0; i < nx; i++) {
            vec column[6], transformed[6];
            UNROLL for (int j = 0; j < ny; j++) column[j] = LOAD(x + (long)t->inputs[j * 6 + i] * channels + c);
            enter(ny, column, transformed);
            UNROLL for (int j = 0; j < ny; j++) half[j][i] = transformed[j];
        }
        UNROLL for (int j = 0; j < ny; j++) {
            vec whole[6];
            enter(nx, half[j], whole);
            UNROLL for (int i = 0; i < nx; i++) store_point(buffer + at[j * nx + i], c, channels, whole[i]);
        }
    }
}

INLINE void tile_out(int ny, int nx, int channels, const float *buffer, const int *at, const struct zf_tile *t,
                     const float *bias, const float *residual, float *y) {
    for (int c = 0; c < channels; c += LANES) {
        vec half[6][6];
        const vec shift = LOAD(bias + c);
        UNROLL for (int j = 0; j < ny; j++) {
            vec row[6], turned[4];
            UNROLL for (int i = 0; i < nx; i++) row[i] = LOAD(buffer + at[j * nx + i] + c);
            leave(nx, row, turned);
            UNROLL for (int i = 0; i < nx - 2; i++) half[i][j] = turned[i];
        }
        UNROLL for (int i = 0; i < nx - 2; i++) {
            vec column[4];
            leave(ny, half[i], column);
            UNROLL for (int j = 0; j < ny - 2; j++) {
                const int cell = t->outputs[j * 4 + i];
                if (cell < 0) continue;
                const long to = (long)cell * channels + c;
                vec sum = column[j] + shift;
                if (residual) sum += LOAD(residual + to);
                STORE(y + to, relu(sum));
            }
        }
    }
}

/* Places of the points of one tile of one position in a buffer of [points][positions * tiles][channels], in numbers. */
INLINE void places(const struct zf_tile *t, int positions, int position, int channels, int *at) {
    for (int i = 0; i < ZF_PLACES; i += LANES) {
        const mask count = INTEGERS(t->count + i), first = INTEGERS(t->first + i), rank = INTEGERS(t->rank + i);
        *(mask *)(at + i) = (positions * first + position * count + rank) * channels + INTEGERS(t->skew + i);
    }
}

/* ---- layers ------------------------------------------------------------------------------------------------------ */

/* Tiles of all positions into their points. */
static void enter_tiles(const struct zf_network *net, int positions, int channels, const float *x, float *entered) {
    int at[ZF_PLACES] __attribute__((aligned(64)));
    for (int n = 0; n < positions; n++, x += (long)(net->cells + 1) * channels)
        for (int i = 0; i < net->tiles; i++) {
            const struct zf_tile *t = net->tile + i;
            places(t, positions, n, channels, at);
#define IN(ny, nx) tile_in(ny, nx, channels, x, t, entered, at)
            SIZES(IN)
        }
}

/* Products of tiles into cells, with bias, residual and relu. */
static void leave_tiles(const struct zf_network *net, const struct zf_dense *layer, int positions, const float *products,
                        const float *residual, float *y) {
    int at[ZF_PLACES] __attribute__((aligned(64)));
    const int channels = layer->outputs;
    const long stride = (long)(net->cells + 1) * channels;
    for (int n = 0; n < positions; n++, y += stride, residual += residual ? stride : 0)
        for (int i = 0; i < net->tiles; i++) {
            const struct zf_tile *t = net->tile + i;
            places(t, positions, n, channels, at);
#define OUT(ny, nx) tile_out(ny, nx, channels, products, at, t, layer->bias, residual, y)
            SIZES(OUT)
        }
}

/* y = relu(convolution of x + bias + residual), 3x3 with padding; `residual` may be null or y itself. */
static void convolve(const struct zf_network *net, const struct zf_dense *layer, int positions, const float *x,
                     float *entered, float *products, const float *residual, float *y) {
    const int inputs = layer->inputs, outputs = layer->outputs;
    enter_tiles(net, positions, inputs, x, entered);
    for (int point = 0; point < 36; point++) {
        const long rows = (long)positions * net->count[point], before = (long)positions * net->first[point];
        if (rows)
            multiply(rows, outputs, inputs, entered + before * inputs + point * ZF_SKEW,
                     layer->weights + point * weights_of_point(inputs, outputs), products + before * outputs + point * ZF_SKEW);
    }
    leave_tiles(net, layer, positions, products, residual, y);
}

/* Planes as numbers: bit c * cells + cell, least significant first, becomes x[cell][c]. */
static void unpack(const struct zf_network *net, int positions, const unsigned char *states, float *x) {
    const int inputs = net->layer[0].inputs;
    memset(x, 0, sizeof(float) * positions * (net->cells + 1) * inputs);
    for (int n = 0; n < positions; n++, states += net->packed_bytes) {
        float *to = x + (long)n * (net->cells + 1) * inputs;
        for (int c = 0, bit = 0; c < net->planes; c++)
            for (int cell = 0; cell < net->cells; cell++, bit++)
                to[(long)cell * inputs + c] = (float)((states[bit >> 3] >> (bit & 7)) & 1);
    }
}

/* Outputs of one head: a 1x1 convolution, a hidden layer if there is one, and a linear layer. */
static void head(const struct zf_network *net, const struct zf_head *h, int positions, const float *x, float *planes,
                 float *hidden, float *padded, float *answers) {
    const long rows = (long)positions * (net->cells + 1), flat = (long)(net->cells + 1) * h->plane.outputs;
    dense(&h->plane, rows, x, h->plane.inputs, planes, h->plane.outputs);
    const float *features = planes;
    long stride = flat;
    if (h->hidden.outputs) {
        dense(&h->hidden, positions, planes, flat, hidden, h->hidden.outputs);
        features = hidden;
        stride = h->hidden.outputs;
    }
    dense(&h->out, positions, features, stride, padded, h->out.outputs);
    for (int n = 0; n < positions; n++)
        memcpy(answers + (long)n * h->answers, padded + (long)n * h->out.outputs, sizeof(float) * h->answers);
}

/* Replace logits of all actions by probabilities of the listed ones: softmax over them, 0 at padding. One listed logit that
 * is NaN makes every probability of its row NaN. */
static void listed(int positions, int actions, int width, const float *logits, const short *legal, float *policy) {
    for (int n = 0; n < positions; n++, logits += actions, legal += width, policy += width) {
        float most = -INFINITY, sum = 0.0f;
        for (int i = 0; i < width; i++)
            if (legal[i] >= 0 && logits[legal[i]] > most) most = logits[legal[i]];
        for (int i = 0; i < width; i++) sum += policy[i] = legal[i] >= 0 ? expf(logits[legal[i]] - most) : 0.0f;
        for (int i = 0; i < width; i++) policy[i] = sum != 0.0f ? policy[i] / sum : policy[i];
    }
}

#define JOINED(a, b) a##b
#define NAMED(a, b) JOINED(a, b)

/* Evaluate `positions` rows, at most net->block; `scratch` has net->scratch_floats numbers. */
void NAMED(zf_block_, ZF_SUFFIX)(const struct zf_network *net, int positions, const unsigned char *states,
                                 const short *legal, float *policy, float *const *answers, float *scratch) {
    const struct zf_scratch *s = &net->at;
    float *x = scratch + s->features, *y = scratch + s->between, *planes = scratch + s->planes;
    float *entered = scratch + s->entered, *products = scratch + s->products;
    const int channels = net->layer[0].outputs;
    for (int n = 0; n < positions; n++) {
        memset(x + ((long)n * (net->cells + 1) + net->cells) * channels, 0, sizeof(float) * channels);
        memset(y + ((long)n * (net->cells + 1) + net->cells) * channels, 0, sizeof(float) * channels);
    }
    struct products kept;
    begin_products(&kept);
    unpack(net, positions, states, planes);
    convolve(net, net->layer, positions, planes, entered, products, 0, x);
    for (int i = 1; i + 1 < net->layers; i += 2) {
        convolve(net, net->layer + i, positions, x, entered, products, 0, y);
        convolve(net, net->layer + i + 1, positions, y, entered, products, x, x);
    }
    end_products(&kept);
    for (int i = 0; i < net->heads; i++) {
        const struct zf_head *h = net->head + i;
        float *padded = products, *hidden = y;
        head(net, h, positions, x, entered, hidden, padded, h->listed ? planes : answers[i]);
        if (h->listed) listed(positions, h->answers, net->max_legal, planes, legal, policy);
    }
}
