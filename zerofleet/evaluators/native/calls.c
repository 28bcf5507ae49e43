/* Entry points of the library: choice of the instruction set, and threads that take blocks of positions in turn. */
#include "training.h"

#ifdef ZF_X86
#include <cpuid.h>
#endif
#ifdef ZF_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 256, ALIGNMENT = 64 };

zf_block zf_block_portable;
extern const struct zf_training zf_training_portable;
#ifdef ZF_X86
zf_block zf_block_avx2, zf_block_avx512;
extern const struct zf_training zf_training_avx2, zf_training_avx512;
#endif
#ifdef ZF_AMX
zf_block zf_block_amx;
#endif

struct instructions {
    const char *name;
    int lanes; /* numbers in a vector: the padding of every layer */
    int split; /* 1: convolutions are products of tiles, of numbers in two halves (split.h) */
    zf_block *block;
    const struct zf_training *training;
};

static const struct instructions KNOWN[] = {
#ifdef ZF_AMX
    {"amx", 16, 1, zf_block_amx, &zf_training_avx512},
#endif
#ifdef ZF_X86
    {"avx512", 16, 0, zf_block_avx512, &zf_training_avx512},
    {"avx2", 8, 0, zf_block_avx2, &zf_training_avx2},
#endif
    {"portable", 4, 0, zf_block_portable, &zf_training_portable},
};

#ifdef ZF_X86
/* Whether the processor has the instructions (CPUID, leaves 1 and 7) and the system keeps their registers (XCR0): Intel's
 * manual, volume 1, detection of AVX2 and of AVX-512. __builtin_cpu_supports answers 0 with the runtime of some compilers. */
static int has(unsigned wanted1, unsigned wanted7, unsigned kept) {
    unsigned a, b, leaf1, leaf7, d, xcr0, high;
    if (!__get_cpuid(1, &a, &b, &leaf1, &d) || (leaf1 & wanted1) != wanted1) return 0;
    if (!__get_cpuid_count(7, 0, &a, &leaf7, &b, &d) || (leaf7 & wanted7) != wanted7) return 0;
    __asm__ volatile("xgetbv" : "=a"(xcr0), "=d"(high) : "c"(0));
    return (xcr0 & kept) == kept;
}

enum { FMA_AVX_OSXSAVE = 1 << 12 | 1 << 27 | 1 << 28, AVX2 = 1 << 5, AVX512F = 1 << 16, YMM = 0x06, ZMM = 0xe6 };
static const unsigned AVX512VL = 1u << 31;
#endif

#ifdef ZF_AMX
/* Whether the processor has tiles, their products of bfloat16 and conversions to it (CPUID, leaf 7), with which compilers
 * take AVX-512 of bytes and words for granted, the system keeps the tiles (XCR0), and it gives them to this process: their state is large, so that Linux allocates it on request
 * (Documentation/arch/x86/xstate.rst). A thread of the process needs no request of its own. */
static int has_tiles(void) {
    enum { AMX_BF16_TILE = 1 << 22 | 1 << 24, AVX512BW = 1 << 30, AVX512_BF16 = 1 << 5, KEPT = 0x600e6, REQUEST = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    if (!has(FMA_AVX_OSXSAVE, AVX2 | AVX512F | AVX512BW | AVX512VL, KEPT)) return 0;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & AMX_BF16_TILE) != AMX_BF16_TILE) return 0;
    if (!__get_cpuid_count(7, 1, &a, &b, &c, &d) || !(a & AVX512_BF16)) return 0;
    return !syscall(SYS_arch_prctl, REQUEST, TILE_DATA);
}
#endif

static int runs(const char *name) {
#ifdef ZF_AMX
    if (!strcmp(name, "amx")) return has_tiles();
#endif
#ifdef ZF_X86
    if (!strcmp(name, "avx512")) return has(FMA_AVX_OSXSAVE, AVX2 | AVX512F | AVX512VL, ZMM);
    if (!strcmp(name, "avx2")) return has(FMA_AVX_OSXSAVE, AVX2, YMM);
#endif
    return !strcmp(name, "portable");
}

/* Return the name of the n-th instruction set, best first, its `split`, and 0 in `lanes` unless this processor has it; null at
 * the end. */
const char *zf_instructions(int n, int *lanes, int *split) {
    if (n < 0 || n >= (int)(sizeof KNOWN / sizeof *KNOWN)) return 0;
    *lanes = runs(KNOWN[n].name) ? KNOWN[n].lanes : 0;
    *split = KNOWN[n].split;
    return KNOWN[n].name;
}

const struct zf_training *zf_training_of(int instructions) { return KNOWN[instructions].training; }

/* Return the hash of the sources, by which the caller checks that its descriptions are of the same release. */
const char *zf_sources(void) { return ZF_SOURCES; }

struct call {
    const struct zf_network *net;
    zf_block *block;
    long rows;
    const unsigned char *states;
    const short *legal;
    float *policy;
    float *const *answers;
    atomic_long next;
    atomic_int failed;
};

static void *work(void *given) {
    struct call *call = given;
    const struct zf_network *net = call->net;
    const size_t bytes = (sizeof(float) * net->scratch_floats + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    float *scratch = aligned_alloc(ALIGNMENT, bytes);
    if (!scratch) {
        atomic_store(&call->failed, 1);
        return 0;
    }
    for (;;) {
        const long row = atomic_fetch_add(&call->next, net->block);
        if (row >= call->rows) break;
        const long left = call->rows - row;
        float *answers[8] = {0};
        for (int i = 0; i < net->heads; i++)
            if (call->answers[i]) answers[i] = call->answers[i] + row * net->head[i].answers;
        call->block(net, left < net->block ? (int)left : net->block, call->states + row * net->packed_bytes,
                    call->legal + row * net->max_legal, call->policy + row * net->max_legal, answers, scratch);
    }
    free(scratch);
    return 0;
}

/* Evaluate `rows` positions on up to `threads` threads; return 0, or 1 when memory is exhausted.
 *
 * states   [rows][packed_bytes]
 * legal    [rows][max_legal]
 * policy   [rows][max_legal]
 * answers  for each head [rows][answers]; null for the head of the policy
 */
int zf_evaluate(const struct zf_network *net, int instructions, int threads, long rows, const unsigned char *states,
                const short *legal, float *policy, float *const *answers) {
    struct call call = {net, KNOWN[instructions].block, rows, states, legal, policy, answers, 0, 0};
    pthread_t others[MOST_THREADS];
    const long blocks = (rows + net->block - 1) / net->block;
    int started = 0;
    if (threads > MOST_THREADS) threads = MOST_THREADS;
    if (threads > blocks) threads = (int)blocks;
    while (started + 1 < threads && !pthread_create(others + started, 0, work, &call)) started++;
    work(&call);
    for (int i = 0; i < started; i++) pthread_join(others[i], 0);
    return atomic_load(&call.next) < rows || atomic_load(&call.failed);
}
