/* What kernels are called with. `src/arguments.rs` has the same structures; a test compares their sizes and offsets. */
#ifndef CASCADE_ARGUMENTS_H
#define CASCADE_ARGUMENTS_H

/* Rows of one forward at most. */
#define MAX_ROWS 64
/* Parts that the inputs of a linear map are cut into, at most: a power of two. */
#define MAX_PARTS 8u
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

/* The residual stream, and the next norm of it: numbers times the norm's weight. The linear maps that read those multiply their
 * sums with what is the same for all of a row, which follows from the squares. */
typedef struct {
    /* [rows][size] */
    float *stream;
    /* [size] */
    const float *weight;
    /* [rows][size], `kind` */
    void *normed;
    /* [rows][size / 16]: sums of the squares of sixteen numbers each. */
    float *squares;
    u32 size, kind;
} StreamArguments;

typedef struct {
    const Step *step;
    /* [vocabulary][size], `kind`; or, for embed_q8, [vocabulary][size / 32] blocks. */
    const void *table;
    StreamArguments stream;
} EmbedArguments;

typedef struct {
    /* [positions][head_dim / 2], or null for no rotation. */
    const float *cosines, *sines;
    /* [rows][heads][padded], `kind`; padding is zero and stays so. */
    void *queries;
    u32 heads, kv_heads, head_dim, padded;
    u32 layer, kind;
    /* Whether keys and values go to `source` instead of `cache`. */
    u32 to_source;
    /* Which of the three there are: 1 queries, 2 keys and values, 3 both. */
    u32 which;
} HeadsArguments;

/* What becomes of a linear map's sums. */
#define THEN_ADD 0u
#define THEN_HEADS 1u
#define THEN_ACTIVATE 2u
#define THEN_LOGITS 3u

typedef struct {
    const Step *step;
    /* [rows][inputs], `kind` */
    const void *input;
    /* Packed: [outputs / 16][inputs / 32][2][32][8] bf16 or f16, the operands of multiply_tiles lane by lane; or
     * [outputs / 16][inputs / 32][32][16] bytes and their scales (Blocks in linear.cu); or [outputs][inputs] f32. */
    const void *weight;
    /* If blocks share outputs: [outputs / 16][parts][rows / 8][32][4], sums over parts of the inputs as warps have them. There are
     * 1 << part_bits parts. */
    float *partials;
    /* [blocks]: how many of those that share outputs are done. Zero between kernels. */
    u32 *arrived;
    /* Those of the rows whose norm the input is: `StreamArguments`; null if it is no norm. */
    const float *squares;
    /* [outputs], in the order of the outputs: what is added to the sums; null for nothing. */
    const float *bias;
    u32 inputs, outputs, part_bits;
    float epsilon;
    /* The first row to compute is `first_wanted` if set. */
    u32 wanted_only;
    u32 then;
    /* Rows that this launch is recorded for: no fewer than there are. */
    u32 room;
    u32 unused;
    /* Of THEN_ADD: sums are added to the residual stream. */
    StreamArguments stream;
    /* Of THEN_HEADS. The outputs of a rotated head alternate: eight of its first half, eight of its second. */
    HeadsArguments heads;
    /* Of THEN_ACTIVATE: [rows][outputs], or [rows][outputs / 2] if gated, `kind`; outputs are then eight gates and eight ups in turns.
     * Of THEN_LOGITS: [wanted rows][vocabulary] f32. */
    void *out;
    /* 0: max(x, 0); 1: the tanh form of GELU; 2: SiLU. */
    u32 activation, gated;
    u32 kind;
    /* Columns that there are of the last outputs. */
    u32 vocabulary;
    /* Multiplies logits. */
    float scale;
    u32 unused_too;
} LinearArguments;

typedef struct {
    const Step *step;
    /* [rows][heads][padded], `kind` */
    const void *queries;
    /* [heads][2 * reach + 1]: what is added to the score of a key that is d positions before the query, at reach + d; null for none. */
    const float *bias;
    /* [splits][rows][heads][padded], and [splits][rows][heads][2]: maximum and sum. Not used if there is but one split. */
    float *mixed, *weights;
    /* [blocks]: splits of the same rows that are done. Zero between kernels. */
    u32 *arrived;
    /* [rows][heads * head_dim], `kind` */
    void *out;
    u32 heads, kv_heads, head_dim, padded, layer;
    u32 reach, kind;
    /* Whether to attend to `source`, all of it. */
    u32 to_source;
    /* How many positions a row sees up to its own at most; 0 for all. */
    u32 window, unused;
} AttentionArguments;

typedef struct {
    const Step *step;
    /* [positions][head_dim / 2] */
    const float *cosines, *sines;
    /* [head_dim] */
    const float *query_weight, *key_weight;
    /* [rows][heads][padded], `kind` */
    void *queries;
    u32 heads, kv_heads, head_dim, padded, layer, kind;
    float epsilon;
    u32 unused;
} NormHeadsArguments;

/* What one block found in its part of a row of logits. */
typedef struct {
    float greatest, sum;
    u32 argmax, unused;
} Slice;

typedef struct {
    const Step *step;
    /* [wanted rows][vocabulary] */
    const float *logits;
    /* [wanted rows][slices] */
    Slice *slices;
    /* [wanted rows]: slices that are done. Zero between kernels. */
    u32 *arrived;
    Answer *answer;
    u32 vocabulary, slice_count;
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
    /* [outputs][inputs], `kind`; or, for pack_q8, [outputs][inputs / 32] blocks. */
    const void *from;
    void *to;
    u32 outputs, inputs, kind, to_kind;
    /* Outputs whose first half alternates with their second in eights, as the outputs of a gate and of what it gates do, or the halves
     * of a rotated head; zero for none. */
    u32 alternating;
    /* Whether `to` is in the order of multiply_tiles. */
    u32 packed;
    /* The first output to write, and all that `to` has. */
    u32 first_output, all_outputs;
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
