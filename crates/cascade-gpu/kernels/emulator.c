/* Runs the kernels on the processor, one block after the other, for tests.
 *
 * A thread of a block is a coroutine: it runs until it meets a barrier, and goes on when all threads that the barrier is for have
 * met it. Threads and blocks can be run in the order of their numbers or against it. Copies to shared memory happen as late as
 * they may, when they are waited for; against the order, at once. So a missing barrier or wait gives other results, as it would
 * on a GPU, but always. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "arguments.h"

_Thread_local EmulatedPlace emulated_place;

#include "layers.cu"
#include "linear.cu"
#include "attention.cu"
#include "readout.cu"
#include "memory.cu"

#define MAX_THREADS 1024
#define STACK (64 * 1024)
#define MAX_COPIES 64

typedef enum { READY, AT_WARP_BARRIER, AT_BLOCK_BARRIER, DONE } State;

typedef struct {
    void *to;
    const void *from;
    int there, group;
} Copy;

typedef struct {
    void *stack_pointer;
    unsigned char *stack;
    State state;
    /* Exchanges so far: two buffers take turns, so that nobody overwrites what another has still to read. */
    u32 exchanges;
    Copy copies[MAX_COPIES];
    int copy_count, group;
} Coroutine;

typedef struct {
    u32 words[WARP];
} Exchange;

static _Thread_local Coroutine *coroutines;
static _Thread_local Exchange exchanges[MAX_THREADS / 32][2];
static _Thread_local void *scheduler;
static _Thread_local void (*kernel_body)(const void *);
static _Thread_local const void *kernel_arguments;
static _Thread_local u32 current;
static _Thread_local const char *failure;
static _Thread_local int against_order;

/* ---- Switching ---- */

/* Saves what a function must preserve, stores the stack pointer, and goes on from another. */
void cascade_emulator_switch(void **save, void *to);

#if defined(__x86_64__)
__asm__(".text\n.globl cascade_emulator_switch\n.type cascade_emulator_switch,@function\n"
        "cascade_emulator_switch:\n"
        "  push %rbp\n  push %rbx\n  push %r12\n  push %r13\n  push %r14\n  push %r15\n"
        "  mov %rsp, (%rdi)\n  mov %rsi, %rsp\n"
        "  pop %r15\n  pop %r14\n  pop %r13\n  pop %r12\n  pop %rbx\n  pop %rbp\n  ret\n"
        ".size cascade_emulator_switch,.-cascade_emulator_switch\n");
#define SAVED 6
static void *first_frame(unsigned char *top, void (*entry)(void)) {
    /* A function begins 8 bytes off a multiple of 16, where its return address would be. */
    uint64_t *sp = (uint64_t *)((uintptr_t)top & ~(uintptr_t)15);
    *--sp = 0;
    *--sp = (uint64_t)(uintptr_t)entry;
    for (int i = 0; i < SAVED; ++i) *--sp = 0;
    return sp;
}
#elif defined(__aarch64__)
__asm__(".text\n.globl cascade_emulator_switch\n.type cascade_emulator_switch,%function\n"
        "cascade_emulator_switch:\n"
        "  sub sp, sp, #160\n"
        "  stp x19, x20, [sp]\n  stp x21, x22, [sp, #16]\n  stp x23, x24, [sp, #32]\n  stp x25, x26, [sp, #48]\n"
        "  stp x27, x28, [sp, #64]\n  stp x29, x30, [sp, #80]\n"
        "  stp d8, d9, [sp, #96]\n  stp d10, d11, [sp, #112]\n  stp d12, d13, [sp, #128]\n  stp d14, d15, [sp, #144]\n"
        "  mov x9, sp\n  str x9, [x0]\n  mov sp, x1\n"
        "  ldp x19, x20, [sp]\n  ldp x21, x22, [sp, #16]\n  ldp x23, x24, [sp, #32]\n  ldp x25, x26, [sp, #48]\n"
        "  ldp x27, x28, [sp, #64]\n  ldp x29, x30, [sp, #80]\n"
        "  ldp d8, d9, [sp, #96]\n  ldp d10, d11, [sp, #112]\n  ldp d12, d13, [sp, #128]\n  ldp d14, d15, [sp, #144]\n"
        "  add sp, sp, #160\n  ret\n"
        ".size cascade_emulator_switch,.-cascade_emulator_switch\n");
static void *first_frame(unsigned char *top, void (*entry)(void)) {
    uint64_t *sp = (uint64_t *)((uintptr_t)top & ~(uintptr_t)15) - 20;
    memset(sp, 0, 160);
    sp[11] = (uint64_t)(uintptr_t)entry;
    return sp;
}
#else
#error "the emulator knows how to switch coroutines on x86-64 and aarch64 only"
#endif

static void yield_with(State state) {
    Coroutine *self = &coroutines[current];
    self->state = state;
    cascade_emulator_switch(&self->stack_pointer, scheduler);
}

static void run_thread(void) {
    kernel_body(kernel_arguments);
    if (coroutines[current].copy_count) failure = "a thread ended without waiting for its copies";
    yield_with(DONE);
}

/* ---- The words of device.h ---- */

/* Sixteen bytes are loaded and copied at once from where a GPU can: at multiples of sixteen. */
static void check_alignment(const void *address) {
    if ((uintptr_t)address % 16u) failure = "sixteen bytes are loaded from an address that sixteen does not divide";
}

Quad emulated_load_quad(const void *from) {
    Quad quad;
    check_alignment(from);
    memcpy(&quad, from, sizeof quad);
    return quad;
}

void emulated_store_quad(void *to, Quad quad) {
    check_alignment(to);
    memcpy(to, &quad, sizeof quad);
}

void emulated_block_barrier(void) { yield_with(AT_BLOCK_BARRIER); }

/* Waits for the warp. Straight to the next lane if it has not come here yet: the scheduler would do the same. */
static void warp_barrier(void) {
    Coroutine *self = &coroutines[current];
    const u32 last = against_order ? 0u : WARP - 1u, next = against_order ? current - 1u : current + 1u;
    if (LANE == last || next >= THREADS || coroutines[next].state != READY) {
        yield_with(AT_WARP_BARRIER);
        return;
    }
    self->state = AT_WARP_BARRIER;
    current = emulated_place.thread = next;
    cascade_emulator_switch(&self->stack_pointer, coroutines[next].stack_pointer);
}

/* What every lane of the warp puts in is readable until the exchange after the next one. */
u32 emulated_shuffle_xor(u32 value, u32 lanes) {
    Coroutine *self = &coroutines[current];
    Exchange *shared = &exchanges[THREAD / WARP][self->exchanges++ % 2u];
    const u32 lane = LANE;
    shared->words[lane] = value;
    warp_barrier();
    return shared->words[lane ^ lanes];
}

/* What all lanes put in, copied: with one exchange instead of one for each halving. */
static void gather(float value, float *all) {
    Coroutine *self = &coroutines[current];
    Exchange *shared = &exchanges[THREAD / WARP][self->exchanges++ % 2u];
    shared->words[LANE] = float_to_bits(value);
    warp_barrier();
    memcpy(all, shared->words, WARP * sizeof *all);
}

float emulated_warp_sum(float value) {
    float all[WARP];
    gather(value, all);
    for (u32 lanes = WARP / 2; lanes; lanes /= 2)
        for (u32 lane = 0; lane < lanes; ++lane) all[lane] += all[lane + lanes];
    return all[0];
}

float emulated_warp_max(float value) {
    float all[WARP];
    gather(value, all);
    for (u32 lane = 1; lane < WARP; ++lane) all[0] = fmaxf(all[0], all[lane]);
    return all[0];
}

/* A thread's eight numbers of a and four of b, in the order of the instruction's inputs: words are neighbours along k, and the second
 * half of k comes eight later. */
typedef struct {
    float a[2][2][2], b[2][2];
} Fragment;

static _Thread_local Fragment fragments[MAX_THREADS / 32][2][WARP];

static void unpack(float *to, u32 word) {
    to[0] = bf16_to_float(word & 0xffffu);
    to[1] = bf16_to_float(word >> 16);
}

void emulated_multiply_tiles(float *d, const u32 *a, u32 b0, u32 b1) {
    Coroutine *self = &coroutines[current];
    const Fragment *all = fragments[THREAD / WARP][self->exchanges++ % 2u];
    Fragment *own = (Fragment *)&all[LANE];
    for (u32 word = 0; word < 4u; ++word) unpack(own->a[word % 2u][word / 2u], a[word]);
    unpack(own->b[0], b0);
    unpack(own->b[1], b1);
    const u32 row = LANE / 4u * 4u, column = LANE % 4u * 8u;
    warp_barrier();
    for (u32 i = 0; i < 4u; ++i) {
        const Fragment *rows = &all[row], *columns = &all[column + i % 2u * 4u];
        float sum = 0.0f;
        for (u32 half = 0; half < 2u; ++half)
            for (u32 lane = 0; lane < 4u; ++lane) {
                const float *x = rows[lane].a[i / 2u][half], *y = columns[lane].b[half];
                sum += x[0] * y[0];
                sum += x[1] * y[1];
            }
        d[i] += sum;
    }
}

static void carry_out(const Copy *copy) {
    if (copy->there) memcpy(copy->to, copy->from, 16);
    else memset(copy->to, 0, 16);
}

void emulated_copy_async(void *to, const void *from, int there) {
    Coroutine *self = &coroutines[current];
    check_alignment(to);
    check_alignment(from);
    const Copy copy = {to, from, there, self->group};
    if (against_order) {
        carry_out(&copy);
        return;
    }
    if (self->copy_count == MAX_COPIES) {
        failure = "a thread has too many copies under way";
        return;
    }
    self->copies[self->copy_count++] = copy;
}

void emulated_copy_commit(void) { ++coroutines[current].group; }

void emulated_copy_wait(int pending) {
    Coroutine *self = &coroutines[current];
    int kept = 0;
    for (int i = 0; i < self->copy_count; ++i) {
        const Copy copy = self->copies[i];
        if (copy.group >= self->group - pending) self->copies[kept++] = copy;
        else carry_out(&copy);
    }
    self->copy_count = kept;
}

/* ---- Running ---- */

/* Runs the threads of a warp until each is done or waits for the block. */
static void run_warp(u32 warp) {
    const u32 begin = warp * WARP;
    const u32 end = begin + WARP < THREADS ? begin + WARP : THREADS;
    for (;;) {
        u32 waiting = 0, elsewhere = 0;
        for (u32 i = 0; i < end - begin; ++i) {
            current = against_order ? end - 1u - i : begin + i;
            Coroutine *thread = &coroutines[current];
            if (thread->state == READY) {
                emulated_place.thread = current;
                cascade_emulator_switch(&scheduler, thread->stack_pointer);
            }
            waiting += thread->state == AT_WARP_BARRIER;
            elsewhere += thread->state == AT_BLOCK_BARRIER || thread->state == DONE;
        }
        if (!waiting) return;
        if (elsewhere || end - begin != WARP) {
            failure = "some threads of a warp exchange values while others do not";
            return;
        }
        for (u32 i = begin; i < end; ++i) coroutines[i].state = READY;
    }
}

static void run_block(void) {
    const u32 warps = (THREADS + WARP - 1u) / WARP;
    for (u32 i = 0; i < THREADS; ++i) {
        Coroutine *thread = &coroutines[i];
        thread->stack_pointer = first_frame(thread->stack + STACK, run_thread);
        thread->state = READY;
        thread->exchanges = 0;
        thread->copy_count = thread->group = 0;
    }
    for (;;) {
        for (u32 w = 0; w < warps && !failure; ++w) run_warp(against_order ? warps - 1u - w : w);
        if (failure) return;
        /* Threads that have ended count as having met every barrier, as on a GPU. */
        u32 waiting = 0;
        for (u32 i = 0; i < THREADS; ++i) {
            if (coroutines[i].state != AT_BLOCK_BARRIER) continue;
            coroutines[i].state = READY;
            ++waiting;
        }
        if (!waiting) return;
    }
}

static int allocate_coroutines(void) {
    if (coroutines) return 1;
    Coroutine *all = calloc(MAX_THREADS, sizeof *all);
    unsigned char *stacks = malloc((size_t)MAX_THREADS * STACK);
    if (!all || !stacks) return 0;
    for (u32 i = 0; i < MAX_THREADS; ++i) all[i].stack = stacks + (size_t)i * STACK;
    coroutines = all;
    return 1;
}

#define KERNELS(X)                                                                                                           \
    X(embed) X(linear_bf16_1) X(linear_bf16_2) X(linear_bf16_4) X(linear_bf16_8) X(linear_f32)                              \
    X(attention_bf16_32) X(attention_bf16_64) X(attention_bf16_128) X(attention_f32) X(logits) X(top)              \
    X(keep) X(grow) X(pack) X(fill) X(copy_quads) X(read_quads)

/* Runs a kernel over a grid. Gives null, or what is wrong with the kernel. */
const char *cascade_emulate(const char *name, const u32 *grid, u32 threads, const void *arguments, int backwards) {
    u32 most = 0;
    kernel_body = 0;
#define FIND(kernel)              \
    if (!strcmp(name, #kernel)) { \
        kernel_body = kernel##_thread; \
        most = kernel##_threads;       \
    }
    KERNELS(FIND)
    if (!kernel_body) return "there is no kernel of this name";
    if (threads > most) return "a block has more threads than the kernel is compiled for";
    if (!allocate_coroutines()) return "there is no memory for coroutines";
    kernel_arguments = arguments;
    failure = 0;
    against_order = backwards;
    emulated_place.threads = threads;
    memcpy(emulated_place.grid, grid, sizeof emulated_place.grid);
    /* In order x changes fastest; against it z does, so that blocks which share something with others do not all come together. */
    const u32 count = grid[0] * grid[1] * grid[2];
    for (u32 i = 0; i < count && !failure; ++i) {
        const u32 n = backwards ? count - 1u - i : i;
        emulated_place.block[0] = backwards ? n / grid[2] / grid[1] : n % grid[0];
        emulated_place.block[1] = backwards ? n / grid[2] % grid[1] : n / grid[0] % grid[1];
        emulated_place.block[2] = backwards ? n % grid[2] : n / grid[0] / grid[1];
        run_block();
    }
    return failure;
}

/* Sizes of structures, places of a field of each, and constants that both sides know, for `src/arguments.rs` to be compared with. */
size_t cascade_emulated_layout(u32 index) {
    static const size_t layout[] = {
        sizeof(Step), offsetof(Step, path), sizeof(Answer), sizeof(StreamArguments), sizeof(EmbedArguments),
        sizeof(HeadsArguments), offsetof(HeadsArguments, which), sizeof(LinearArguments), offsetof(LinearArguments, stream),
        offsetof(LinearArguments, heads), offsetof(LinearArguments, activation), sizeof(AttentionArguments),
        offsetof(AttentionArguments, reach), sizeof(Slice), sizeof(LogitsArguments), offsetof(LogitsArguments, slice_count),
        sizeof(TopArguments), sizeof(KeepArguments), sizeof(GrowArguments), sizeof(PackArguments), sizeof(FillArguments),
        sizeof(CopyArguments), MAX_PARTS, SPLIT, SLICE,
    };
    return index < sizeof layout / sizeof *layout ? layout[index] : 0;
}
