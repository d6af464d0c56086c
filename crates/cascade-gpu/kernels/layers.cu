/* What lies between linear maps and attention: embedding, norms, heads, feed-forward nonlinearities. */

/* Block: a row. */
KERNEL(embed, EmbedArguments) {
    wait_for_kernel_before();
    const u32 row = BLOCK_X;
    if (row >= a.step->rows) return;
    const u64 from = (u64)a.step->tokens[row] * a.size;
    for (u32 i = THREAD; i < a.size; i += THREADS) a.stream[(u64)row * a.size + i] = load_number(a.table, from + i, a.kind);
}

/* Sum of the parts of one number, in order. */
DEVICE float sum_parts(const float *parts, u32 count, u64 distance) {
    float sum = 0.0f;
    for (u32 part = 0; part < count; ++part) sum += parts[part * distance];
    return sum;
}

/* Adds a sublayer's output to the residual stream, and gives its root-mean-square norm. Block: a row. */
KERNEL(norm, NormArguments) {
    wait_for_kernel_before();
    SHARED float scratch[WARP];
    const u32 row = BLOCK_X;
    if (row >= a.step->rows) return;
    float *stream = a.stream + (u64)row * a.size;
    const float *delta = a.delta + (u64)row * a.size;
    const u64 distance = (u64)a.stride * a.size;
    float squares = 0.0f;
    for (u32 i = THREAD; i < a.size; i += THREADS) {
        const float x = stream[i] + sum_parts(delta + i, a.parts, distance);
        stream[i] = x;
        squares = multiply_add(x, x, squares);
    }
    const float scale = inverse_root(block_sum(squares, scratch) / (float)a.size + a.epsilon);
    for (u32 i = THREAD; i < a.size; i += THREADS) store_number(a.out, (u64)row * a.size + i, stream[i] * scale * a.weight[i], a.kind);
}

/* Sums the parts of queries, keys and values, rotates queries and keys, and puts each where attention reads it. Heads are
 * padded with zeros. Block: a head (queries' first, then keys', then values') of a row; a thread per number. */
KERNEL(heads, HeadsArguments) {
    wait_for_kernel_before();
    const u32 row = BLOCK_Y, i = THREAD;
    const u32 head = a.which & 1u ? BLOCK_X : BLOCK_X + a.heads;
    if (row >= a.step->rows || i >= a.padded) return;
    const u32 width = ((a.which & 1u ? a.heads : 0u) + (a.which & 2u ? 2u * a.kv_heads : 0u)) * a.head_dim;
    const float *projected = a.projected + (u64)row * width + (u64)BLOCK_X * a.head_dim;
    const u64 distance = (u64)a.stride * width;
    float value = 0.0f;
    if (i < a.head_dim) {
        value = sum_parts(projected + i, a.parts, distance);
        if (a.cosines && head < a.heads + a.kv_heads) {
            /* The halves of a head are the coordinates. */
            const u32 half = a.head_dim / 2u, j = i % half;
            const u64 at = (u64)a.step->positions[row] * half + j;
            const float other = sum_parts(projected + (i < half ? i + half : j), a.parts, distance);
            const float turned = i < half ? -other : other;
            value = value * a.cosines[at] + turned * a.sines[at];
        }
    }
    if (head < a.heads) {
        store_number(a.queries, ((u64)row * a.heads + head) * a.padded + i, value, a.kind);
        return;
    }
    const u32 plane = head - a.heads, slot = a.step->first + row;
    void *cache = a.to_source ? a.step->source : a.step->cache;
    const u64 capacity = a.to_source ? a.step->source_capacity : a.step->capacity;
    const u64 start = ((u64)a.layer * 2u * a.kv_heads + plane) * capacity * a.padded;
    const u64 at = plane < a.kv_heads ? (u64)slot * a.padded + i : i * capacity + slot;
    store_number(cache, start + at, value, a.kind);
}

DEVICE float activate(float x, u32 activation) {
    if (activation == 0) return x > 0.0f || x != x ? x : 0.0f;
    if (activation == 1) return 0.5f * x * (1.0f + tangent_h(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    return x / (1.0f + exponential(-x));
}

/* Block: some numbers of a row. */
KERNEL(activation, ActivationArguments) {
    wait_for_kernel_before();
    const u32 row = BLOCK_Y, i = BLOCK_X * THREADS + THREAD;
    if (row >= a.step->rows || i >= a.inner) return;
    const u32 width = a.gated ? 2u * a.inner : a.inner;
    const u64 distance = (u64)a.stride * width;
    const float *projected = a.projected + (u64)row * width;
    float value;
    if (a.gated) {
        const float *gate = projected + i / 8u * 16u + i % 8u;
        value = activate(sum_parts(gate, a.parts, distance), a.activation) * sum_parts(gate + 8, a.parts, distance);
    } else {
        value = activate(sum_parts(projected + i, a.parts, distance), a.activation);
    }
    store_number(a.out, (u64)row * a.inner + i, value, a.kind);
}
