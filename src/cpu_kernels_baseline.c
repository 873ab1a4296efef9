#define FMC_LEVEL "baseline"
#define FMC_KERNELS fmc_cpu_kernels_baseline
#include "cpu_kernels_impl.h"
