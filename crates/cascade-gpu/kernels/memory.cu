/* Moving numbers: caches of keys and values, and weights on their way into memory. */

DEVICE void copy_number(void *to, u64 to_index, const void *from, u64 from_index, u32 kind) {
    if (kind == F32) ((u32 *)to)[to_index] = ((const u32 *)from)[from_index];
    else ((u16 *)to)[to_index] = ((const u16 *)from)[from_index];
}

/* Moves slots to where `at` begins. They ascend, so what is overwritten was moved before. Grid: a head's keys, then its values,
 * of each layer; a thread per number of a head. Profiles record it as a kernel that does nothing, so it waits as recorded ones do. */
KERNEL(keep, KeepArguments) {
    wait_for_kernel_before();
    const u32 i = THREAD;
    if (i >= a.padded) return;
    const u32 bytes = a.kind == F32 ? 4u : 2u;
    /* Planes of a layer: keys of all heads, then values of all heads. */
    const u32 heads = a.heads, layer = BLOCK_X / (2u * heads), plane = BLOCK_X % (2u * heads);
    u8 *start = (u8 *)a.cache + ((u64)layer * 2u * heads + plane) * a.capacity * a.padded * bytes;
    const u64 step = plane < heads ? a.padded : 1u, offset = plane < heads ? i : (u64)i * a.capacity;
    for (u32 n = 0; n < a.count; ++n) copy_number(start, offset + (a.at + n) * step, start, offset + a.slots[n] * step, a.kind);
}

/* Copies the first `count` slots of a cache to a larger one. Grid as for `keep`. */
KERNEL(grow, GrowArguments) {
    const u32 bytes = a.kind == F32 ? 4u : 2u, heads = a.heads, plane = BLOCK_X % (2u * heads);
    const u8 *from = (const u8 *)a.from + (u64)BLOCK_X * a.from_capacity * a.padded * bytes;
    u8 *to = (u8 *)a.to + (u64)BLOCK_X * a.to_capacity * a.padded * bytes;
    for (u32 i = THREAD; i < a.count * a.padded; i += THREADS) {
        if (plane < heads) {
            copy_number(to, i, from, i, a.kind);
        } else {
            const u64 row = i / a.count, slot = i % a.count;
            copy_number(to, row * a.to_capacity + slot, from, row * a.from_capacity + slot, a.kind);
        }
    }
}

/* Where the number of an output and an input lies in a packed weight: sixteen outputs by thirty-two inputs are a tile, and
 * thread 4 · (output % 8) + (input % 32) / 8 of a warp loads eight of its numbers at once, twice: each time the four registers of an
 * operand of multiply_tiles, in which pairs of inputs of an output and of the one eight further alternate. */
DEVICE u64 packed_place(u32 output, u32 input, u32 inputs) {
    const u64 tile = (u64)(output / 16u) * (inputs / 32u) + input / 32u;
    const u32 lane = output % 8u * 4u + input % 32u / 8u;
    const u32 word = input % 8u / 2u;
    return tile * 512u + word / 2u * 256u + lane * 8u + (word % 2u * 2u + output % 16u / 8u) * 2u + input % 2u;
}

/* The row that is to be an output. */
DEVICE u32 source_row(u32 output, u32 alternating) {
    if (!alternating) return output;
    const u32 in_group = output % alternating, eight = in_group / 16u * 8u + in_group % 8u;
    return output - in_group + eight + (in_group % 16u < 8u ? 0u : alternating / 2u);
}

/* Converts a weight and puts its numbers where forward passes read them. Grid: outputs. */
KERNEL(pack, PackArguments) {
    const u32 output = BLOCK_X, row = source_row(output, a.alternating);
    const u32 to_output = a.first_output + output;
    for (u32 i = THREAD; i < a.inputs; i += THREADS) {
        const float value = load_number(a.from, (u64)row * a.inputs + i, a.kind);
        const u64 to = a.packed ? packed_place(to_output, i, a.inputs) : (u64)to_output * a.inputs + i;
        store_number(a.to, to, value, a.to_kind);
    }
}

/* Puts blocks of weights where forward passes read them (linear.cu). A row that is not there has zeros. Grid: tiles of outputs; warps
 * take the chunks of a tile in turns, and lanes what they will read. */
KERNEL(pack_q8, PackArguments) {
    const u32 chunks = a.inputs / 32u, g = LANE / 4u, q = LANE % 4u;
    u32 row[2];
    int there[2];
    UNROLL for (u32 h = 0; h < 2; ++h) {
        const u32 output = BLOCK_X * 16u + g + 8u * h;
        there[h] = output < a.outputs;
        row[h] = source_row(there[h] ? output : 0u, a.alternating);
    }
    for (u32 chunk = WARP_INDEX; chunk < chunks; chunk += THREADS / WARP) {
        const u64 place = (u64)(a.first_output / 16u + BLOCK_X) * chunks + chunk;
        u32 pairs[2][4], scales = 0;
        UNROLL for (u32 h = 0; h < 2; ++h) {
            const u16 *block = (const u16 *)a.from + ((u64)row[h] * chunks + chunk) * 17u;
            UNROLL for (u32 i = 0; i < 4; ++i) pairs[h][i] = there[h] ? block[1u + q * 4u + i] : 0u;
            if (there[h]) scales |= (u32)block[0] << 16u * h;
        }
        Quad bytes;
        UNROLL for (u32 i = 0; i < 4; ++i)
            bytes.word[i] = (pairs[0][i] & 255u) | (pairs[1][i] & 255u) << 8u | pairs[0][i] >> 8u << 16u | pairs[1][i] >> 8u << 24u;
        store_quad((Quad *)a.to + place * WARP + LANE, bytes);
        if (q == 0) ((u32 *)((u8 *)a.to + (u64)a.all_outputs * a.inputs))[place * 8u + g] = scales;
    }
}

/* Pseudo-random numbers between -scale and scale, a function of seed and place; or words of four random bytes. */
KERNEL(fill, FillArguments) {
    for (u64 i = (u64)BLOCK_X * THREADS + THREAD; i < a.count; i += (u64)GRID_X * THREADS) {
        u64 x = i + ((u64)a.seed << 40);
        x = (x ^ x >> 33) * 0xff51afd7ed558ccdull;
        x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53ull;
        x ^= x >> 33;
        if (a.kind == Q8) {
            ((u32 *)a.to)[i] = (u32)(x >> 16);
            continue;
        }
        const float unit = (float)(x >> 40) * 5.9604644775390625e-8f;
        store_number(a.to, i, (2.0f * unit - 1.0f) * a.scale, a.kind);
    }
}

/* Copies memory as fast as the device can: what forward passes are measured against. */
KERNEL(copy_quads, CopyArguments) {
    const u64 stride = (u64)GRID_X * THREADS;
    for (u64 i = (u64)BLOCK_X * THREADS + THREAD; i < a.quads; i += stride)
        store_quad((Quad *)a.to + i, load_streaming((const Quad *)a.from + i));
}

/* Reads memory and writes next to nothing: what weights can be streamed at. */
KERNEL(read_quads, CopyArguments) {
    const u64 stride = (u64)GRID_X * THREADS;
    u32 mixed = 0;
    for (u64 i = (u64)BLOCK_X * THREADS + THREAD; i < a.quads; i += 4u * stride) {
        Quad q[4];
        UNROLL for (u32 j = 0; j < 4; ++j) {
            const Quad none = {{0, 0, 0, 0}};
            q[j] = i + j * stride < a.quads ? load_streaming((const Quad *)a.from + i + j * stride) : none;
        }
        UNROLL for (u32 j = 0; j < 4; ++j) mixed ^= q[j].word[0] ^ q[j].word[1] ^ q[j].word[2] ^ q[j].word[3];
    }
    if (mixed == 0x9e3779b9u) ((u32 *)a.to)[0] = mixed;
}
