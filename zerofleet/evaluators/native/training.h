/* Convolutions with a norm behind them, in training; zerofleet/evaluators/native/training.py describes one in each call. */
#ifndef ZEROFLEET_TRAINING_H
#define ZEROFLEET_TRAINING_H

#include "tower.h"

enum { ZF_MOST_TILES = 64 };

/* At most ZF_MOST_TILES tiles of a board, described as in `struct zf_network`. */
struct zf_board {
    int cells, tiles;
    int count[36], first[36];
    const struct zf_tile *tile;
    const int *slots; /* [tiles][36]: of the points of a tile, by row and column, counted over all tiles point by point */
};

/* One unit: y = 3x3 convolution of x, and out = relu(norm of y + residual), where the norm is over the batch.
 *
 * Features are [batch][cells][channels] and numbers of channels multiples of a vector. Arrays of `inputs` or `outputs`
 * numbers have one for each channel. Null stands for what a unit lacks, or its caller does not need. */
struct zf_unit {
    const struct zf_board *board;
    long batch;
    int inputs, outputs;
    int block;     /* positions processed together */
    int add;       /* 1: the gradient of x is added to what of_x holds */
    double eps;    /* of the norm */
    const float *x;
    const float *weights;  /* [3][3][inputs][outputs] */
    const float *turned;   /* [3][3][outputs][inputs], backward */
    float *y;              /* null in no pass */
    const float *gain, *shift; /* [outputs]; null: convolution alone, without all that follows y */
    float *mean, *variance;    /* [outputs], biased: written forward, read backward */
    const float *residual;     /* like y */
    float *out;                /* like y; backward null without a residual, as y then tells its sign */
    const float *gradient;     /* of out; of y for a convolution alone */
    float *of_x, *of_weights;  /* gradients, in the order of x and `weights` */
    float *of_gain, *of_shift, *of_residual;
};

/* Numbers for each channel of a norm, [outputs] each, in the forward and the backward pass. */
struct zf_norm {
    float *scale;  /* gain / standard deviation */
    float *mean;
    float *slope;  /* of the gradient over y - mean */
    float *level;  /* mean gradient of the norm's output */
};

/* Code of one instruction set. `from` and `rows` are a range of positions, at most a block of them where there is scratch
 * memory; `panels` are the weights of all points, packed for `product`. */
struct zf_training {
    void (*enter_weights)(int inputs, int outputs, const float *weights, float *panels);
    void (*leave_weights)(int inputs, int outputs, const float *of_points, float *of_weights);
    void (*convolve)(const struct zf_unit *, long from, int rows, const float *panels, float *scratch, float *moments);
    void (*normalise)(const struct zf_unit *, long from, long rows, const struct zf_norm *);
    void (*sum_up)(const struct zf_unit *, long from, int rows, const struct zf_norm *, float *sums);
    void (*differentiate)(const struct zf_unit *, long from, int rows, const float *panels, const struct zf_norm *,
                          float *scratch, float *of_points);
};

/* Code of the n-th instruction set of `zf_instructions`. */
const struct zf_training *zf_training_of(int instructions);

#endif
