/* Attention of few rows to many keys. A block works through SPLIT keys, so that the keys are spread over the processor however few
 * the rows are; the last block to be done with some rows puts their splits together, in order. Sums run in one order whatever the rows
 * are. */

/* How many positions a row sees. */
DEVICE u32 sight_of(const Step *step, u32 to_source, u32 row) {
    if (to_source) return step->source_keys;
    const u32 own = step->positions[row] + 1u;
    return own > step->past ? own : step->past;
}

/* Whether a position is too far before a row's own to be seen. */
DEVICE int is_behind(u32 window, u32 own, u32 position) { return window && position + window <= own; }

/* The slot of the key that a row sees at a position; one that there is where it sees none. No branch: lookups of several positions do
 * not wait for each other. */
DEVICE u32 slot_of(const Step *step, u32 row, u32 position, u32 sight) {
    const u32 past = step->past, far = position < past || position >= sight ? 0u : position - past;
    const u32 looked_up = past + step->path[row][far];
    return position < past ? position : looked_up;
}

/* What is added to the scores of keys so far before a row. `bias` is that of its head. */
DEVICE float bias_at(const float *bias, u32 reach, u32 row_position, u32 position) {
    const int distance = (int)row_position - (int)position, most = (int)reach;
    return bias[most + (distance < -most ? -most : distance > most ? most : distance)];
}

DEVICE const u8 *plane_of(const Step *step, u32 to_source, u32 plane, u32 padded, u32 bytes) {
    const u8 *cache = (const u8 *)in_memory(to_source ? step->source : step->cache);
    const u64 capacity = to_source ? step->source_capacity : step->capacity;
    return cache + (u64)plane * capacity * padded * bytes;
}

/* Zeros the halves of a quad that belong to positions from `keys` on: what lies there is anything, and 0 · NaN is NaN. */
DEVICE Quad only_keys(Quad values, u32 slot, u32 keys) {
    UNROLL for (u32 i = 0; i < 4; ++i) {
        if (slot + 2u * i >= keys) values.word[i] = 0;
        else if (slot + 2u * i + 1u >= keys) values.word[i] &= 0xffffu;
    }
    return values;
}

DEVICE u32 splits_of(u32 keys) { return (keys + SPLIT - 1u) / SPLIT; }

/* A number of what a row's head gets. A row that sees nothing attends to nothing. */
DEVICE void store_mixed(const AttentionArguments *a, u32 row, u32 head, u32 i, float value, float sum) {
    const u64 at = ((u64)row * a->heads + head) * a->head_dim + i;
    if (i < a->head_dim) store_number(a->out, at, sum == 0.0f ? 0.0f : value / sum, a->kind);
}

/* Where a row's head has its part of a split. */
DEVICE u64 place_of(const AttentionArguments *a, u32 split, u32 row, u32 head) {
    return ((u64)split * MAX_ROWS + row) * a->heads + head;
}

/* Puts the splits that blocks have published together. */
DEVICE void combine_splits(const AttentionArguments *a, u32 splits, u32 row, u32 head, u32 i) {
    float most = -INFINITE, sum = 0.0f, value = 0.0f;
    for (u32 s = 0; s < splits; ++s) {
        const float of_split = load_fresh(a->weights + 2u * place_of(a, s, row, head));
        most = of_split > most ? of_split : most;
    }
    for (u32 s = 0; s < splits; ++s) {
        const u64 from = place_of(a, s, row, head);
        const float of_split = load_fresh(a->weights + 2u * from);
        const float share = of_split == -INFINITE ? 0.0f : exponential(of_split - most);
        sum = multiply_add(share, load_fresh(a->weights + 2u * from + 1u), sum);
        value = multiply_add(share, load_fresh(a->mixed + from * a->padded + i), value);
    }
    store_mixed(a, row, head, i, value, sum);
}

/* Keys of a warp. */
#define WARP_KEYS 32u

/* Values of a number of a head in eight slots; zeros for the positions from `position` on that are not seen. */
DEVICE Quad gather_values(const u16 *values, const u32 *slots, u32 position, u32 sight) {
    u32 halves[8];
    UNROLL for (u32 i = 0; i < 8; ++i) halves[i] = position + i < sight ? (u32)values[slots[i]] : 0u;
    Quad gathered;
    UNROLL for (u32 i = 0; i < 4; ++i) gathered.word[i] = halves[2u * i] | halves[2u * i + 1u] << 16u;
    return gathered;
}

/* Scores of a tile of keys: queries times eight keys. */
#define SCORE(TYPE, PADDED, tile, key_quads)                                                                                 \
    UNROLL for (u32 c = 0; c < PADDED / 32; ++c) multiply_chunk<TYPE>(tile, query[0][c], query[1][c], (key_quads)[c]);

/* The weights of thirty-two keys as a tile's rows, of which `half` says which. */
template <class Type> DEVICE Quad weights_of(float (*weights)[4], u32 half) {
    const u32 i = 2u * half;
    const Quad packed = {{Type::pack(weights[0][i], weights[0][i + 1u]), Type::pack(weights[1][i], weights[1][i + 1u]),
                          Type::pack(weights[2][i], weights[2][i + 1u]), Type::pack(weights[3][i], weights[3][i + 1u])}};
    return packed;
}

/* All there is to load, before anything waits for it. */
#define LOAD_KEYS_AND_VALUES(PADDED)                                                                                         \
    UNROLL for (u32 t = 0; t < 4; ++t) {                                                                                     \
        const u32 key = from + 8u * (g / 2u) + 2u * t + g % 2u;                                                              \
        UNROLL for (u32 c = 0; c < PADDED / 32; ++c)                                                                         \
            key_quads[t][c] = key < keys ? load_quad(key_rows + (u64)key * PADDED + c * 32u + q * 8u) : none;                \
    }                                                                                                                        \
    UNROLL for (u32 n = 0; n < PADDED / 8; ++n)                                                                              \
        value_quads[n] = position < keys ? load_quad(value_rows + (u64)(n * 8u + g) * capacity + position) : none;

/* Grid: key-value head; split; sixteen queries, which are the heads of the group, row by row. Four warps share the keys.
 *
 * Tiles are those of multiply_tiles. Column n of score tile t is the key 8 · (n / 2) + 2 · t + n % 2 of its 32, so that each
 * thread's four tiles hold eight consecutive keys, and the values of those are one load.
 *
 * Keys are summed by position, not by slot: a node of a tree gets the very numbers that it would get in a chain. Where slots
 * differ from row to row, a tile is computed once for each of its rows, and only what is of that row is kept: slots are looked up
 * once, and no load waits for another but for them. */
#define ATTENTION(TYPE, PADDED, BLOCKS)                                                                                      \
    KERNEL_OF(128, BLOCKS, attention_##TYPE##_##PADDED, AttentionArguments) {                                                \
        SHARED float maxima[4][16], sums[4][16];                                                                             \
        /* Rows of eight more: lanes that write to four of them meet in no bank. */                                          \
        SHARED __attribute__((aligned(16))) float mixed[4][16][PADDED + 8];                                                  \
        SHARED u32 arrived;                                                                                                  \
        const Step *step = a.step;                                                                                           \
        const u32 group = a.heads / a.kv_heads, queries = step->rows * group, base = BLOCK_Z * 16u;                          \
        const u32 keys = a.to_source ? step->source_keys : step->keys, splits = splits_of(keys);                             \
        const u32 capacity = a.to_source ? step->source_capacity : step->capacity;                                           \
        const u32 key_plane = a.layer * 2u * a.kv_heads + BLOCK_X;                                                           \
        const u16 *key_rows = (const u16 *)plane_of(step, a.to_source, key_plane, PADDED, 2u);                               \
        const u16 *value_rows = (const u16 *)plane_of(step, a.to_source, key_plane + a.kv_heads, PADDED, 2u);                \
        const u32 g = LANE / 4u, q = LANE % 4u, from = BLOCK_Y * SPLIT + WARP_INDEX * WARP_KEYS;                             \
        const int apart = !a.to_source && step->scattered && from + WARP_KEYS > step->past;                                  \
        const Quad none = {{0, 0, 0, 0}};                                                                                    \
        const u32 position = from + 8u * q;                                                                                  \
        /* What the kernel before writes are the keys and values of this forward; those of the past are there. */            \
        const int early = base < queries && (a.to_source || from + WARP_KEYS <= step->past);                                 \
        Quad key_quads[4][PADDED / 32], value_quads[PADDED / 8];                                                             \
        if (early) {                                                                                                         \
            LOAD_KEYS_AND_VALUES(PADDED)                                                                                     \
        }                                                                                                                    \
        wait_for_kernel_before();                                                                                            \
        if (base >= queries || BLOCK_Y * SPLIT >= keys) return;                                                              \
        if (!apart && !early) {                                                                                              \
            LOAD_KEYS_AND_VALUES(PADDED)                                                                                     \
        }                                                                                                                    \
        u32 row[2], head[2], sight[2];                                                                                       \
        Quad query[2][PADDED / 32];                                                                                          \
        UNROLL for (u32 h = 0; h < 2; ++h) {                                                                                 \
            const u32 index = base + g + 8u * h < queries ? base + g + 8u * h : queries - 1u;                                \
            row[h] = index / group;                                                                                          \
            head[h] = BLOCK_X * group + index % group;                                                                       \
            sight[h] = sight_of(step, a.to_source, row[h]);                                                                  \
            const u16 *at = (const u16 *)a.queries + ((u64)row[h] * a.heads + head[h]) * PADDED;                             \
            UNROLL for (u32 c = 0; c < PADDED / 32; ++c) query[h][c] = load_quad(at + c * 32u + q * 8u);                     \
        }                                                                                                                    \
        const u32 passes = queries - base < 16u ? queries - base : 16u;                                                      \
        const u32 first_row = base / group, last_row = (base + passes - 1u) / group;                                         \
        float scores[4][4];                                                                                                  \
        UNROLL for (u32 t = 0; t < 4; ++t)                                                                                   \
            UNROLL for (u32 i = 0; i < 4; ++i) scores[t][i] = 0.0f;                                                          \
        if (!apart) {                                                                                                        \
            UNROLL for (u32 t = 0; t < 4; ++t) SCORE(TYPE, PADDED, scores[t], key_quads[t])                                  \
        } else {                                                                                                             \
            ROLLED for (u32 its = first_row; its <= last_row; ++its) {                                                       \
                const u32 its_sight = sight_of(step, 0, its);                                                                \
                UNROLL for (u32 t = 0; t < 4; ++t) {                                                                         \
                    const u32 key = from + 8u * (g / 2u) + 2u * t + g % 2u;                                                  \
                    const u16 *at = key_rows + (u64)slot_of(step, its, key, its_sight) * PADDED;                             \
                    UNROLL for (u32 c = 0; c < PADDED / 32; ++c)                                                             \
                        key_quads[t][c] = key < its_sight ? load_quad(at + c * 32u + q * 8u) : none;                         \
                }                                                                                                            \
                UNROLL for (u32 t = 0; t < 4; ++t) {                                                                         \
                    float tile[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                                \
                    SCORE(TYPE, PADDED, tile, key_quads[t])                                                                  \
                    UNROLL for (u32 i = 0; i < 4; ++i)                                                                       \
                        if (row[i / 2u] == its) scores[t][i] = tile[i];                                                      \
                }                                                                                                            \
            }                                                                                                                \
        }                                                                                                                    \
        if (a.bias) {                                                                                                        \
            UNROLL for (u32 h = 0; h < 2; ++h) {                                                                             \
                const float *bias = a.bias + (u64)head[h] * (2u * a.reach + 1u);                                             \
                const u32 own = step->positions[row[h]];                                                                     \
                UNROLL for (u32 t = 0; t < 4; ++t)                                                                           \
                    UNROLL for (u32 i = 0; i < 2; ++i)                                                                       \
                        scores[t][2u * h + i] += bias_at(bias, a.reach, own, position + 2u * t + i);                         \
            }                                                                                                                \
        }                                                                                                                    \
        float greatest[2] = {-INFINITE, -INFINITE}, sum[2] = {0.0f, 0.0f};                                                   \
        UNROLL for (u32 t = 0; t < 4; ++t) {                                                                                 \
            UNROLL for (u32 i = 0; i < 4; ++i) {                                                                             \
                const u32 h = i / 2u;                                                                                        \
                const u32 key = position + 2u * t + i % 2u;                                                                  \
                const int hidden = key >= sight[h] || is_behind(a.window, step->positions[row[h]], key);                     \
                if (hidden) scores[t][i] = -INFINITE;                                                                        \
                greatest[h] = scores[t][i] > greatest[h] ? scores[t][i] : greatest[h];                                       \
            }                                                                                                                \
        }                                                                                                                    \
        UNROLL for (u32 h = 0; h < 2; ++h) {                                                                                 \
            UNROLL for (u32 lanes = 1; lanes < 4; lanes *= 2) {                                                              \
                const float other = shuffle_xor(greatest[h], lanes);                                                         \
                greatest[h] = other > greatest[h] ? other : greatest[h];                                                     \
            }                                                                                                                \
        }                                                                                                                    \
        UNROLL for (u32 t = 0; t < 4; ++t) {                                                                                 \
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
        const Quad low = weights_of<TYPE>(scores, 0), high = weights_of<TYPE>(scores, 1);                                    \
        if (!apart) {                                                                                                        \
            UNROLL for (u32 n = 0; n < PADDED / 8; ++n) {                                                                    \
                float out[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                                     \
                const Quad values = value_quads[n];                                                                          \
                multiply_chunk<TYPE>(out, low, high, position + 8u > keys ? only_keys(values, position, keys) : values);     \
                UNROLL for (u32 h = 0; h < 2; ++h)                                                                           \
                    if (g + 8u * h < passes) store_pair(&mixed[WARP_INDEX][g + 8u * h][n * 8u + q * 2u], out + 2u * h);      \
            }                                                                                                                \
        } else {                                                                                                             \
            ROLLED for (u32 its = first_row; its <= last_row; ++its) {                                                       \
                const u32 its_sight = sight_of(step, 0, its);                                                                \
                u32 slots[8];                                                                                                \
                UNROLL for (u32 i = 0; i < 8; ++i) slots[i] = slot_of(step, its, position + i, its_sight);                   \
                SOME_UNROLLED for (u32 n = 0; n < PADDED / 8; ++n) {                                                         \
                    float out[4] = {0.0f, 0.0f, 0.0f, 0.0f};                                                                 \
                    const u16 *values = value_rows + (u64)(n * 8u + g) * capacity;                                           \
                    multiply_chunk<TYPE>(out, low, high, gather_values(values, slots, position, its_sight));                 \
                    UNROLL for (u32 h = 0; h < 2; ++h)                                                                       \
                        if (row[h] == its && g + 8u * h < passes)                                                            \
                            store_pair(&mixed[WARP_INDEX][g + 8u * h][n * 8u + q * 2u], out + 2u * h);                       \
                }                                                                                                            \
            }                                                                                                                \
        }                                                                                                                    \
        if (q == 0) {                                                                                                        \
            UNROLL for (u32 h = 0; h < 2; ++h) {                                                                             \
                maxima[WARP_INDEX][g + 8u * h] = greatest[h];                                                                \
                sums[WARP_INDEX][g + 8u * h] = sum[h];                                                                       \
            }                                                                                                                \
        }                                                                                                                    \
        block_barrier();                                                                                                     \
        ROLLED for (u32 j = THREAD; j < passes * PADDED; j += THREADS) {                                                     \
            const u32 query_index = j / PADDED, i = j % PADDED, index = base + query_index;                                  \
            const u32 its_row = index / group, its_head = BLOCK_X * group + index % group;                                   \
            float most = -INFINITE, total = 0.0f, value = 0.0f;                                                              \
            UNROLL for (u32 w = 0; w < 4; ++w) most = maxima[w][query_index] > most ? maxima[w][query_index] : most;         \
            UNROLL for (u32 w = 0; w < 4; ++w) {                                                                             \
                const float share = maxima[w][query_index] == -INFINITE ? 0.0f : exponential(maxima[w][query_index] - most); \
                total += share * sums[w][query_index];                                                                       \
                value += share * mixed[w][query_index][i];                                                                   \
            }                                                                                                                \
            if (splits == 1u) {                                                                                              \
                store_mixed(&a, its_row, its_head, i, value, total);                                                         \
                continue;                                                                                                    \
            }                                                                                                                \
            const u64 to = place_of(&a, BLOCK_Y, its_row, its_head);                                                         \
            a.mixed[to * PADDED + i] = value;                                                                                \
            if (i == 0) {                                                                                                    \
                a.weights[2u * to] = most;                                                                                   \
                a.weights[2u * to + 1u] = total;                                                                             \
            }                                                                                                                \
        }                                                                                                                    \
        if (splits == 1u || !is_last_of(splits, a.arrived + BLOCK_Z * a.kv_heads + BLOCK_X, &arrived)) return;               \
        ROLLED for (u32 j = THREAD; j < passes * PADDED; j += THREADS) {                                                     \
            const u32 index = base + j / PADDED;                                                                             \
            combine_splits(&a, splits, index / group, BLOCK_X * group + index % group, j % PADDED);                          \
        }                                                                                                                    \
    }

ATTENTION(bf16, 32, 4)
ATTENTION(bf16, 64, 3)
ATTENTION(bf16, 128, 2)
ATTENTION(f16, 32, 4)
ATTENTION(f16, 64, 3)
ATTENTION(f16, 128, 2)

/* The same in f32. Grid: head; split; row. A block of SPLIT threads, one per key. */
KERNEL_OF(SPLIT, 1, attention_f32, AttentionArguments) {
    wait_for_kernel_before();
    SHARED u32 arrived;
    SHARED float weights[SPLIT];
    SHARED u32 slots[SPLIT];
    SHARED float maxima[WARP], sums[WARP];
    const Step *step = a.step;
    const u32 row = BLOCK_Z, head = BLOCK_X, position = BLOCK_Y * SPLIT + THREAD;
    const u32 keys = a.to_source ? step->source_keys : step->keys, splits = splits_of(keys);
    if (row >= step->rows || BLOCK_Y * SPLIT >= keys) return;
    const u64 capacity = a.to_source ? step->source_capacity : step->capacity;
    const u32 key_plane = a.layer * 2u * a.kv_heads + head / (a.heads / a.kv_heads);
    const float *key_rows = (const float *)plane_of(step, a.to_source, key_plane, a.padded, 4u);
    const float *value_rows = (const float *)plane_of(step, a.to_source, key_plane + a.kv_heads, a.padded, 4u);
    const float *query = (const float *)a.queries + ((u64)row * a.heads + head) * a.padded;
    const float *bias = a.bias ? a.bias + (u64)head * (2u * a.reach + 1u) : 0;
    float score = -INFINITE;
    slots[THREAD] = 0;
    if (position < sight_of(step, a.to_source, row) && !is_behind(a.window, step->positions[row], position)) {
        const u32 slot = !a.to_source && step->scattered ? slot_of(step, row, position, position + 1u) : position;
        slots[THREAD] = slot;
        float product = 0.0f;
        for (u32 i = 0; i < a.padded; ++i) product = multiply_add(query[i], key_rows[(u64)slot * a.padded + i], product);
        score = bias ? product + bias_at(bias, a.reach, step->positions[row], position) : product;
    }
    const float of_warp = warp_max(score);
    if (LANE == 0) maxima[WARP_INDEX] = of_warp;
    block_barrier();
    float most = -INFINITE;
    for (u32 w = 0; w < SPLIT / WARP; ++w) most = maxima[w] > most ? maxima[w] : most;
    const float weight = score == -INFINITE ? 0.0f : exponential(score - most);
    weights[THREAD] = weight;
    const float sum = block_sum(weight, sums);
    const u64 to = place_of(&a, BLOCK_Y, row, head);
    for (u32 i = THREAD; i < a.padded; i += THREADS) {
        const float *values = value_rows + i * capacity;
        float value = 0.0f;
        /* Keys that the row does not see hold anything, and 0 · NaN is NaN. */
        for (u32 key = 0; key < SPLIT; ++key)
            if (weights[key] != 0.0f) value = multiply_add(weights[key], values[slots[key]], value);
        if (splits == 1u) store_mixed(&a, row, head, i, value, sum);
        else a.mixed[to * a.padded + i] = value;
    }
    if (splits == 1u) return;
    if (THREAD == 0) {
        a.weights[2u * to] = most;
        a.weights[2u * to + 1u] = sum;
    }
    if (!is_last_of(splits, a.arrived + row * a.heads + head, &arrived)) return;
    for (u32 i = THREAD; i < a.head_dim; i += THREADS) combine_splits(&a, splits, row, head, i);
}
