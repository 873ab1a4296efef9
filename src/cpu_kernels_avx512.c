#ifdef FMC_HAVE_AVX512
#define FMC_LEVEL "avx512"
#define FMC_KERNELS fmc_cpu_kernels_avx512
#include "cpu_kernels_impl.h"
#else
typedef int fmc_not_in_this_build; /* a translation unit may not be empty */
#endif
