/* The words of device.h where there is no GPU; see emulator.c. */
#ifndef CASCADE_EMULATOR_H
#define CASCADE_EMULATOR_H

#include <math.h>
#include <string.h>

typedef struct {
    u32 thread, threads, block[3], grid[3];
} EmulatedPlace;

extern _Thread_local EmulatedPlace emulated_place;

void emulated_block_barrier(void);
Quad emulated_load_quad(const void *from);
void emulated_store_quad(void *to, Quad quad);
u32 emulated_shuffle_xor(u32 value, u32 lanes);
float emulated_warp_sum(float value);
float emulated_warp_max(float value);
void emulated_multiply_tiles(float *d, const u32 *a, u32 b0, u32 b1);
void emulated_copy_async(void *to, const void *from, int there);
void emulated_copy_commit(void);
void emulated_copy_wait(int pending);

#define DEVICE static inline
#define SHARED static _Thread_local
#define KERNEL(name, Arguments) KERNEL_OF(1024, 1, name, Arguments)
#define KERNEL_OF(bound, blocks, name, Arguments)                                                                            \
    enum { name##_threads = (bound) };                                                                                       \
    static void cascade_##name(const Arguments a);                                                                           \
    static void name##_thread(const void *arguments) { cascade_##name(*(const Arguments *)arguments); }                      \
    static void cascade_##name(const Arguments a)
#define UNROLL
#define ROLLED
#define THREAD emulated_place.thread
#define THREADS emulated_place.threads
#define BLOCK_X emulated_place.block[0]
#define BLOCK_Y emulated_place.block[1]
#define BLOCK_Z emulated_place.block[2]
#define GRID_X emulated_place.grid[0]
#define INFINITE INFINITY

DEVICE void wait_for_kernel_before(void) {}
DEVICE void block_barrier(void) { emulated_block_barrier(); }
DEVICE void publish(void) {}
DEVICE u32 count_up(u32 *counter) { return (*counter)++; }
DEVICE const void *in_memory(const void *address) { return address; }
DEVICE float load_constant(const float *from) { return *from; }
DEVICE float load_fresh(const float *from) { return *from; }
DEVICE u32 float_to_bits(float value) {
    u32 bits;
    memcpy(&bits, &value, 4);
    return bits;
}
DEVICE float bits_to_float(u32 bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}
DEVICE u32 shuffle_xor_u32(u32 value, u32 lanes) { return emulated_shuffle_xor(value, lanes); }
DEVICE float shuffle_xor(float value, u32 lanes) { return bits_to_float(emulated_shuffle_xor(float_to_bits(value), lanes)); }
DEVICE float warp_sum(float value) { return emulated_warp_sum(value); }
DEVICE float warp_max(float value) { return emulated_warp_max(value); }
DEVICE float exponential(float x) { return expf(x); }
DEVICE float tangent_h(float x) { return tanhf(x); }
DEVICE float inverse_root(float x) { return 1.0f / sqrtf(x); }
DEVICE float multiply_add(float x, float y, float z) { return x * y + z; }
DEVICE Quad load_quad(const void *from) { return emulated_load_quad(from); }
DEVICE Quad load_fresh_quad(const void *from) { return load_quad(from); }
DEVICE void store_quad(void *to, Quad q) { emulated_store_quad(to, q); }
DEVICE Quad load_streaming(const void *from) { return load_quad(from); }
/* Rounds to the nearest, ties to even. */
DEVICE u32 emulated_bf16(float value) {
    const u32 bits = float_to_bits(value);
    if (value != value) return 0x7fffu;
    return (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
DEVICE u32 pack_bf16(float low, float high) { return emulated_bf16(low) | emulated_bf16(high) << 16; }
DEVICE void multiply_tiles(float *d, const u32 *a, u32 b0, u32 b1) { emulated_multiply_tiles(d, a, b0, b1); }
DEVICE void copy_async(void *to, const void *from, int there) { emulated_copy_async(to, from, there); }
DEVICE void copy_commit(void) { emulated_copy_commit(); }
DEVICE void copy_wait(int pending) { emulated_copy_wait(pending); }

#endif
