/* What lies between linear maps and attention: residual stream and norms, heads, nonlinearities. It is done by the warp that has a
 * linear map's sums, before they leave its registers.
 *
 * A warp has sixteen outputs (a tile) of eight rows, as multiply_tiles leaves them: numbers 0 and 1 of a thread are output
 * LANE / 4 of rows 2 · (LANE % 4) and the next, numbers 2 and 3 those of the output eight further. */

/* The row of number i of eight rows `n`, counted from those that `first` begins. */
DEVICE u32 row_of(u32 first, u32 n, u32 i) { return first + n * 8u + LANE % 4u * 2u + i % 2u; }

/* Writes numbers of the residual stream, and the next norm of them. The whole warp comes here. */
DEVICE void enter_stream(const StreamArguments *a, u32 tile, u32 eights, u32 first, u32 rows, float (*numbers)[4]) {
    const u32 output = tile * 16u + LANE / 4u;
    const float low_weight = a->weight[output], high_weight = a->weight[output + 8u];
    UNROLL for (u32 n = 0; n < eights; ++n) {
        UNROLL for (u32 i = 0; i < 2; ++i) {
            const u32 row = row_of(first, n, i);
            const u64 at = (u64)row * a->size + output;
            const float low = numbers[n][i], high = numbers[n][2 + i];
            /* Rows that are not there have zeros. */
            float squares = multiply_add(high, high, low * low);
            if (row < rows) {
                a->stream[at] = low;
                a->stream[at + 8u] = high;
                store_number(a->normed, at, low * low_weight, a->kind);
                store_number(a->normed, at + 8u, high * high_weight, a->kind);
            }
            for (u32 lanes = 4; lanes < WARP; lanes *= 2) squares += shuffle_xor(squares, lanes);
            if (row < rows && LANE < 4u) a->squares[(u64)row * (a->size / 16u) + tile] = squares;
        }
    }
}

/* Tokens to the residual stream, from a table of numbers or of blocks. Grid: eight tiles, a warp each; eight rows. */
template <int BLOCKS> DEVICE void embed_tokens(const EmbedArguments &a) {
    wait_for_kernel_before();
    const u32 tile = BLOCK_X * (THREADS / WARP) + WARP_INDEX, first = BLOCK_Y * 8u, rows = a.step->rows;
    if (tile >= a.stream.size / 16u) return;
    float numbers[1][4] = {{0.0f, 0.0f, 0.0f, 0.0f}};
    UNROLL for (u32 i = 0; i < 4; ++i) {
        const u32 row = row_of(first, 0, i), output = tile * 16u + LANE / 4u + i / 2u * 8u;
        if (row >= rows) continue;
        const u64 token = a.step->tokens[row];
        numbers[0][i] = BLOCKS ? load_from_blocks(a.table, token, a.stream.size, output)
                               : load_number(a.table, token * a.stream.size + output, a.stream.kind);
    }
    enter_stream(&a.stream, tile, 1, first, rows, numbers);
}

KERNEL_OF(256, 1, embed, EmbedArguments) { embed_tokens<0>(a); }
KERNEL_OF(256, 1, embed_q8, EmbedArguments) { embed_tokens<1>(a); }

/* Queries, keys and values to where attention reads them; queries and keys are rotated by position if at all. A tile lies within a
 * head: queries' come first, then keys', then values'. */
DEVICE void enter_heads(const HeadsArguments *a, const Step *step, u32 tile, u32 eights, u32 first, u32 rows,
                        float (*numbers)[4]) {
    const u32 head = tile * 16u / a->head_dim + (a->which & 1u ? 0u : a->heads), plane = head - a->heads;
    const u32 in_head = tile * 16u % a->head_dim, half = a->head_dim / 2u, lane = LANE / 4u;
    const int rotated = a->cosines && head < a->heads + a->kv_heads;
    /* The halves of a head are the coordinates. */
    const u32 low_at = rotated ? in_head / 2u + lane : in_head + lane, high_at = low_at + (rotated ? half : 8u);
    void *to = a->queries;
    u64 start = (u64)head * a->padded, of_row = (u64)a->heads * a->padded, of_number = 1;
    if (head >= a->heads) {
        to = a->to_source ? step->source : step->cache;
        const u64 capacity = a->to_source ? step->source_capacity : step->capacity;
        const int is_key = plane < a->kv_heads;
        of_row = is_key ? a->padded : 1u;
        of_number = is_key ? 1u : capacity;
        start = ((u64)a->layer * 2u * a->kv_heads + plane) * capacity * a->padded + step->first * of_row;
    }
    UNROLL for (u32 n = 0; n < eights; ++n) {
        UNROLL for (u32 i = 0; i < 2; ++i) {
            const u32 row = row_of(first, n, i);
            float low = numbers[n][i], high = numbers[n][2 + i];
            if (rotated) {
                const u64 at = (u64)step->positions[row < rows ? row : 0u] * half + low_at;
                const float cosine = load_constant(a->cosines + at), sine = load_constant(a->sines + at);
                const float turned = multiply_add(low, cosine, -high * sine);
                high = multiply_add(high, cosine, low * sine);
                low = turned;
            }
            if (row >= rows) continue;
            store_number((void *)in_memory(to), start + row * of_row + low_at * of_number, low, a->kind);
            store_number((void *)in_memory(to), start + row * of_row + high_at * of_number, high, a->kind);
        }
    }
}

DEVICE float activate(float x, u32 activation) {
    if (activation == 0) return x > 0.0f || x != x ? x : 0.0f;
    if (activation == 1) return 0.5f * x * (1.0f + tangent_h(0.7978845608028654f * (x + 0.044715f * x * x * x)));
    return x / (1.0f + exponential(-x));
}

/* What becomes of a tile's sums of `eights` times eight rows from `first` on, where there are `rows` in all. `scales` has what each
 * row's sums are multiplied with. The whole warp comes here. */
DEVICE void finish(const LinearArguments *a, u32 tile, u32 eights, u32 first, u32 rows, const float *scales, float (*sums)[4]) {
    const u32 lane = LANE / 4u, output = tile * 16u + lane;
    UNROLL for (u32 n = 0; n < eights; ++n) {
        UNROLL for (u32 i = 0; i < 4; ++i) {
            const u32 row = row_of(first, n, i);
            sums[n][i] = row < rows ? sums[n][i] * scales[row] : 0.0f;
            if (a->bias && row < rows) sums[n][i] += load_constant(a->bias + output + i / 2u * 8u);
        }
    }
    if (a->then == THEN_ADD) {
        /* All loads before the first store, which might be to where the next load is from, for all that a compiler knows. */
        UNROLL for (u32 n = 0; n < eights; ++n) {
            UNROLL for (u32 i = 0; i < 4; ++i) {
                const u64 at = (u64)row_of(first, n, i) * a->outputs + output + i / 2u * 8u;
                if (row_of(first, n, i) < rows) sums[n][i] += a->stream.stream[at];
            }
        }
        enter_stream(&a->stream, tile, eights, first, rows, sums);
    } else if (a->then == THEN_HEADS) {
        enter_heads(&a->heads, a->step, tile, eights, first, rows, sums);
    } else if (a->then == THEN_LOGITS) {
        UNROLL for (u32 n = 0; n < eights; ++n) {
            UNROLL for (u32 i = 0; i < 4; ++i) {
                const u32 row = row_of(first, n, i), column = output + i / 2u * 8u;
                const int there = row < rows && column < a->vocabulary;
                if (there) ((float *)a->out)[(u64)row * a->vocabulary + column] = a->scale * sums[n][i];
            }
        }
    } else if (a->gated) {
        UNROLL for (u32 n = 0; n < eights; ++n) {
            UNROLL for (u32 i = 0; i < 2; ++i) {
                const u64 at = (u64)row_of(first, n, i) * (a->outputs / 2u) + tile * 8u + lane;
                const float value = activate(sums[n][i], a->activation) * sums[n][2 + i];
                if (row_of(first, n, i) < rows) store_number(a->out, at, value, a->kind);
            }
        }
    } else {
        UNROLL for (u32 n = 0; n < eights; ++n) {
            UNROLL for (u32 i = 0; i < 4; ++i) {
                const u64 at = (u64)row_of(first, n, i) * a->outputs + output + i / 2u * 8u;
                const float value = activate(sums[n][i], a->activation);
                if (row_of(first, n, i) < rows) store_number(a->out, at, value, a->kind);
            }
        }
    }
}

/* Norms of heads of queries and of this forward's keys, each by itself, and their rotation by position: what enter_heads leaves alone
 * where heads are normed, since no warp has a whole one there. A head's halves are the coordinates; a lane has up to two pairs.
 * Grid: eight heads, a warp each, queries' first, then keys'; row. */
KERNEL_OF(256, 1, norm_heads, NormHeadsArguments) {
    wait_for_kernel_before();
    const Step *step = a.step;
    const u32 row = BLOCK_Y, head = BLOCK_X * (THREADS / WARP) + WARP_INDEX, half = a.head_dim / 2u;
    if (row >= step->rows || head >= a.heads + a.kv_heads) return;
    const int is_key = head >= a.heads;
    const float *weight = is_key ? a.key_weight : a.query_weight;
    void *at = a.queries;
    u64 start = ((u64)row * a.heads + head) * a.padded;
    if (is_key) {
        const u32 plane = a.layer * 2u * a.kv_heads + (head - a.heads);
        at = step->cache;
        start = ((u64)plane * step->capacity + step->first + row) * a.padded;
    }
    float low[2], high[2], squares = 0.0f;
    UNROLL for (u32 i = 0; i < 2; ++i) {
        const u32 pair = LANE + WARP * i;
        const int there = pair < half;
        low[i] = there ? load_number(in_memory(at), start + pair, a.kind) : 0.0f;
        high[i] = there ? load_number(in_memory(at), start + half + pair, a.kind) : 0.0f;
        squares = multiply_add(high[i], high[i], multiply_add(low[i], low[i], squares));
    }
    const float scale = inverse_root(warp_sum(squares) / (float)a.head_dim + a.epsilon);
    UNROLL for (u32 i = 0; i < 2; ++i) {
        const u32 pair = LANE + WARP * i;
        if (pair >= half) continue;
        const u64 angle = (u64)step->positions[row] * half + pair;
        const float cosine = load_constant(a.cosines + angle), sine = load_constant(a.sines + angle);
        const float x = low[i] * scale * load_constant(weight + pair);
        const float y = high[i] * scale * load_constant(weight + half + pair);
        store_number((void *)in_memory(at), start + pair, multiply_add(x, cosine, -y * sine), a.kind);
        store_number((void *)in_memory(at), start + half + pair, multiply_add(y, cosine, x * sine), a.kind);
    }
}
