/* Words that kernels are written in. */
#ifndef CASCADE_DEVICE_H
#define CASCADE_DEVICE_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

/* Sixteen bytes, the most that one thread loads at once. */
typedef struct {
    u32 word[4];
} Quad;

#define WARP 32u

#define DEVICE static __device__ __forceinline__
#define SHARED __shared__
#define KERNEL(name, Arguments) extern "C" __global__ void cascade_##name(const __grid_constant__ Arguments a)
/* A kernel of so many threads a block, of which a processor shall hold so many blocks at once. */
#define KERNEL_OF(threads, blocks, name, Arguments)                                                                          \
    extern "C" __global__ void __launch_bounds__(threads, blocks) cascade_##name(const __grid_constant__ Arguments a)
#define UNROLL _Pragma("unroll")
/* A loop of which so much is unrolled that loads do not wait for each other, and so little that registers suffice. */
#define SOME_UNROLLED _Pragma("unroll 2")
/* A loop that is run rarely, and should not take the room of others. */
#define ROLLED _Pragma("unroll 1")
#define THREAD threadIdx.x
#define THREADS blockDim.x
#define BLOCK_X blockIdx.x
#define BLOCK_Y blockIdx.y
#define BLOCK_Z blockIdx.z
#define GRID_X gridDim.x
#define INFINITE __int_as_float(0x7f800000)

/* The first thing that a kernel of a forward does. Where launches overlap, its blocks may have started while those of the kernel
 * before are still at work: what that kernel writes is there only now. Every block must wait, or the kernel might be done before the
 * one before it, which the next relies on. */
DEVICE void wait_for_kernel_before(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

DEVICE void block_barrier(void) { __syncthreads(); }

/* Adds one, and gives what was there. What this thread wrote before, and what its block wrote before its last barrier, is there for
 * whoever counts later; and what others wrote before they counted is there for this thread, and for its block after a barrier. */
DEVICE u32 count_up(u32 *counter) {
    u32 was;
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(was) : "l"(__cvta_generic_to_global(counter)) : "memory");
    return was;
}
/* What other blocks of the same kernel have written: from where all processors see it. */
DEVICE float load_fresh(const float *from) { return __ldcg(from); }
DEVICE Quad load_fresh_quad(const void *from) {
    const uint4 v = __ldcg((const uint4 *)from);
    Quad q = {{v.x, v.y, v.z, v.w}};
    return q;
}

DEVICE float shuffle_xor(float value, u32 lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
DEVICE u32 shuffle_xor_u32(u32 value, u32 lanes) { return __shfl_xor_sync(0xffffffffu, value, lanes); }
/* By halves: lanes sixteen apart first, neighbours last. */
DEVICE float warp_sum(float value) {
    for (u32 lanes = WARP / 2; lanes; lanes /= 2) value += shuffle_xor(value, lanes);
    return value;
}
DEVICE float warp_max(float value) {
    for (u32 lanes = WARP / 2; lanes; lanes /= 2) value = fmaxf(value, shuffle_xor(value, lanes));
    return value;
}
DEVICE float bits_to_float(u32 bits) { return __uint_as_float(bits); }
DEVICE u32 float_to_bits(float value) { return __float_as_uint(value); }
DEVICE float exponential(float x) { return __expf(x); }
DEVICE float tangent_h(float x) { return tanhf(x); }
DEVICE float inverse_root(float x) { return rsqrtf(x); }
DEVICE float multiply_add(float x, float y, float z) { return fmaf(x, y, z); }

/* Weights are read once per forward: they need no place in the first-level cache. */
DEVICE Quad load_streaming(const void *from) {
    Quad q;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(q.word[0]), "=r"(q.word[1]), "=r"(q.word[2]), "=r"(q.word[3])
                 : "l"(from));
    return q;
}

/* The same if `there`, else zeros: without a branch, so that loads are where they are written. */
DEVICE void load_streaming_if(Quad *q, int there, const void *from) {
    UNROLL for (u32 i = 0; i < 4; ++i) q->word[i] = 0;
    asm volatile("{\n\t.reg .pred there<1>;\n\tsetp.ne.s32 there0, %5, 0;\n\t"
                 "@there0 ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n\t}"
                 : "+r"(q->word[0]), "+r"(q->word[1]), "+r"(q->word[2]), "+r"(q->word[3])
                 : "l"(from), "r"(there));
}

/* Tells the compiler that an address is one of the device's memory, which it cannot know of addresses that come from there. */
DEVICE const void *in_memory(const void *address) {
    __builtin_assume(__isGlobal(address));
    return address;
}

/* Four bytes, if `there`, else zeros. */
DEVICE void load_word_if(u32 *word, int there, const void *from) {
    *word = 0;
    asm volatile("{\n\t.reg .pred there<1>;\n\tsetp.ne.s32 there0, %2, 0;\n\t"
                 "@there0 ld.global.nc.L1::no_allocate.u32 %0, [%1];\n\t}"
                 : "+r"(*word)
                 : "l"(from), "r"(there));
}

/* What no kernel of a forward writes may be loaded at any time. */
DEVICE float load_constant(const float *from) { return __ldg(from); }

DEVICE Quad load_quad(const void *from) {
    const uint4 v = *(const uint4 *)from;
    Quad q = {{v.x, v.y, v.z, v.w}};
    return q;
}

DEVICE void store_quad(void *to, Quad q) { *(uint4 *)to = make_uint4(q.word[0], q.word[1], q.word[2], q.word[3]); }

/* Two floats to a multiple of eight bytes. */
DEVICE void store_pair(float *to, const float *pair) { *(float2 *)to = make_float2(pair[0], pair[1]); }

/* A type of sixteen bits in which tensor cores multiply. */
struct bf16 {
    /* Two floats, the first in the lower half. */
    DEVICE u32 pack(float low, float high) {
        u32 packed;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
        return packed;
    }
    /* d += a · b of 16 x 16 and 16 x 8, accumulated in f32. */
    DEVICE void multiply_tiles(float *d, const u32 *a, u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

struct f16 {
    DEVICE u32 pack(float low, float high) {
        u32 packed;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
        return packed;
    }
    DEVICE void multiply_tiles(float *d, const u32 *a, u32 b0, u32 b1) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
};

/* x · y + z of two bf16 each. */
DEVICE u32 multiply_add_bf16(u32 x, u32 y, u32 z) {
    u32 d;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(x), "r"(y), "r"(z));
    return d;
}

/* The two f16 of a word, as floats. */
DEVICE void unpack_f16(u32 packed, float *low, float *high) {
    asm("{\n\t.reg .b16 %%half<2>;\n\tmov.b32 {%%half0, %%half1}, %2;\n\t"
        "cvt.f32.f16 %0, %%half0;\n\tcvt.f32.f16 %1, %%half1;\n\t}"
        : "=f"(*low), "=f"(*high)
        : "r"(packed));
}

/* Sixteen bytes to shared memory without passing through registers; zeros if not `there`. */
DEVICE void copy_async(void *to, const void *from, int there) {
    const u32 shared = (u32)__cvta_generic_to_shared(to);
    const u32 bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes)
                 : "memory");
}
DEVICE void copy_commit(void) { asm volatile("cp.async.commit_group;" ::: "memory"); }
/* Waits until at most `pending` of this thread's groups are under way: a constant. */
DEVICE void copy_wait(u32 pending) {
    if (pending == 2u) asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (pending == 1u) asm volatile("cp.async.wait_group 1;" ::: "memory");
    else asm volatile("cp.async.wait_group 0;" ::: "memory");
}

#define LANE (THREAD % WARP)
#define WARP_INDEX (THREAD / WARP)

/* ---- Numbers in memory ---- */

/* How numbers of a model lie in memory, as `kind` in arguments. */
#define F32 0u
#define BF16 1u
#define F16 2u
/* Blocks of 32 weights of a row, as in GGUF: a scale in f16, and 32 bytes, which are integers. 34 bytes in all. */
#define Q8 3u

DEVICE float bf16_to_float(u32 half) { return bits_to_float(half << 16); }

DEVICE float f16_to_float(u32 half) {
    const u32 sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u, mantissa = half & 1023u;
    if (exponent == 31u) return bits_to_float(sign | 0x7f800000u | mantissa << 13);
    if (exponent) return bits_to_float(sign | (exponent + 112u) << 23 | mantissa << 13);
    /* Subnormal: mantissa · 2^-24. */
    return bits_to_float(sign | float_to_bits((float)mantissa * 5.9604644775390625e-8f));
}

DEVICE float load_number(const void *from, u64 index, u32 kind) {
    if (kind == F32) return ((const float *)from)[index];
    const u32 half = ((const u16 *)from)[index];
    return kind == BF16 ? bf16_to_float(half) : f16_to_float(half);
}

/* What f16 has no finite number for becomes NaN, and stays it up to the logits, where it is noticed: an infinity could vanish, as the
 * score of a key that counts as hidden does. */
DEVICE u16 float_to_f16(float value) {
    const int fits = value < 65520.0f && value > -65520.0f;
    return (u16)f16::pack(fits ? value : bits_to_float(0x7fffffffu), 0.0f);
}

DEVICE void store_number(void *to, u64 index, float value, u32 kind) {
    if (kind == F32) ((float *)to)[index] = value;
    else ((u16 *)to)[index] = kind == F16 ? float_to_f16(value) : (u16)bf16::pack(value, 0.0f);
}

/* A weight of a row of blocks. */
DEVICE float load_from_blocks(const void *blocks, u64 row, u32 size, u32 i) {
    const u16 *block = (const u16 *)blocks + (row * (size / 32u) + i / 32u) * 17u;
    const u32 byte = (u32)block[1u + i % 32u / 2u] >> i % 2u * 8u & 255u;
    return f16_to_float(block[0]) * ((float)(byte ^ 128u) - 128.0f);
}

/* ---- Blocks of a kernel together ---- */

/* Whether this block is the last of `count` to come here, which sees what all have written; for every thread of the block. One thread
 * counts for all of them: a fence by each would cost far more. `counter` is zero before and after. */
DEVICE int is_last_of(u32 count, u32 *counter, u32 *of_block) {
    block_barrier();
    if (THREAD == 0) *of_block = count_up(counter);
    block_barrier();
    if (*of_block + 1u != count) return 0;
    if (THREAD == 0) *counter = 0;
    return 1;
}

/* ---- Sums and maxima over a block, always in the same order ---- */

/* `scratch` has room for a float per warp, and nobody is at work with it; every thread gets the sum. */
DEVICE float block_sum(float value, float *scratch) {
    value = warp_sum(value);
    if (LANE == 0) scratch[WARP_INDEX] = value;
    block_barrier();
    float sum = 0.0f;
    for (u32 warp = 0; warp < THREADS / WARP; ++warp) sum += scratch[warp];
    return sum;
}

#endif
