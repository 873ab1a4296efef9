/* Which of the CPU's builds runs here. */
#ifndef FUSEDMC_CPU_DISPATCH_H
#define FUSEDMC_CPU_DISPATCH_H

#include "cpu_kernels.h"

/* The build in use: at first the widest that the processor has. */
const fmc_cpu_kernels *fmc_cpu_kernels_now(void);
/* Chooses a build by its level's name; 0 where this package or this processor lacks it. */
int fmc_cpu_use(const char *level);
/* Normalised weights of n log weights; max and sum are those over all of them. */
void fmc_cpu_normalise(const double *log_weights, size_t n, double max, double sum, double *weights, int n_threads);

#endif
