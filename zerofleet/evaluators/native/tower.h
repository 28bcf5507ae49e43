/* Description of a network for tower.c; zerofleet/evaluators/native/plan.py makes it. All arrays are its own. */
#ifndef ZEROFLEET_TOWER_H
#define ZEROFLEET_TOWER_H

/* A linear layer, packed in panels (see `product` in tower.c), or a 3x3 convolution: one such matrix for each of 36
 * points. Numbers of inputs and outputs are padded to whole vectors. */
struct zf_dense {
    int inputs, outputs, relu, unused;
    const float *weights, *bias;
};

/* A head: 1x1 convolution with relu, hidden layer with relu or none (0 outputs), linear layer. */
struct zf_head {
    struct zf_dense plane, hidden, out;
    int answers; /* numbers returned, without padding */
    int listed;  /* 1: logits of actions, of which the policy is made */
};

enum { ZF_PLACES = 48 }; /* the 36 points of the largest tile, and no points up to whole vectors */

/* Numbers between the matrices of two points, in evaluation. Without them the matrices start at multiples of 4 KiB for some
 * sizes, so that a tile's points share a few lines of the first-level cache. */
enum { ZF_SKEW = 80 };

/* A tile of the board: size + 2 in each direction, and the cells it reads and writes. Cells outside the board are read as the
 * zero cell, and not written: -1.
 *
 * Its points, by row and column of the tile: number of tiles of a position that have this point, sum over the points before
 * it, place of this tile among those that have it, and ZF_SKEW for each point before it. */
struct zf_tile {
    int rows, columns;
    int inputs[36], outputs[16];
    int count[ZF_PLACES], first[ZF_PLACES], rank[ZF_PLACES], skew[ZF_PLACES];
};

/* Offsets into the scratch memory of a thread, in numbers. */
struct zf_scratch {
    long features, between, planes, entered, products;
};

struct zf_network {
    int cells, planes, packed_bytes, max_legal;
    int tiles, layers, heads, block;
    int count[36], first[36]; /* tiles of a position that have this point; sum over the points before it */
    struct zf_scratch at;
    long scratch_floats;
    const struct zf_tile *tile;
    const struct zf_dense *layer;
    const struct zf_head *head;
};

typedef void zf_block(const struct zf_network *, int, const unsigned char *, const short *, float *, float *const *, float *);

#endif
