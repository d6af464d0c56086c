/* From the head's output to what is wanted of it, so that little is copied to the host. */

/* Whether candidate a comes before b: greater, or as great and of a lower token. */
DEVICE int is_before(float a, u32 token_a, float b, u32 token_b) { return a > b || (a == b && token_a < token_b); }

typedef struct {
    float value;
    u32 token;
} Candidate;

/* The best candidate of a block, by every thread. */
DEVICE Candidate block_best(Candidate best, Candidate *scratch) {
    for (u32 lanes = WARP / 2; lanes; lanes /= 2) {
        const float value = shuffle_xor(best.value, lanes);
        const u32 token = shuffle_xor_u32(best.token, lanes);
        if (is_before(value, token, best.value, best.token)) {
            best.value = value;
            best.token = token;
        }
    }
    block_barrier();
    if (LANE == 0) scratch[WARP_INDEX] = best;
    block_barrier();
    best = scratch[0];
    for (u32 warp = 1; warp < THREADS / WARP; ++warp) {
        const Candidate other = scratch[warp];
        if (is_before(other.value, other.token, best.value, best.token)) best = other;
    }
    return best;
}

/* Tokens that one block of `logits` looks at. */
#define SLICE 1024u

/* Finds the greatest logit of a slice of the vocabulary. Grid: slice; wanted row. 256 threads. */
KERNEL(logits, LogitsArguments) {
    wait_for_kernel_before();
    SHARED Candidate candidates[WARP];
    SHARED float scratch[WARP];
    const u32 row = BLOCK_Y, start = BLOCK_X * SLICE;
    if (row >= a.step->rows - a.step->first_wanted) return;
    const float *logits = a.logits + (u64)row * a.vocabulary;
    Candidate best = {-INFINITE, 0xffffffffu};
    float values[SLICE / 256u];
    float improper = 0.0f;
    UNROLL for (u32 i = 0; i < SLICE / 256u; ++i) {
        const u32 token = start + i * 256u + THREAD;
        values[i] = -INFINITE;
        if (token < a.vocabulary) {
            const float value = logits[token];
            values[i] = value;
            if (value != value || value == INFINITE) improper = 1.0f;
            if (is_before(value, token, best.value, best.token)) {
                best.value = value;
                best.token = token;
            }
        }
    }
    best = block_best(best, candidates);
    improper = block_sum(improper, scratch);
    float sum = 0.0f;
    UNROLL for (u32 i = 0; i < SLICE / 256u; ++i) sum += values[i] == -INFINITE ? 0.0f : exponential(values[i] - best.value);
    sum = block_sum(sum, scratch);
    if (THREAD == 0) {
        Slice *slice = a.slices + (u64)row * a.slice_count + BLOCK_X;
        slice->greatest = best.value;
        slice->argmax = best.token;
        slice->sum = sum;
        slice->improper = improper > 0.0f;
    }
}

/* Puts the slices of a row together, in order, and looks up the probabilities of its children. Block: a wanted row. */
KERNEL(answer, LogitsArguments) {
    wait_for_kernel_before();
    SHARED Candidate greatest;
    SHARED float total;
    const u32 row = BLOCK_X;
    if (row >= a.step->rows - a.step->first_wanted) return;
    if (THREAD == 0) {
        const Slice *slices = a.slices + (u64)row * a.slice_count;
        Candidate best = {-INFINITE, 0xffffffffu};
        u32 improper = 0;
        for (u32 i = 0; i < a.slice_count; ++i) {
            improper |= slices[i].improper;
            if (is_before(slices[i].greatest, slices[i].argmax, best.value, best.token)) {
                best.value = slices[i].greatest;
                best.token = slices[i].argmax;
            }
        }
        float sum = 0.0f;
        for (u32 i = 0; i < a.slice_count; ++i)
            if (slices[i].greatest != -INFINITE) sum += slices[i].sum * exponential(slices[i].greatest - best.value);
        greatest = best;
        total = sum;
        a.answer->argmax[row] = best.token;
        a.answer->greatest[row] = best.value;
        a.answer->sum[row] = sum;
        a.answer->improper[row] = improper || best.value == -INFINITE;
    }
    block_barrier();
    for (u32 i = THREAD; i < a.step->picks; i += THREADS) {
        if (a.step->pick_row[i] != row) continue;
        const float logit = a.logits[(u64)row * a.vocabulary + a.step->pick_token[i]];
        a.answer->picks[i] = exponential(logit - greatest.value) / total;
    }
}

/* The most probable tokens of a row, one after the other. Block: a wanted row. */
KERNEL(top, TopArguments) {
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
        last = block_best(best, candidates);
        if (THREAD == 0) {
            a.tokens[row * a.width + rank] = last.token;
            a.values[row * a.width + rank] = last.value;
        }
    }
}
