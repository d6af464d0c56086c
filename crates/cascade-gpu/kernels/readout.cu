/* From the head's output to what is wanted of it, so that little is copied to the host. */

/* Whether candidate a comes before b: greater, or as great and of a lower token. */
DEVICE int is_before(float a, u32 token_a, float b, u32 token_b) { return a > b || (a == b && token_a < token_b); }

typedef struct {
    float value;
    u32 token;
} Candidate;

DEVICE Candidate warp_best(Candidate best) {
    for (u32 lanes = WARP / 2; lanes; lanes /= 2) {
        const float value = shuffle_xor(best.value, lanes);
        const u32 token = shuffle_xor_u32(best.token, lanes);
        if (is_before(value, token, best.value, best.token)) {
            best.value = value;
            best.token = token;
        }
    }
    return best;
}

/* The best candidate of a block, for every thread. Nobody is at work with `scratch`. */
DEVICE Candidate block_best(Candidate best, Candidate *scratch) {
    best = warp_best(best);
    if (LANE == 0) scratch[WARP_INDEX] = best;
    block_barrier();
    best = scratch[0];
    for (u32 warp = 1; warp < THREADS / WARP; ++warp) {
        const Candidate other = scratch[warp];
        if (is_before(other.value, other.token, best.value, best.token)) best = other;
    }
    return best;
}

DEVICE Slice load_slice(const Slice *from) {
    const Quad q = load_fresh_quad(from);
    const Slice slice = {bits_to_float(q.word[0]), bits_to_float(q.word[1]), q.word[2], q.word[3]};
    return slice;
}

/* Puts the slices of a row together, always in the same order. For one warp. */
DEVICE void put_together(const Slice *slices, u32 count, u32 row, Answer *answer) {
    Candidate best = {-INFINITE, 0xffffffffu};
    float sum = 0.0f;
    for (u32 i = LANE; i < count; i += WARP) {
        const Slice slice = load_slice(slices + i);
        if (is_before(slice.greatest, slice.argmax, best.value, best.token)) {
            best.value = slice.greatest;
            best.token = slice.argmax;
        }
    }
    best = warp_best(best);
    for (u32 i = LANE; i < count; i += WARP) {
        const Slice slice = load_slice(slices + i);
        if (slice.greatest != -INFINITE) sum += slice.sum * exponential(slice.greatest - best.value);
    }
    sum = warp_sum(sum);
    if (LANE != 0) return;
    answer->argmax[row] = best.token;
    answer->greatest[row] = best.value;
    answer->sum[row] = sum;
    answer->improper[row] = best.value == INFINITE || best.value == -INFINITE;
}

/* Tokens that one block of `logits` looks at. */
#define SLICE 1024u

/* Finds the greatest logit of a slice of the vocabulary; the last block to be done with a row puts its slices together, and looks up
 * the probabilities of the row's children. Grid: slice; wanted row. */
KERNEL_OF(256, 1, logits, LogitsArguments) {
    wait_for_kernel_before();
    SHARED Candidate candidates[WARP];
    SHARED float sums[WARP];
    SHARED u32 arrived;
    const u32 row = BLOCK_Y, start = BLOCK_X * SLICE;
    if (row >= a.step->rows - a.step->first_wanted) return;
    const float *logits = a.logits + (u64)row * a.vocabulary;
    Candidate best = {-INFINITE, 0xffffffffu};
    float values[SLICE / 256u];
    UNROLL for (u32 i = 0; i < SLICE / 256u; ++i) {
        const u32 token = start + i * 256u + THREAD;
        values[i] = token < a.vocabulary ? logits[token] : -INFINITE;
        /* What is not a number makes no distribution, and infinity does not either: so the one can stand for the other. */
        if (values[i] != values[i]) values[i] = INFINITE;
        if (token < a.vocabulary && is_before(values[i], token, best.value, best.token)) {
            best.value = values[i];
            best.token = token;
        }
    }
    best = block_best(best, candidates);
    float sum = 0.0f;
    UNROLL for (u32 i = 0; i < SLICE / 256u; ++i) sum += values[i] == -INFINITE ? 0.0f : exponential(values[i] - best.value);
    sum = block_sum(sum, sums);
    Slice *slices = a.slices + (u64)row * a.slice_count;
    if (THREAD == 0) {
        const Slice slice = {best.value, sum, best.token, 0};
        slices[BLOCK_X] = slice;
    }
    if (!is_last_of(a.slice_count, a.arrived + row, &arrived)) return;
    if (WARP_INDEX == 0) put_together(slices, a.slice_count, row, a.answer);
    block_barrier();
    const float greatest = a.answer->greatest[row], total = a.answer->sum[row];
    for (u32 i = THREAD; i < a.step->picks; i += THREADS) {
        if (a.step->pick_row[i] != row) continue;
        a.answer->picks[i] = exponential(logits[a.step->pick_token[i]] - greatest) / total;
    }
}

/* The most probable tokens of a row, one after the other. Block: a wanted row. */
KERNEL_OF(1024, 1, top, TopArguments) {
    SHARED Candidate candidates[WARP];
    const u32 row = BLOCK_X;
    if (row >= a.step->rows - a.step->first_wanted) return;
    const float *logits = a.logits + (u64)row * a.vocabulary;
    Candidate last = {INFINITE, 0};
    for (u32 rank = 0; rank < a.width; ++rank) {
        Candidate best = {-INFINITE, 0xffffffffu};
        for (u32 token = THREAD; token < a.vocabulary; token += THREADS) {
            const float value = logits[token];
            const int left = rank == 0 || is_before(last.value, last.token, value, token);
            if (left && is_before(value, token, best.value, best.token)) {
                best.value = value;
                best.token = token;
            }
        }
        block_barrier();
        last = block_best(best, candidates);
        if (THREAD == 0) {
            a.tokens[row * a.width + rank] = last.token;
            a.values[row * a.width + rank] = last.value;
        }
    }
}
