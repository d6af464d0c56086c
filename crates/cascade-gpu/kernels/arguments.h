/* What kernels are called with. `src/arguments.rs` has the same structures; a test compares their sizes and offsets. */
#ifndef CASCADE_ARGUMENTS_H
#define CASCADE_ARGUMENTS_H

/* Rows of one forward at most. */
#define MAX_ROWS 64
/* Positions from `past` on whose slots a row of a tree may have to look up. */
#define WINDOW 128
/* Children whose probabilities one forward looks up, at most. */
#define MAX_PICKS 512
/* Keys that one block of attention works through. A constant, whatever the number of rows: a row's sums are always in the
 * same order. */
#define SPLIT 128

/* One forward's input, in the device's memory, so that a recorded forward can be run on other inputs.
 *
 * A row sees one key of each position up to its own, and all keys before `past`. */
typedef struct {
    /* Rows that there are; buffers and grids may have room for more. */
    u32 rows;
    /* Keys before this position are in the slots of their positions, and every row sees them. */
    u32 past;
    /* Slot that row 0 is written to. */
    u32 first;
    /* Positions that any row sees. */
    u32 keys;
    /* Keys and values: [layers][keys, values][heads][...]; keys are [capacity][size], values [size][capacity]. */
    void *cache;
    /* The same of an encoded source. */
    void *source;
    u32 capacity;
    u32 source_capacity;
    /* Tokens of the source. */
    u32 source_keys;
    /* The first of the rows whose logits are wanted; all after it are. */
    u32 first_wanted;
    /* Entries of `pick_row` and `pick_token`. */
    u32 picks;
    /* Whether keys from `past` on are elsewhere than in the slots of their positions: the rows are a tree. */
    u32 scattered;
    u32 tokens[MAX_ROWS];
    u32 positions[MAX_ROWS];
    u32 pick_row[MAX_PICKS];
    u32 pick_token[MAX_PICKS];
    /* For each row, the slots (less `past`) of the positions from `past` to its own. Only if scattered. */
    u16 path[MAX_ROWS][WINDOW];
} Step;

/* What one forward answers, copied to the host as one. */
typedef struct {
    u32 argmax[MAX_ROWS];
    float greatest[MAX_ROWS];
    /* Sum of exp(logit - greatest). */
    float sum[MAX_ROWS];
    /* 1 if a logit is NaN or +infinite, or all are -infinite. */
    u32 improper[MAX_ROWS];
    float picks[MAX_PICKS];
} Answer;

typedef struct {
    const Step *step;
    /* [vocabulary][size], `kind`. */
    const void *table;
    /* [rows][size] */
    float *stream;
    u32 size, kind;
} EmbedArguments;

typedef struct {
    const Step *step;
    /* [parts][stride][size]; not read if there are no parts. */
    const float *delta;
    /* [rows][size]; gets the sum of the parts added. */
    float *stream;
    /* [size] */
    const float *weight;
    /* [rows][size], `kind` */
    void *out;
    u32 size, parts, stride, kind;
    float epsilon;
    u32 unused;
} NormArguments;

typedef struct {
    const Step *step;
    /* [rows][inputs], bf16 */
    const void *input;
    /* Packed: [outputs / 16][inputs / 32][2][32][8] bf16; or [outputs][inputs] f32. */
    const void *weight;
    /* [parts][stride][outputs]: each part is the sum over a part of the inputs. */
    float *out;
    u32 inputs, outputs, parts, stride;
    /* The first row to compute is `first_wanted` if set. */
    u32 wanted_only, unused;
} LinearArguments;

typedef struct {
    const Step *step;
    /* [parts][stride][(heads + 2 * kv_heads) * head_dim]: queries, keys, values. */
    const float *projected;
    /* [positions][head_dim / 2], or null for no rotation. */
    const float *cosines, *sines;
    /* [rows][heads][padded], `kind` */
    void *queries;
    u32 heads, kv_heads, head_dim, padded;
    u32 parts, stride, kind, layer;
    /* Whether keys and values go to `source` instead of `cache`. */
    u32 to_source;
    /* Which of the three there are: 1 queries, 2 keys and values, 3 both. */
    u32 which;
} HeadsArguments;

typedef struct {
    const Step *step;
    /* [rows][heads][padded], `kind` */
    const void *queries;
    /* [heads][2 * reach + 1]: what is added to the score of a key that is d positions before the query, at reach + d; null for none. */
    const float *bias;
    /* [splits][rows][heads][padded], and [splits][rows][heads][2]: maximum and sum. */
    float *mixed, *weights;
    u32 heads, kv_heads, padded, layer;
    u32 reach, kind;
    /* Whether to attend to `source`, all of it. */
    u32 to_source, unused;
} AttentionArguments;

typedef struct {
    const Step *step;
    const float *mixed, *weights;
    /* [rows][heads * head_dim], `kind` */
    void *out;
    u32 heads, head_dim, padded, kind;
    u32 to_source, unused;
} CombineArguments;

typedef struct {
    const Step *step;
    /* [parts][stride][inner], or [parts][stride][inner / 8][gate, up][8] if gated. */
    const float *projected;
    /* [rows][inner], `kind` */
    void *out;
    u32 inner, parts, stride, kind;
    /* 0: max(x, 0); 1: the tanh form of GELU; 2: SiLU. */
    u32 activation, gated;
} ActivationArguments;

/* What one block found in its part of a row of logits. */
typedef struct {
    float greatest, sum;
    u32 argmax, improper;
} Slice;

typedef struct {
    const Step *step;
    /* [parts][stride][vocabulary] */
    const float *projected;
    /* [wanted rows][vocabulary] */
    float *logits;
    /* [wanted rows][slices] */
    Slice *slices;
    Answer *answer;
    u32 vocabulary, parts, stride, slice_count;
    /* Multiplies logits. */
    float scale;
    u32 unused;
} LogitsArguments;

typedef struct {
    const Step *step;
    const float *logits;
    /* [wanted rows][width]: tokens and logits, greatest first. */
    u32 *tokens;
    float *values;
    u32 vocabulary, width;
} TopArguments;

typedef struct {
    void *cache;
    /* Slots to keep, ascending. */
    const u32 *slots;
    /* Heads of keys, and of values. */
    u32 heads;
    u32 padded, capacity, at, count, kind;
} KeepArguments;

typedef struct {
    const void *from;
    void *to;
    u32 heads, padded, from_capacity, to_capacity, count, kind;
} GrowArguments;

typedef struct {
    /* [outputs][inputs], `kind`; if interleaved, gate rows and then up rows. */
    const void *from;
    void *to;
    u32 outputs, inputs, kind, to_kind;
    /* Whether the weight of a linear map is packed, its rows in sixteens of 8 gates and 8 ups. */
    u32 interleaved;
    /* Whether `to` is in the order of multiply_tiles. */
    u32 packed;
    /* The first output to write. */
    u32 first_output, unused;
} PackArguments;

typedef struct {
    void *to;
    u64 count;
    u32 kind, seed;
    float scale;
    u32 unused;
} FillArguments;

typedef struct {
    const void *from;
    void *to;
    u64 quads;
} CopyArguments;

#endif
