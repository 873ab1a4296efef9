/* Running sums of a chain's kept states, an entry per chain and dim; always in double. Of d = x - shift, with one shift
 * per dim for all chains:
 *   batch          sum of d over the batch that is not yet full
 *   total          sum of d over full batches
 *   squares        sum of d^2
 *   batch_squares  sum over full batches of (sum of d over the batch)^2
 * States are added one by one in their order, batches in theirs, so cutting a run into calls changes nothing. */
#ifndef FUSEDMC_CORE_CHAIN_SUMS_H
#define FUSEDMC_CORE_CHAIN_SUMS_H

#include "macros.h"

enum { FMC_SUM_BATCH, FMC_SUM_TOTAL, FMC_SUM_SQUARES, FMC_SUM_BATCH_SQUARES, FMC_N_SUMS };

FMC_FN void fmc_chain_add(double x, double shift, double *batch, double *squares) {
  double d = x - shift;
  *batch = *batch + d;
  *squares = fmc_fma(d, d, *squares);
}

/* At the end of a batch. */
FMC_FN void fmc_chain_end_batch(double *batch, double *total, double *batch_squares) {
  *total = *total + *batch;
  *batch_squares = fmc_fma(*batch, *batch, *batch_squares);
  *batch = 0;
}

#endif
