/* Linear maps of few rows: weights are read once, by all rows together; and what becomes of their sums (layers.cu).
 *
 * A part is a range of the inputs. Each part's sum over it runs in one order, whatever the number of rows and whoever computes
 * it, and parts are added in order: a row's numbers do not depend on the rows beside it. */

/* Thirty-two inputs: what one thread quadruple loads of a row at once. */
#define CHUNK 32u
/* Chunks that are loaded together. */
#define STAGE 4u
/* Row of the staged input in halves: padded so that eight rows fall into different banks. */
#define STAGE_ROW (STAGE * CHUNK + 32u)

/* What the sums of rows are multiplied with: 1, or what makes a norm of their input. A warp a row. */
DEVICE void norm_scales(const LinearArguments *a, u32 skipped, u32 rows, float *scales) {
    for (u32 row = WARP_INDEX; row < rows; row += THREADS / WARP) {
        float scale = 1.0f;
        if (a->squares) {
            const u32 count = a->inputs / 16u;
            const float *squares = a->squares + (u64)(skipped + row) * count;
            float sum = 0.0f;
            for (u32 i = LANE; i < count; i += WARP) sum += squares[i];
            scale = inverse_root(warp_sum(sum) / (float)a->inputs + a->epsilon);
        }
        if (LANE == 0) scales[row] = scale;
    }
}

/* Adds the products of sixteen outputs and thirty-two inputs of eight rows. The order of inputs within a chunk is ours to choose, as
 * long as weights and inputs agree: a thread holds eight consecutive inputs of a row, which are two multiplications' worth. */
DEVICE void multiply_chunk(float *sums, Quad low, Quad high, Quad x) {
    const u32 first[4] = {low.word[0], high.word[0], low.word[1], high.word[1]};
    const u32 second[4] = {low.word[2], high.word[2], low.word[3], high.word[3]};
    multiply_tiles(sums, first, x.word[0], x.word[1]);
    multiply_tiles(sums, second, x.word[2], x.word[3]);
}

#define LOAD_WEIGHTS(to, begin)                                                                                              \
    UNROLL for (u32 c = 0; c < STAGE; ++c) {                                                                                 \
        const Quad *from = (const Quad *)a.weight + ((u64)tile * chunks + (begin) + c) * 64u + LANE;                         \
        const Quad none = {{0, 0, 0, 0}};                                                                                    \
        to[c][0] = (begin) + c < end ? load_streaming(from) : none;                                                          \
        to[c][1] = (begin) + c < end ? load_streaming(from + 32) : none;                                                     \
    }

/* Warps of a block, each of which has a tile. */
#define WARPS 8u

/* ---- Up to eight rows ---- */

/* There is memory for as many rows as launches are recorded for: what lies in those that are not there goes nowhere. So nothing has
 * to be known of the step before inputs are loaded. */
#define LOAD_INPUT(to, begin)                                                                                                \
    UNROLL for (u32 c = 0; c < STAGE; ++c) {                                                                                 \
        const Quad none = {{0, 0, 0, 0}};                                                                                    \
        const u16 *from = input + (u64)((begin) + c) * CHUNK;                                                                \
        to[c] = (begin) + c < end && LANE / 4u < a.room ? load_quad(from) : none;                                            \
    }

/* A block has all parts of its outputs, a warp each: nothing but registers lies between memory and tensor cores, and blocks know
 * nothing of each other. Grid: eight tiles by parts. */
KERNEL_OF(256, 2, linear_bf16_1, LinearArguments) {
    SHARED __attribute__((aligned(16))) float of_warps[WARPS][WARP][4];
    SHARED float scales[8];
    const u32 chunks = a.inputs / CHUNK, tiles = a.outputs / 16u, parts = 1u << a.part_bits, part = WARP_INDEX & (parts - 1u);
    const u32 tile = BLOCK_X * (WARPS >> a.part_bits) + (WARP_INDEX >> a.part_bits);
    const u32 start = chunks * part >> a.part_bits, end = tile < tiles ? chunks * (part + 1u) >> a.part_bits : start;
    Quad now[STAGE][2], next[STAGE][2], x_now[STAGE], x_next[STAGE];
    float sums[1][4] = {{0.0f, 0.0f, 0.0f, 0.0f}};
    /* Weights and the step were there before anything was launched. */
    LOAD_WEIGHTS(now, start)
    LOAD_WEIGHTS(next, start + STAGE)
    const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u, rows = a.step->rows - skipped;
    wait_for_kernel_before();
    const u16 *input = (const u16 *)a.input + (u64)(skipped + LANE / 4u) * a.inputs + LANE % 4u * 8u;
    LOAD_INPUT(x_now, start)
    LOAD_INPUT(x_next, start + STAGE)
    norm_scales(&a, skipped, rows, scales);
    for (u32 begin = start; begin < end; begin += STAGE) {
        UNROLL for (u32 c = 0; c < STAGE; ++c) multiply_chunk(sums[0], now[c][0], now[c][1], x_now[c]);
        UNROLL for (u32 c = 0; c < STAGE; ++c) {
            now[c][0] = next[c][0];
            now[c][1] = next[c][1];
            x_now[c] = x_next[c];
        }
        LOAD_WEIGHTS(next, begin + 2u * STAGE)
        LOAD_INPUT(x_next, begin + 2u * STAGE)
    }
    UNROLL for (u32 i = 0; i < 4; ++i) of_warps[WARP_INDEX][LANE][i] = sums[0][i];
    block_barrier();
    if (part || tile >= tiles) return;
    for (u32 other = 1; other < parts; ++other)
        UNROLL for (u32 i = 0; i < 4; ++i) sums[0][i] += of_warps[WARP_INDEX + other][LANE][i];
    finish(&a, tile, 1, 0, rows, scales, sums);
}

/* ---- More rows ---- */

/* Copies chunks [begin, begin + STAGE) of 8 * NT rows to shared memory; zeros for rows and chunks that are not there. */
#define STAGE_INPUT(NT, buffer, begin)                                                                                       \
    for (u32 i = THREAD; i < 8u * NT * STAGE * 4u; i += THREADS) {                                                           \
        const u32 row = i / (STAGE * 4u), piece = i % (STAGE * 4u);                                                          \
        const int there = row < copied && (begin) + piece / 4u < all;                                                        \
        const u16 *from = there ? input + (u64)row * a.inputs + (u64)(begin) * CHUNK + piece * 8u : input;                   \
        copy_async(&staged[buffer][row][piece * 8u], from, there);                                                           \
    }                                                                                                                        \
    copy_commit();

DEVICE void store_sums(Quad *to, const float *sums) {
    Quad q;
    UNROLL for (u32 i = 0; i < 4; ++i) q.word[i] = float_to_bits(sums[i]);
    store_quad(to, q);
}

/* Adds what parts' blocks have published, in order. */
DEVICE void add_up_parts(const Quad *parts, u32 count, u32 distance, float *sums) {
    Quad of_parts[MAX_PARTS];
    UNROLL for (u32 part = 0; part < MAX_PARTS; ++part) {
        const Quad none = {{0, 0, 0, 0}};
        of_parts[part] = part < count ? load_fresh_quad(parts + part * distance) : none;
    }
    UNROLL for (u32 i = 0; i < 4; ++i) sums[i] = bits_to_float(of_parts[0].word[i]);
    UNROLL for (u32 part = 1; part < MAX_PARTS; ++part)
        UNROLL for (u32 i = 0; i < 4; ++i)
            if (part < count) sums[i] += bits_to_float(of_parts[part].word[i]);
}

/* NT: eights of rows. A block has eight tiles and one part, so that it stages no more of the input than that part; the last block to
 * be done with some outputs adds up the parts. Grid: eight tiles; parts. */
#define LINEAR(NT)                                                                                                           \
    KERNEL_OF(256, 2, linear_bf16_##NT, LinearArguments) {                                                                   \
        SHARED __attribute__((aligned(16))) u16 staged[2][8 * NT][STAGE_ROW];                                                \
        SHARED float scales[8 * NT];                                                                                         \
        SHARED u32 arrived;                                                                                                  \
        const u32 chunks = a.inputs / CHUNK, tiles = a.outputs / 16u, tile = BLOCK_X * WARPS + WARP_INDEX;                   \
        /* Warps without a tile help to stage the input, and load no weights. */                                             \
        const u32 start = chunks * BLOCK_Y >> a.part_bits, all = chunks * (BLOCK_Y + 1u) >> a.part_bits;                     \
        const u32 parts = 1u << a.part_bits, end = tile < tiles ? all : start;                                               \
        Quad now[STAGE][2], next[STAGE][2];                                                                                  \
        float sums[NT][4];                                                                                                   \
        UNROLL for (u32 n = 0; n < NT; ++n)                                                                                  \
            UNROLL for (u32 i = 0; i < 4; ++i) sums[n][i] = 0.0f;                                                            \
        /* Weights and the step were there before anything was launched. */                                                  \
        LOAD_WEIGHTS(now, start)                                                                                             \
        LOAD_WEIGHTS(next, start + STAGE)                                                                                    \
        const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u, rows = a.step->rows - skipped;                        \
        wait_for_kernel_before();                                                                                            \
        const u32 copied = a.wanted_only ? rows : a.room;                                                                    \
        const u16 *input = (const u16 *)a.input + (u64)skipped * a.inputs;                                                   \
        STAGE_INPUT(NT, 0, start)                                                                                            \
        STAGE_INPUT(NT, 1, start + STAGE)                                                                                    \
        norm_scales(&a, skipped, rows, scales);                                                                              \
        u32 buffer = 0;                                                                                                      \
        for (u32 begin = start; begin < all; begin += STAGE, buffer ^= 1u) {                                                 \
            copy_wait(1);                                                                                                    \
            block_barrier();                                                                                                 \
            UNROLL for (u32 c = 0; c < STAGE; ++c) {                                                                         \
                UNROLL for (u32 n = 0; n < NT; ++n) {                                                                        \
                    const Quad x = load_quad(&staged[buffer][n * 8u + LANE / 4u][c * CHUNK + LANE % 4u * 8u]);               \
                    multiply_chunk(sums[n], now[c][0], now[c][1], x);                                                        \
                }                                                                                                            \
            }                                                                                                                \
            block_barrier();                                                                                                 \
            UNROLL for (u32 c = 0; c < STAGE; ++c)                                                                           \
                UNROLL for (u32 i = 0; i < 2; ++i) now[c][i] = next[c][i];                                                   \
            LOAD_WEIGHTS(next, begin + 2u * STAGE)                                                                           \
            STAGE_INPUT(NT, buffer, begin + 2u * STAGE)                                                                      \
        }                                                                                                                    \
        copy_wait(0);                                                                                                        \
        if (parts > 1u) {                                                                                                    \
            Quad *partials = (Quad *)a.partials + (u64)tile * parts * NT * WARP + LANE;                                      \
            UNROLL for (u32 n = 0; n < NT; ++n)                                                                              \
                if (tile < tiles) store_sums(partials + (BLOCK_Y * NT + n) * WARP, sums[n]);                                 \
            if (!is_last_of(parts, a.arrived + BLOCK_X, &arrived)) return;                                                   \
            UNROLL for (u32 n = 0; n < NT; ++n)                                                                              \
                if (tile < tiles) add_up_parts(partials + n * WARP, parts, NT * WARP, sums[n]);                              \
        }                                                                                                                    \
        if (tile < tiles) finish(&a, tile, NT, 0, rows, scales, sums);                                                       \
    }

LINEAR(2)
LINEAR(4)
LINEAR(8)

/* ---- In f32 ---- */

/* For comparison rather than speed: a warp goes through the inputs once for each two of its outputs. One part only. Grid: eight
 * tiles; one; eight rows. */
KERNEL_OF(256, 1, linear_f32, LinearArguments) {
    SHARED float scales[MAX_ROWS];
    const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u, rows = a.step->rows - skipped;
    wait_for_kernel_before();
    const u32 tile = BLOCK_X * (THREADS / WARP) + WARP_INDEX, first = BLOCK_Z * 8u;
    norm_scales(&a, skipped, rows, scales);
    block_barrier();
    if (first >= rows || tile >= a.outputs / 16u) return;
    const u32 count = rows - first < 8u ? rows - first : 8u;
    const float *input = (const float *)a.input + (u64)(skipped + first) * a.inputs;
    float sums[1][4] = {{0.0f, 0.0f, 0.0f, 0.0f}};
    for (u32 pair = 0; pair < 8u; ++pair) {
        const float *low = (const float *)a.weight + (u64)(tile * 16u + pair) * a.inputs, *high = low + 8u * a.inputs;
        float of_rows[2][8];
        UNROLL for (u32 row = 0; row < 8u; ++row) of_rows[0][row] = of_rows[1][row] = 0.0f;
        for (u32 i = LANE; i < a.inputs; i += WARP) {
            UNROLL for (u32 row = 0; row < 8u; ++row) {
                if (row >= count) break;
                const float x = input[(u64)row * a.inputs + i];
                of_rows[0][row] = multiply_add(low[i], x, of_rows[0][row]);
                of_rows[1][row] = multiply_add(high[i], x, of_rows[1][row]);
            }
        }
        UNROLL for (u32 row = 0; row < 8u; ++row) {
            const float of_low = warp_sum(of_rows[0][row]), of_high = warp_sum(of_rows[1][row]);
            if (LANE == pair * 4u + row / 2u) {
                sums[0][row % 2u] = of_low;
                sums[0][2u + row % 2u] = of_high;
            }
        }
    }
    finish(&a, tile, 1, first, rows, scales, sums);
}
