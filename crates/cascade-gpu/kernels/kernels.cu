/* All kernels as one module. `scripts/compile-kernels.sh` makes kernels.sm80.ptx and kernels.sm90.ptx of it. */
#include "device.h"
#include "arguments.h"
#include "layers.cu"
#include "linear.cu"
#include "attention.cu"
#include "readout.cu"
#include "memory.cu"
