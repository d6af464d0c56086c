/* Attention of few rows to many keys. A block works through SPLIT keys, and `combine` puts the splits together, so that
 * the keys are spread over the processor however few the rows are. Sums run in one order whatever the rows are. */

/* What is added to the score of `slot` for a row: its bias, or minus infinity if the row does not see it. */
DEVICE float score_bias(const Step *step, const float *bias, u32 reach, u32 to_source, u32 row, u32 slot) {
    if (to_source && !bias) return slot < step->source_keys ? 0.0f : -INFINITE;
    const u32 past = step->past;
    u32 position = slot;
    if (slot >= past) {
        const u32 i = slot - past;
        if (i >= WINDOW || slot >= step->keys || !(step->mask[row][i / 64u] >> (i % 64u) & 1u)) return -INFINITE;
        position = step->window_positions[i];
    }
    if (!bias) return 0.0f;
    const int distance = (int)step->positions[row] - (int)position, most = (int)reach;
    return bias[most + (distance < -most ? -most : distance > most ? most : distance)];
}

DEVICE const u8 *plane_of(const Step *step, u32 to_source, u32 plane, u32 padded, u32 bytes) {
    const u8 *cache = (const u8 *)(to_source ? step->source : step->cache);
    const u64 capacity = to_source ? step->source_capacity : step->capacity;
    return cache + (u64)plane * capacity * padded * bytes;
}

/* Zeros the halves of a quad that belong to slots from `keys` on: what lies there is anything, and 0 · NaN is NaN. */
DEVICE Quad only_keys(Quad values, u32 slot, u32 keys) {
    UNROLL for (u32 i = 0; i < 4; ++i) {
        if (slot + 2u * i >= keys) values.word[i] = 0;
        else if (slot + 2u * i + 1u >= keys) values.word[i] &= 0xffffu;
    }
    return values;
}

/* Keys of a warp. */
#define WARP_KEYS (SPLIT / 4u)

/* Grid: key-value head; split; sixteen queries, which are the heads of the group, row by row. Four warps share the keys.
 *
 * Tiles are those of multiply_tiles. Column n of score tile t is the key 8 · (n / 2) + 2 · t + n % 2 of its 32, so that each
 * thread's four tiles hold eight consecutive keys, and the values of those are one load. */
#define ATTENTION(PADDED)                                                                                                    \
    KERNEL(attention_bf16_##PADDED, AttentionArguments) {                                                                    \
        SHARED float maxima[4][16], sums[4][16];                                                                             \
        SHARED float mixed[4][16][PADDED];                                                                                   \
        const Step *step = a.step;                                                                                           \
        const u32 group = a.heads / a.kv_heads, queries = step->rows * group, base = BLOCK_Z * 16u;                          \
        const u32 keys = a.to_source ? step->source_keys : step->keys;                                                       \
        if (base >= queries || BLOCK_Y * SPLIT >= keys) return;                                                              \
        const u32 capacity = a.to_source ? step->source_capacity : step->capacity;                                           \
        const u32 key_plane = a.layer * 2u * a.kv_heads + BLOCK_X;                                                           \
        const u16 *key_rows = (const u16 *)plane_of(step, a.to_source, key_plane, PADDED, 2u);                               \
        const u16 *value_rows = (const u16 *)plane_of(step, a.to_source, key_plane + a.kv_heads, PADDED, 2u);                \
        const u32 g = LANE / 4u, q = LANE % 4u, from = BLOCK_Y * SPLIT + WARP_INDEX * WARP_KEYS;                             \
        u32 row[2], head[2];                                                                                                 \
        Quad query[2][PADDED / 32];                                                                                          \
        UNROLL for (u32 h = 0; h < 2; ++h) {                                                                                 \
            const u32 index = base + g + 8u * h < queries ? base + g + 8u * h : queries - 1u;                                \
            row[h] = index / group;                                                                                          \
            head[h] = BLOCK_X * group + index % group;                                                                       \
            const u16 *at = (const u16 *)a.queries + ((u64)row[h] * a.heads + head[h]) * PADDED;                             \
            UNROLL for (u32 c = 0; c < PADDED / 32; ++c) query[h][c] = load_quad(at + c * 32u + q * 8u);                     \
        }                                                                                                                    \
        float scores[WARP_KEYS / 8][4];                                                                                      \
        float greatest[2] = {-INFINITE, -INFINITE};                                                                          \
        UNROLL for (u32 t = 0; t < WARP_KEYS / 8; ++t) {                                                                     \
            UNROLL for (u32 i = 0; i < 4; ++i) scores[t][i] = 0.0f;                                                          \
            const u32 key = from + t / 4u * 32u + 8u * (g / 2u) + 2u * (t % 4u) + g % 2u;                                    \
            UNROLL for (u32 c = 0; c < PADDED / 32; ++c) {                                                                   \
                const Quad none = {{0, 0, 0, 0}};                                                                            \
                const Quad k = key < keys ? load_quad(key_rows + (u64)key * PADDED + c * 32u + q * 8u) : none;               \
                const Quad low = query[0][c], high = query[1][c];                                                            \
                const u32 first[4] = {low.word[0], high.word[0], low.word[1], high.word[1]};                                 \
                const u32 second[4] = {low.word[2], high.word[2], low.word[3], high.word[3]};                                \
                multiply_tiles(scores[t], first, k.word[0], k.word[1]);                                                      \
                multiply_tiles(scores[t], second, k.word[2], k.word[3]);                                                     \
            }                                                                                                                \
            UNROLL for (u32 i = 0; i < 4; ++i) {                                                                             \
                const u32 h = i / 2u, slot = from + t / 4u * 32u + 8u * q + 2u * (t % 4u) + i % 2u;                          \
                const float *bias = a.bias ? a.bias + (u64)head[h] * (2u * a.reach + 1u) : 0;                                \
                scores[t][i] += score_bias(step, bias, a.reach, a.to_source, row[h], slot);                                  \
                greatest[h] = scores[t][i] > greatest[h] ? scores[t][i] : greatest[h];                                       \
            }                                                                                                                \
        }                                                                                                                    \
        float sum[2] = {0.0f, 0.0f};                                                                                         \
        UNROLL for (u32 h = 0; h < 2; ++h) {                                                                                 \
            UNROLL for (u32 lanes = 1; lanes < 4; lanes *= 2) {                                                              \
                const float other = shuffle_xor(greatest[h], lanes);                                                         \
                greatest[h] = other > greatest[h] ? other : greatest[h];                                                     \
            }                                                                                                                \
        }                                                                                                                    \
        UNROLL for (u32 t = 0; t < WARP_KEYS / 8; ++t) {                                                                     \
            UNROLL for (u32 i = 0; i < 4; ++i) {                                                                             \
                const float most = greatest[i / 2u];                                                                         \
                /* A row that sees none of the keys has no maximum. A score that is not a number stays one. */               \
                const float weight = scores[t][i] == -INFINITE ? 0.0f : exponential(scores[t][i] - most);                    \
                scores[t][i] = weight;                                                                                       \
                sum[i / 2u] += weight;                                                                                       \
            }                                                                                                                \
        }                                                                                                                    \
        UNROLL for (u32 h = 0; h < 2; ++h)                                                                                   \
            UNROLL for (u32 lanes = 1; lanes < 4; lanes *= 2) sum[h] += shuffle_xor(sum[h], lanes);                          \
        UNROLL for (u32 n = 0; n < PADDED / 8; ++n) {                                                                        \
            float out[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                                         \
            UNROLL for (u32 c = 0; c < WARP_KEYS / 32; ++c) {                                                                \
                const u32 slot = from + c * 32u + 8u * q;                                                                    \
                const Quad none = {{0, 0, 0, 0}};                                                                            \
                Quad v = slot < keys ? load_quad(value_rows + (u64)(n * 8u + g) * capacity + slot) : none;                   \
                if (slot + 8u > keys) v = only_keys(v, slot, keys);                                                          \
                const float(*s)[4] = (const float(*)[4])&scores[c * 4u];                                                     \
                const u32 first[4] = {pack_bf16(s[0][0], s[0][1]), pack_bf16(s[0][2], s[0][3]),                              \
                                      pack_bf16(s[1][0], s[1][1]), pack_bf16(s[1][2], s[1][3])};                             \
                const u32 second[4] = {pack_bf16(s[2][0], s[2][1]), pack_bf16(s[2][2], s[2][3]),                             \
                                       pack_bf16(s[3][0], s[3][1]), pack_bf16(s[3][2], s[3][3])};                            \
                multiply_tiles(out, first, v.word[0], v.word[1]);                                                            \
                multiply_tiles(out, second, v.word[2], v.word[3]);                                                           \
            }                                                                                                                \
            UNROLL for (u32 i = 0; i < 4; ++i) mixed[WARP_INDEX][g + i / 2u * 8u][n * 8u + q * 2u + i % 2u] = out[i];        \
        }                                                                                                                    \
        if (q == 0) {                                                                                                        \
            UNROLL for (u32 h = 0; h < 2; ++h) {                                                                             \
                maxima[WARP_INDEX][g + 8u * h] = greatest[h];                                                                \
                sums[WARP_INDEX][g + 8u * h] = sum[h];                                                                       \
            }                                                                                                                \
        }                                                                                                                    \
        block_barrier();                                                                                                     \
        for (u32 j = THREAD; j < 16u * PADDED; j += THREADS) {                                                               \
            const u32 query_index = j / PADDED, i = j % PADDED, index = base + query_index;                                  \
            if (index >= queries) continue;                                                                                  \
            float most = -INFINITE, total = 0.0f, value = 0.0f;                                                              \
            for (u32 w = 0; w < 4; ++w) most = maxima[w][query_index] > most ? maxima[w][query_index] : most;                \
            for (u32 w = 0; w < 4; ++w) {                                                                                    \
                const float share = maxima[w][query_index] == -INFINITE ? 0.0f : exponential(maxima[w][query_index] - most); \
                total += share * sums[w][query_index];                                                                       \
                value += share * mixed[w][query_index][i];                                                                   \
            }                                                                                                                \
            const u32 to_head = BLOCK_X * group + index % group;                                                             \
            const u64 to = ((u64)BLOCK_Y * MAX_ROWS + index / group) * a.heads + to_head;                                    \
            a.mixed[to * PADDED + i] = value;                                                                                \
            if (i == 0) {                                                                                                    \
                a.weights[2u * to] = most;                                                                                   \
                a.weights[2u * to + 1u] = total;                                                                             \
            }                                                                                                                \
        }                                                                                                                    \
    }

ATTENTION(32)
ATTENTION(64)
ATTENTION(128)

/* The same in f32. Grid: head; split; row. A block of SPLIT threads, one per key. */
KERNEL(attention_f32, AttentionArguments) {
    SHARED float weights[SPLIT];
    SHARED float scratch[WARP];
    const Step *step = a.step;
    const u32 row = BLOCK_Z, head = BLOCK_X, slot = BLOCK_Y * SPLIT + THREAD;
    const u32 keys = a.to_source ? step->source_keys : step->keys;
    if (row >= step->rows || BLOCK_Y * SPLIT >= keys) return;
    const u64 capacity = a.to_source ? step->source_capacity : step->capacity;
    const u32 key_plane = a.layer * 2u * a.kv_heads + head / (a.heads / a.kv_heads);
    const float *key_rows = (const float *)plane_of(step, a.to_source, key_plane, a.padded, 4u);
    const float *value_rows = (const float *)plane_of(step, a.to_source, key_plane + a.kv_heads, a.padded, 4u);
    const float *query = (const float *)a.queries + ((u64)row * a.heads + head) * a.padded;
    const float *bias = a.bias ? a.bias + (u64)head * (2u * a.reach + 1u) : 0;
    float score = -INFINITE;
    if (slot < keys) {
        score = score_bias(step, bias, a.reach, a.to_source, row, slot);
        if (score != -INFINITE) {
            float product = 0.0f;
            for (u32 i = 0; i < a.padded; ++i) product = multiply_add(query[i], key_rows[(u64)slot * a.padded + i], product);
            score += product;
        }
    }
    const float of_warp = warp_max(score);
    if (LANE == 0) scratch[WARP_INDEX] = of_warp;
    block_barrier();
    float most = -INFINITE;
    for (u32 w = 0; w < SPLIT / WARP; ++w) most = scratch[w] > most ? scratch[w] : most;
    const float weight = score == -INFINITE ? 0.0f : exponential(score - most);
    weights[THREAD] = weight;
    const float sum = block_sum(weight, scratch);
    const u64 to = ((u64)BLOCK_Y * MAX_ROWS + row) * a.heads + head;
    const u32 count = keys - BLOCK_Y * SPLIT < SPLIT ? keys - BLOCK_Y * SPLIT : SPLIT;
    for (u32 i = THREAD; i < a.padded; i += THREADS) {
        const float *values = value_rows + i * capacity + BLOCK_Y * SPLIT;
        float value = 0.0f;
        for (u32 key = 0; key < count; ++key) value = multiply_add(weights[key], values[key], value);
        a.mixed[to * a.padded + i] = value;
    }
    if (THREAD == 0) {
        a.weights[2u * to] = most;
        a.weights[2u * to + 1u] = sum;
    }
}

/* Puts splits together, in order. Grid: head; row. A thread per number. */
KERNEL(combine, CombineArguments) {
    const u32 row = BLOCK_Y, head = BLOCK_X, i = THREAD;
    if (row >= a.step->rows || i >= a.head_dim) return;
    const u32 keys = a.to_source ? a.step->source_keys : a.step->keys;
    const u32 splits = (keys + SPLIT - 1u) / SPLIT;
    const u64 at = (u64)row * a.heads + head, distance = (u64)MAX_ROWS * a.heads;
    float most = -INFINITE, sum = 0.0f, value = 0.0f;
    for (u32 s = 0; s < splits; ++s) {
        const float of_split = a.weights[2u * (s * distance + at)];
        most = of_split > most ? of_split : most;
    }
    for (u32 s = 0; s < splits; ++s) {
        const u64 from = s * distance + at;
        const float of_split = a.weights[2u * from];
        const float share = of_split == -INFINITE ? 0.0f : exponential(of_split - most);
        sum += share * a.weights[2u * from + 1u];
        value += share * a.mixed[from * a.padded + i];
    }
    /* A row that sees nothing attends to nothing. */
    store_number(a.out, at * a.head_dim + i, sum == 0.0f ? 0.0f : value / sum, a.kind);
}
