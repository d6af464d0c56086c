/* Linear maps of few rows: weights are read once, by all rows together.
 *
 * A part is a range of the inputs. Each part's sum over it runs in one order, whatever the number of rows and whoever computes
 * it, and whoever reads the result adds the parts in order: a row's numbers do not depend on the rows beside it. */

/* Thirty-two inputs: what one thread quadruple loads of a row at once. */
#define CHUNK 32u
/* Chunks of the input that are staged in shared memory together. */
#define STAGE 4u
/* Row of the staged input in halves: padded so that eight rows fall into different banks. */
#define STAGE_ROW (STAGE * CHUNK + 32u)

/* Copies chunks [begin, begin + STAGE) of 8 * NT rows to shared memory; zeros for rows and chunks that are not there. */
#define STAGE_INPUT(NT, buffer, begin)                                                                                       \
    for (u32 i = THREAD; i < 8u * NT * STAGE * 4u; i += THREADS) {                                                           \
        const u32 row = i / (STAGE * 4u), piece = i % (STAGE * 4u);                                                          \
        const int there = row < rows && (begin) + piece / 4u < end;                                                          \
        const u16 *from = there ? input + (u64)row * a.inputs + (u64)(begin) * CHUNK + piece * 8u : input;                    \
        copy_async(&staged[buffer][row][piece * 8u], from, there);                                                           \
    }                                                                                                                        \
    copy_commit();

#define LOAD_WEIGHTS(MT, to, begin)                                                                                          \
    UNROLL for (u32 c = 0; c < STAGE; ++c) {                                                                                 \
        UNROLL for (u32 m = 0; m < MT; ++m) {                                                                                \
            const int there = (begin) + c < end && tile + m < tiles;                                                         \
            const Quad *from = weight + ((u64)(tile + m) * chunks + (begin) + c) * 64u + LANE;                               \
            const Quad none = {{0, 0, 0, 0}};                                                                                \
            to[c][m][0] = there ? load_streaming(from) : none;                                                               \
            to[c][m][1] = there ? load_streaming(from + 32) : none;                                                          \
        }                                                                                                                    \
    }

/* NT: eights of rows; MT: sixteens of outputs per warp; WARPS: warps per block. A block has 16 · MT · WARPS outputs.
 *
 * The order of inputs within a chunk is ours to choose, as long as weights and inputs agree: a thread holds eight consecutive
 * inputs of a row, which are two multiplications' worth. */
#define LINEAR(NT, MT, WARPS)                                                                                                \
    KERNEL(linear_bf16_##NT, LinearArguments) {                                                                              \
        SHARED __attribute__((aligned(16))) u16 staged[2][8 * NT][STAGE_ROW];                                                                            \
        const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u;                                                       \
        const u32 rows = a.step->rows - skipped;                                                                             \
        const u16 *input = (const u16 *)a.input + (u64)skipped * a.inputs;                                                   \
        const Quad *weight = (const Quad *)a.weight;                                                                         \
        const u32 chunks = a.inputs / CHUNK, tiles = a.outputs / 16u;                                                        \
        const u32 tile = (BLOCK_X * WARPS + WARP_INDEX) * MT;                                                                \
        const u32 start = chunks * BLOCK_Y / a.parts, end = chunks * (BLOCK_Y + 1u) / a.parts;                               \
        float sums[MT][NT][4];                                                                                               \
        Quad now[STAGE][MT][2], next[STAGE][MT][2];                                                                          \
        UNROLL for (u32 m = 0; m < MT; ++m)                                                                                  \
            UNROLL for (u32 n = 0; n < NT; ++n)                                                                              \
                UNROLL for (u32 i = 0; i < 4; ++i) sums[m][n][i] = 0.0f;                                                     \
        /* Weights were there before anything was launched. */                                                               \
        LOAD_WEIGHTS(MT, now, start)                                                                                         \
        wait_for_kernel_before();                                                                                            \
        STAGE_INPUT(NT, 0, start)                                                                                            \
        u32 buffer = 0;                                                                                                      \
        for (u32 begin = start; begin < end; begin += STAGE, buffer ^= 1u) {                                                 \
            LOAD_WEIGHTS(MT, next, begin + STAGE)                                                                            \
            STAGE_INPUT(NT, buffer ^ 1u, begin + STAGE)                                                                      \
            copy_wait(1);                                                                                                    \
            block_barrier();                                                                                                 \
            UNROLL for (u32 c = 0; c < STAGE; ++c) {                                                                         \
                UNROLL for (u32 n = 0; n < NT; ++n) {                                                                        \
                    const Quad x = load_quad(&staged[buffer][n * 8u + LANE / 4u][c * CHUNK + LANE % 4u * 8u]);               \
                    UNROLL for (u32 m = 0; m < MT; ++m) {                                                                    \
                        const Quad low = now[c][m][0], high = now[c][m][1];                                                  \
                        const u32 first[4] = {low.word[0], high.word[0], low.word[1], high.word[1]};                         \
                        const u32 second[4] = {low.word[2], high.word[2], low.word[3], high.word[3]};                        \
                        multiply_tiles(sums[m][n], first, x.word[0], x.word[1]);                                             \
                        multiply_tiles(sums[m][n], second, x.word[2], x.word[3]);                                            \
                    }                                                                                                        \
                }                                                                                                            \
            }                                                                                                                \
            block_barrier();                                                                                                 \
            UNROLL for (u32 c = 0; c < STAGE; ++c)                                                                           \
                UNROLL for (u32 m = 0; m < MT; ++m)                                                                          \
                    UNROLL for (u32 i = 0; i < 2; ++i) now[c][m][i] = next[c][m][i];                                         \
        }                                                                                                                    \
        copy_wait(0);                                                                                                        \
        UNROLL for (u32 m = 0; m < MT; ++m) {                                                                                \
            UNROLL for (u32 n = 0; n < NT; ++n) {                                                                            \
                UNROLL for (u32 i = 0; i < 4; ++i) {                                                                         \
                    const u32 row = n * 8u + LANE % 4u * 2u + i % 2u;                                                        \
                    const u32 output = (tile + m) * 16u + LANE / 4u + i / 2u * 8u;                                           \
                    if (row < rows && tile + m < tiles)                                                                      \
                        a.out[((u64)BLOCK_Y * a.stride + row) * a.outputs + output] = sums[m][n][i];                         \
                }                                                                                                            \
            }                                                                                                                \
        }                                                                                                                    \
    }

LINEAR(1, 1, 8)
LINEAR(2, 1, 8)
LINEAR(4, 1, 8)
LINEAR(8, 2, 4)

/* The same in f32: a warp per output and eight rows. One part only. */
KERNEL(linear_f32, LinearArguments) {
    wait_for_kernel_before();
    const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u;
    const u32 rows = a.step->rows - skipped, first = BLOCK_Y * 8u;
    const u32 output = BLOCK_X * (THREADS / WARP) + WARP_INDEX;
    const float *input = (const float *)a.input + (u64)(skipped + first) * a.inputs;
    const float *weight = (const float *)a.weight + (u64)output * a.inputs;
    if (first >= rows || output >= a.outputs) return;
    const u32 count = rows - first < 8u ? rows - first : 8u;
    float sums[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    for (u32 i = LANE; i < a.inputs; i += WARP) {
        const float w = weight[i];
        UNROLL for (u32 row = 0; row < 8u; ++row)
            if (row < count) sums[row] = multiply_add(w, input[(u64)row * a.inputs + i], sums[row]);
    }
    UNROLL for (u32 row = 0; row < 8u; ++row) {
        if (row >= count) break;
        const float sum = warp_sum(sums[row]);
        if (LANE == 0) a.out[(u64)(first + row) * a.outputs + output] = sum;
    }
}
