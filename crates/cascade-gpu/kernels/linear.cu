/* Linear maps of few rows: weights are read once, by all rows together; and what becomes of their sums (layers.cu).
 *
 * A part is a range of the inputs. Each part's sum over it runs in one order, whatever the number of rows and whoever computes
 * it, and parts are added in order: a row's numbers do not depend on the rows beside it. */

/* Thirty-two inputs: what one thread quadruple loads of a row at once. */
#define CHUNK 32u
/* Chunks that are loaded together. A ring of stages is under way; the next takes the place of the one that was multiplied, so that no
 * register is copied: a copy would wait for what it copies. */
#define STAGE 2u
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
template <class Type> DEVICE void multiply_chunk(float *sums, Quad low, Quad high, Quad x) {
    const u32 first[4] = {low.word[0], high.word[0], low.word[1], high.word[1]};
    const u32 second[4] = {low.word[2], high.word[2], low.word[3], high.word[3]};
    Type::multiply_tiles(sums, first, x.word[0], x.word[1]);
    Type::multiply_tiles(sums, second, x.word[2], x.word[3]);
}

/* ---- How weights lie in memory ---- */

/* The weights of a warp, in a type of sixteen bits: in memory as the registers of a tile. */
template <class Type> struct Halves {
    /* A chunk's, as a lane has them; they are what it multiplies with. */
    struct Chunk {
        Quad quads[2];
    };
    typedef const Chunk &Operand;
    static const int MORE_BRANCHES = 0;
    const Quad *at;

    /* Those of a tile of outputs, from a chunk on. */
    DEVICE Halves of(const LinearArguments &a, u32 tile, u32 chunks, u32 start) {
        const Halves weights = {(const Quad *)a.weight + ((u64)tile * chunks + start) * 64u + LANE};
        return weights;
    }
    /* Loads a chunk, `ahead` chunks behind where `weights` are, of which `left` are there. */
    DEVICE void load(Chunk &to, const Halves &weights, u32 ahead, int left) {
        UNROLL for (u32 i = 0; i < 2; ++i)
            load_streaming_if(&to.quads[i], (int)ahead < left, weights.at + ahead * 64u + i * WARP);
    }
    DEVICE void advance(Halves &weights, u32 chunks) { weights.at += chunks * 64u; }
    DEVICE Operand operand(const Chunk &chunk) { return chunk; }
    /* Adds products with eight rows. */
    DEVICE void multiply(float *sums, Operand weights, Quad x) {
        Type::multiply_tiles(sums, weights.quads[0].word, x.word[0], x.word[1]);
        Type::multiply_tiles(sums, weights.quads[1].word, x.word[2], x.word[3]);
    }
};

/* The same in eight bits, with a scale in f16 for the thirty-two inputs of a chunk: [outputs / 16][inputs / 32][32][16] bytes, then
 * [outputs / 16][inputs / 32][8][2] scales, of an output and of the one eight further.
 *
 * A weight is an integer, which bf16 has exactly, times its scale. The products of a chunk with the integers are summed first, in f32;
 * that sum times the scale is added to the sum of the chunks before by one fused multiplication and addition. */
struct Blocks {
    struct Chunk {
        Quad bytes;
        u32 scales;
    };
    struct Operand {
        u32 words[8];
        float scales[2];
    };
    /* Whether a warp leaves a loop at chunks, too, and between rows. With sums of their own for each chunk an assembler would begin so
     * many products at once that it has to spill; it does not move them past branches. */
    static const int MORE_BRANCHES = 1;
    const Quad *bytes;
    const u32 *scales;

    DEVICE Blocks of(const LinearArguments &a, u32 tile, u32 chunks, u32 start) {
        const u64 chunk = (u64)tile * chunks + start;
        const u8 *scales = (const u8 *)a.weight + (u64)a.outputs * a.inputs;
        const Blocks weights = {(const Quad *)a.weight + chunk * WARP + LANE, (const u32 *)scales + chunk * 8u + LANE / 4u};
        return weights;
    }
    DEVICE void load(Chunk &to, const Blocks &weights, u32 ahead, int left) {
        load_streaming_if(&to.bytes, (int)ahead < left, weights.bytes + ahead * WARP);
        load_word_if(&to.scales, (int)ahead < left, weights.scales + ahead * 8u);
    }
    DEVICE void advance(Blocks &weights, u32 chunks) {
        weights.bytes += chunks * WARP;
        weights.scales += chunks * 8u;
    }
    /* An integer from -128 to 127 is its lower seven bits, less 128 if its highest is set. With the bits of 128 before the seven they
     * are a bf16; and so is what is to be subtracted, 128 or 256: the highest bit is the last of its exponent. */
    DEVICE u32 integers(u32 bytes) {
        return multiply_add_bf16((bytes & 0x007f007fu) | 0x43004300u, 0x3f803f80u, (bytes & 0x00800080u) | 0xc300c300u);
    }
    DEVICE Operand operand(const Chunk &chunk) {
        Operand operand;
        UNROLL for (u32 i = 0; i < 4; ++i) {
            operand.words[2u * i] = integers(chunk.bytes.word[i]);
            operand.words[2u * i + 1u] = integers(chunk.bytes.word[i] >> 8u);
        }
        unpack_f16(chunk.scales, &operand.scales[0], &operand.scales[1]);
        return operand;
    }
    DEVICE void multiply(float *sums, const Operand &weights, Quad x) {
        float of_chunk[4] = {0.0f, 0.0f, 0.0f, 0.0f};
        bf16::multiply_tiles(of_chunk, weights.words, x.word[0], x.word[1]);
        bf16::multiply_tiles(of_chunk, weights.words + 4, x.word[2], x.word[3]);
        UNROLL for (u32 i = 0; i < 4; ++i) sums[i] = multiply_add(weights.scales[i / 2u], of_chunk[i], sums[i]);
    }
};

/* Warps of a block, each of which has a tile. */
#define WARPS 8u

/* ---- Up to eight rows ---- */

/* The same of the inputs. There is memory for as many rows as launches are recorded for: what lies in those that are not there goes
 * nowhere. So nothing has to be known of the step before inputs are loaded. */
DEVICE Quad load_input(const u16 *input, u32 ahead, int left) {
    const Quad none = {{0, 0, 0, 0}};
    return (int)ahead < left ? load_quad(input + ahead * CHUNK) : none;
}

/* A block has all parts of its outputs, a warp each: nothing but registers lies between memory and tensor cores, and blocks know
 * nothing of each other. So many chunks of weights are under way, and of inputs, which are nearer. Grid: eight tiles by parts. */
template <class Weights, u32 AHEAD, u32 INPUTS_AHEAD> DEVICE void linear_of_one_eight(const LinearArguments &a) {
    SHARED __attribute__((aligned(16))) float of_warps[WARPS][WARP][4];
    SHARED float scales[8];
    const u32 chunks = a.inputs / CHUNK, tiles = a.outputs / 16u, parts = 1u << a.part_bits, part = WARP_INDEX & (parts - 1u);
    const u32 tile = BLOCK_X * (WARPS >> a.part_bits) + (WARP_INDEX >> a.part_bits);
    const u32 start = chunks * part >> a.part_bits;
    /* Chunks that are left. */
    int left = tile < tiles ? (int)((chunks * (part + 1u) >> a.part_bits) - start) : 0;
    Weights weights = Weights::of(a, tile, chunks, start);
    typename Weights::Chunk ring[AHEAD];
    Quad x[INPUTS_AHEAD];
    float sums[1][4] = {{0.0f, 0.0f, 0.0f, 0.0f}};
    /* Weights and the step were there before anything was launched. */
    UNROLL for (u32 c = 0; c < AHEAD; ++c) Weights::load(ring[c], weights, c, left);
    const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u, rows = a.step->rows - skipped;
    wait_for_kernel_before();
    const u16 *input = (const u16 *)a.input + (u64)(skipped + LANE / 4u) * a.inputs + start * CHUNK + LANE % 4u * 8u;
    const int there = LANE / 4u < a.room;
    UNROLL for (u32 c = 0; c < INPUTS_AHEAD; ++c) x[c] = load_input(input, c, there ? left : 0);
    norm_scales(&a, skipped, rows, scales);
    for (; left > 0; left -= (int)AHEAD, Weights::advance(weights, AHEAD), input += AHEAD * CHUNK) {
        UNROLL for (u32 s = 0; s < AHEAD / STAGE; ++s) {
            /* The branch keeps the loads of a stage where they are: a compiler would put those of all stages behind the last. */
            if (left <= (int)(s * STAGE)) break;
            UNROLL for (u32 c = s * STAGE; c < (s + 1u) * STAGE; ++c) {
                if (Weights::MORE_BRANCHES && left <= (int)c) break;
                Weights::multiply(sums[0], Weights::operand(ring[c]), x[c % INPUTS_AHEAD]);
                Weights::load(ring[c], weights, c + AHEAD, left);
                x[c % INPUTS_AHEAD] = load_input(input, c + INPUTS_AHEAD, there ? left : 0);
            }
        }
    }
    UNROLL for (u32 i = 0; i < 4; ++i) of_warps[WARP_INDEX][LANE][i] = sums[0][i];
    block_barrier();
    if (part || tile >= tiles) return;
    for (u32 other = 1; other < parts; ++other)
        UNROLL for (u32 i = 0; i < 4; ++i) sums[0][i] += of_warps[WARP_INDEX + other][LANE][i];
    finish(&a, tile, 1, 0, rows, scales, sums);
}

KERNEL_OF(256, 2, linear_bf16_1, LinearArguments) { linear_of_one_eight<Halves<bf16>, 8u, 8u>(a); }
KERNEL_OF(256, 2, linear_f16_1, LinearArguments) { linear_of_one_eight<Halves<f16>, 8u, 8u>(a); }
KERNEL_OF(256, 2, linear_q8_1, LinearArguments) { linear_of_one_eight<Blocks, 12u, 4u>(a); }

/* ---- More rows ---- */

/* Copies a stage of 8 * NT rows to shared memory, `ahead` chunks behind where `own` points, of which `left` are there; zeros for rows
 * and chunks that are not. A thread copies the same piece of every thirty-second row. */
#define STAGE_INPUT(NT, buffer, ahead)                                                                                       \
    UNROLL for (u32 i = 0; i < (NT + 3u) / 4u; ++i) {                                                                        \
        const u32 row = own_row + i * 32u;                                                                                   \
        const int there = row < copied && (int)((ahead) + own_piece / 4u) < left;                                            \
        const u16 *from = own + (there ? i * 32u * a.inputs + (ahead) * CHUNK : 0u);                                         \
        if (NT >= 4u || row < NT * 8u) copy_async(&staged[buffer][row][own_piece * 8u], from, there);                        \
    }                                                                                                                        \
    copy_commit();

/* A warp's tile, made again where it is needed: registers are short in loops over stages. */
DEVICE u32 tile_again(void) {
    u32 block;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(block));
    return block * WARPS + WARP_INDEX;
}

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

/* NT: eights of rows. RING: stages under way. A block has eight tiles and one part, so that it stages no more of the input than that
 * part; the last block to be done with some outputs adds up the parts. Grid: eight tiles; parts. */
template <class Weights, u32 NT, u32 RING> DEVICE void linear_of_eights(const LinearArguments &a) {
    SHARED __attribute__((aligned(16))) u16 staged[RING][8 * NT][STAGE_ROW];
    SHARED float scales[8 * NT];
    SHARED u32 arrived, rows_there;
    const u32 chunks = a.inputs / CHUNK, tiles = a.outputs / 16u, own_tile = BLOCK_X * WARPS + WARP_INDEX;
    const u32 start = chunks * BLOCK_Y >> a.part_bits, parts = 1u << a.part_bits;
    /* Chunks that are left. Warps without a tile help to stage the input, and load no weights. */
    int left = (int)((chunks * (BLOCK_Y + 1u) >> a.part_bits) - start);
    Weights weights = Weights::of(a, own_tile, chunks, start);
    typename Weights::Chunk ring[RING * STAGE];
    float sums[NT][4];
    UNROLL for (u32 n = 0; n < NT; ++n)
        UNROLL for (u32 i = 0; i < 4; ++i) sums[n][i] = 0.0f;
    /* Weights and the step were there before anything was launched. */
    UNROLL for (u32 c = 0; c < RING * STAGE; ++c) Weights::load(ring[c], weights, c, own_tile < tiles ? left : 0);
    const u32 skipped = a.wanted_only ? a.step->first_wanted : 0u, wanted = a.step->rows - skipped;
    wait_for_kernel_before();
    const u32 copied = a.wanted_only ? wanted : a.room, own_row = THREAD / 8u, own_piece = THREAD % 8u;
    const u32 first_row = skipped + (own_row < copied ? own_row : 0u);
    const u16 *own = (const u16 *)a.input + (u64)first_row * a.inputs + start * CHUNK + own_piece * 8u;
    UNROLL for (u32 s = 0; s < RING - 1u; ++s) {
        STAGE_INPUT(NT, s, s * STAGE)
    }
    norm_scales(&a, skipped, wanted, scales);
    if (THREAD == 0) rows_there = wanted;
    for (; left > 0; left -= (int)(RING * STAGE), Weights::advance(weights, RING * STAGE), own += RING * STAGE * CHUNK) {
        UNROLL for (u32 s = 0; s < RING; ++s) {
            /* The branch keeps loads where they are: a compiler would put those of all stages behind the last. */
            if (left <= (int)(s * STAGE)) break;
            /* A stage is multiplied and another loaded in its place: weights as soon as they have been used; inputs into the buffer
             * of the stage before, with which all are done. */
            copy_wait(RING - 2u);
            block_barrier();
            STAGE_INPUT(NT, (s + RING - 1u) % RING, (s + RING - 1u) * STAGE)
            UNROLL for (u32 c = s * STAGE; c < (s + 1u) * STAGE; ++c) {
                if (Weights::MORE_BRANCHES && left <= (int)c) break;
                typename Weights::Operand operand = Weights::operand(ring[c]);
                const u32 in_row = c % STAGE * CHUNK + LANE % 4u * 8u;
                UNROLL for (u32 n = 0; n < NT; ++n) {
                    if (Weights::MORE_BRANCHES && n == 4u && copied <= 32u) break;
                    Weights::multiply(sums[n], operand, load_quad(&staged[s][n * 8u + LANE / 4u][in_row]));
                }
                Weights::load(ring[c], weights, c + RING * STAGE, own_tile < tiles ? left : 0);
            }
        }
    }
    copy_wait(0);
    const u32 tile = tile_again();
    const u32 rows = rows_there;
    if (parts > 1u) {
        Quad *partials = (Quad *)a.partials + (u64)tile * parts * NT * WARP + LANE;
        UNROLL for (u32 n = 0; n < NT; ++n)
            if (tile < tiles) store_sums(partials + (BLOCK_Y * NT + n) * WARP, sums[n]);
        if (!is_last_of(parts, a.arrived + BLOCK_X, &arrived)) return;
        UNROLL for (u32 n = 0; n < NT; ++n)
            if (tile < tiles) add_up_parts(partials + n * WARP, parts, NT * WARP, sums[n]);
    }
    if (tile < tiles) finish(&a, tile, NT, 0, rows, scales, sums);
}

#define LINEAR(name, Weights, NT, RING)                                                                                      \
    KERNEL_OF(256, 2, linear_##name##_##NT, LinearArguments) { linear_of_eights<Weights, NT, RING>(a); }

LINEAR(bf16, Halves<bf16>, 2, 4)
LINEAR(bf16, Halves<bf16>, 4, 4)
LINEAR(bf16, Halves<bf16>, 8, 3)
LINEAR(f16, Halves<f16>, 2, 4)
LINEAR(f16, Halves<f16>, 4, 4)
LINEAR(f16, Halves<f16>, 8, 3)
LINEAR(q8, Blocks, 2, 4)
LINEAR(q8, Blocks, 4, 4)
LINEAR(q8, Blocks, 8, 3)

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
