/* All kernels as one module. `scripts/compile-kernels.sh` makes kernels.sm80.ptx and kernels.sm90.ptx of it. */
#include "device.h"
#include "arguments.h"
#include "layers.cu"
#include "linear.cu"
#include "attention.cu"
#include "readout.cu"
#include "memory.cu"

#include <stddef.h>

/* Sizes of structures, places of a field of each, and constants that both sides know, for `src/arguments.rs` to be compared with. */
extern "C" __device__ u32 cascade_layout[] = {
    sizeof(Step), offsetof(Step, path), sizeof(Answer), sizeof(StreamArguments), sizeof(EmbedArguments),
    sizeof(HeadsArguments), offsetof(HeadsArguments, which), sizeof(LinearArguments), offsetof(LinearArguments, stream),
    offsetof(LinearArguments, heads), offsetof(LinearArguments, activation), sizeof(AttentionArguments),
    offsetof(AttentionArguments, reach), sizeof(NormHeadsArguments), offsetof(NormHeadsArguments, epsilon), sizeof(Slice),
    sizeof(LogitsArguments), offsetof(LogitsArguments, slice_count),
    sizeof(TopArguments), sizeof(KeepArguments), sizeof(GrowArguments), sizeof(PackArguments), sizeof(FillArguments),
    sizeof(CopyArguments), MAX_PARTS, SPLIT, SLICE,
};
