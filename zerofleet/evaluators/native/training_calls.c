/* Forward and backward pass of a unit: its phases, each over blocks of positions on several threads.
 *
 * A thread takes a fixed range of blocks, and sums of blocks and threads are added in their order, so the same call on the
 * same number of threads gives the same bits.
 */
#include "training.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 64, ALIGNMENT = 64 };

/* Memory of a call, laid out in one piece. */
struct memory {
    float *panels;    /* weights of all points */
    float *scratch;   /* of each thread */
    float *of_points; /* gradient of the weights of all points, of each thread */
    float *by_block;  /* [blocks][2][outputs]: moments or sums */
    struct zf_norm norm;
    long scratch_floats, points_floats;
};

struct pass;
typedef void phase(const struct pass *, int thread, long from, long blocks);

struct pass {
    const struct zf_unit *unit;
    const struct zf_training *code;
    const struct memory *memory;
    long blocks;
    int threads;
};

struct share {
    const struct pass *pass;
    phase *phase;
    int thread;
};

static void *work(void *given) {
    const struct share *share = given;
    const struct pass *pass = share->pass;
    const long from = pass->blocks * share->thread / pass->threads, end = pass->blocks * (share->thread + 1) / pass->threads;
    share->phase(pass, share->thread, from, end - from);
    return 0;
}

/* Run a phase on all threads; one that cannot be started is done here. */
static void run(const struct pass *pass, phase *phase) {
    pthread_t others[MOST_THREADS];
    struct share shares[MOST_THREADS];
    int started[MOST_THREADS] = {0};
    for (int i = 0; i < pass->threads; i++) shares[i] = (struct share){pass, phase, i};
    for (int i = 1; i < pass->threads; i++) started[i] = !pthread_create(others + i, 0, work, shares + i);
    work(shares);
    for (int i = 1; i < pass->threads; i++)
        if (started[i]) pthread_join(others[i], 0);
        else work(shares + i);
}

static int rows_of(const struct zf_unit *unit, long block) {
    const long left = unit->batch - block * unit->block;
    return left < unit->block ? (int)left : unit->block;
}

static void convolve(const struct pass *pass, int thread, long from, long blocks) {
    const struct zf_unit *unit = pass->unit;
    for (long i = from; i < from + blocks; i++)
        pass->code->convolve(unit, i * unit->block, rows_of(unit, i), pass->memory->panels,
                             pass->memory->scratch + thread * pass->memory->scratch_floats,
                             unit->gain ? pass->memory->by_block + i * 2 * unit->outputs : 0);
}

static void normalise(const struct pass *pass, int thread, long from, long blocks) {
    (void)thread;
    const struct zf_unit *unit = pass->unit;
    for (long i = from; i < from + blocks; i++)
        pass->code->normalise(unit, i * unit->block, rows_of(unit, i), &pass->memory->norm);
}

static void sum_up(const struct pass *pass, int thread, long from, long blocks) {
    (void)thread;
    const struct zf_unit *unit = pass->unit;
    for (long i = from; i < from + blocks; i++)
        pass->code->sum_up(unit, i * unit->block, rows_of(unit, i), &pass->memory->norm,
                           pass->memory->by_block + i * 2 * unit->outputs);
}

static void differentiate(const struct pass *pass, int thread, long from, long blocks) {
    const struct zf_unit *unit = pass->unit;
    const struct memory *memory = pass->memory;
    float *of_points = unit->of_weights ? memory->of_points + thread * memory->points_floats : 0;
    if (of_points) memset(of_points, 0, sizeof(float) * memory->points_floats);
    for (long i = from; i < from + blocks; i++)
        pass->code->differentiate(unit, i * unit->block, rows_of(unit, i), memory->panels, unit->gain ? &memory->norm : 0,
                                  memory->scratch + thread * memory->scratch_floats, of_points);
}

/* Scale of the norm, by the moments of the unit: the same bits in both passes. */
static void set_norm(const struct zf_unit *unit, const struct zf_norm *norm) {
    for (int c = 0; c < unit->outputs; c++) {
        norm->mean[c] = unit->mean[c];
        norm->scale[c] = (float)(unit->gain[c] / sqrt(unit->variance[c] + unit->eps));
    }
}

/* Mean and biased variance of each channel from those of the blocks (Chan et al. 1983). */
static void merge_moments(const struct pass *pass) {
    const struct zf_unit *unit = pass->unit;
    const int channels = unit->outputs;
    for (int c = 0; c < channels; c++) {
        double count = 0, mean = 0, spread = 0;
        for (long i = 0; i < pass->blocks; i++) {
            const float *block = pass->memory->by_block + i * 2 * channels;
            const double more = (double)rows_of(unit, i) * unit->board->cells, difference = block[c] - mean;
            spread += block[channels + c] + difference * difference * count * more / (count + more);
            count += more;
            mean += difference * more / count;
        }
        unit->mean[c] = (float)mean;
        unit->variance[c] = (float)(spread / count);
    }
}

/* Gradients of gain and shift, and the numbers by which that of y follows from them. */
static void merge_sums(const struct pass *pass) {
    const struct zf_unit *unit = pass->unit;
    const struct zf_norm *norm = &pass->memory->norm;
    const int channels = unit->outputs;
    const double count = (double)unit->batch * unit->board->cells;
    for (int c = 0; c < channels; c++) {
        double sum = 0, product = 0;
        for (long i = 0; i < pass->blocks; i++) {
            sum += pass->memory->by_block[i * 2 * channels + c];
            product += pass->memory->by_block[i * 2 * channels + channels + c];
        }
        const double inverse = 1.0 / sqrt(unit->variance[c] + unit->eps), scale = unit->gain[c] * inverse;
        unit->of_shift[c] = (float)sum;
        unit->of_gain[c] = (float)(product * inverse);
        norm->level[c] = (float)(sum / count);
        norm->slope[c] = (float)(scale * inverse * inverse * product / count);
    }
}

static long aligned(long floats) { return (floats + 15) / 16 * 16; }

/* Lay out the memory of a call; null when it is exhausted. */
static float *lay_out(const struct pass *pass, struct memory *memory, int backward) {
    const struct zf_unit *unit = pass->unit;
    const struct zf_board *board = unit->board;
    const long inputs = unit->inputs, outputs = unit->outputs, most = inputs > outputs ? inputs : outputs;
    const long points = board->first[35] + board->count[35];
    const long panels = aligned(36 * inputs * outputs), by_block = aligned(pass->blocks * 2 * outputs), row = aligned(outputs);
    memory->scratch_floats = aligned(most + unit->block * (points * (inputs + outputs) + (backward ? board->cells * outputs : 0)));
    memory->points_floats = backward && unit->of_weights ? panels : 0;
    const long all = panels + by_block + 4 * row + pass->threads * (memory->scratch_floats + memory->points_floats);
    float *whole = aligned_alloc(ALIGNMENT, sizeof(float) * all);
    if (!whole) return 0;
    memory->panels = whole;
    memory->by_block = memory->panels + panels;
    memory->norm = (struct zf_norm){memory->by_block + by_block, memory->by_block + by_block + row,
                                    memory->by_block + by_block + 2 * row, memory->by_block + by_block + 3 * row};
    memory->of_points = memory->by_block + by_block + 4 * row;
    memory->scratch = memory->of_points + pass->threads * memory->points_floats;
    return whole;
}

static struct pass pass_of(const struct zf_unit *unit, int instructions, int threads) {
    struct pass pass = {unit, zf_training_of(instructions), 0, (unit->batch + unit->block - 1) / unit->block, threads};
    if (pass.threads > MOST_THREADS) pass.threads = MOST_THREADS;
    if (pass.threads > pass.blocks) pass.threads = (int)pass.blocks;
    return pass;
}

/* Compute y, and with a norm mean, variance and out; return 0, or 1 when memory is exhausted. The batch is not empty. */
int zf_forward(const struct zf_unit *unit, int instructions, int threads) {
    struct pass pass = pass_of(unit, instructions, threads);
    struct memory memory;
    float *whole = lay_out(&pass, &memory, 0);
    if (!whole) return 1;
    pass.memory = &memory;
    pass.code->enter_weights(unit->inputs, unit->outputs, unit->weights, memory.panels);
    run(&pass, convolve);
    if (unit->gain) {
        merge_moments(&pass);
        set_norm(unit, &memory.norm);
        run(&pass, normalise);
    }
    free(whole);
    return 0;
}

/* Compute the gradients that are not null from that of the unit's output; return as `zf_forward` does. */
int zf_backward(const struct zf_unit *unit, int instructions, int threads) {
    struct pass pass = pass_of(unit, instructions, threads);
    struct memory memory;
    float *whole = lay_out(&pass, &memory, 1);
    if (!whole) return 1;
    pass.memory = &memory;
    if (unit->of_x) pass.code->enter_weights(unit->outputs, unit->inputs, unit->turned, memory.panels);
    if (unit->gain) {
        set_norm(unit, &memory.norm);
        run(&pass, sum_up);
        merge_sums(&pass);
    }
    run(&pass, differentiate);
    if (unit->of_weights) {
        for (int i = 1; i < pass.threads; i++)
            for (long at = 0; at < memory.points_floats; at++)
                memory.of_points[at] += memory.of_points[i * memory.points_floats + at];
        pass.code->leave_weights(unit->inputs, unit->outputs, memory.of_points, unit->of_weights);
    }
    free(whole);
    return 0;
}
