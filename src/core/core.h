/* The numeric core: everything that decides a bit of a result, for the CPU's compiler and for nvcc.
 *
 * Functions work on a strip of n chains (or samples) side by side: dim d of chain i is x[d * stride + i]. The CPU takes
 * strips of FMC_STRIP chains and turns each inner loop into vector code; a CUDA thread takes strips of one. Headers
 * without an include guard are templates over precision: they are read twice, and T(name) is the name in that
 * precision. */
#ifndef FUSEDMC_CORE_H
#define FUSEDMC_CORE_H

#ifdef __CUDACC__
#define FMC_STRIP 1
#else
#define FMC_STRIP 32
#endif

#include "kinds.h"
#include "macros.h"
#include "math.h"
#include "gamma.h"
#include "normal.h"
#include "philox.h"
#include "sums.h"

/* What acceptance decided for a chain; the two last are told to the caller with the chain's number. */
enum { FMC_REJECTED = 0, FMC_ACCEPTED = 1, FMC_START_NOT_FINITE = 2, FMC_PROPOSAL_NOT_FINITE = 3 };

/* The accumulators of weighted sums; always in double. */
#include "chain_sums.h"
#include "weighted_sums.h"

#include "real_f64.h"
#include "leaves.h"
#include "mh_step.h"
#include "real_end.h"

#include "real_f32.h"
#include "leaves.h"
#include "mh_step.h"
#include "real_end.h"

#endif
