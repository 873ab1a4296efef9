/* What a density is made of; see density.h. A leaf's name is that of its header, of its function fmc_leaf_<name>, and
 * of its node in R. */
#ifndef FUSEDMC_CORE_KINDS_H
#define FUSEDMC_CORE_KINDS_H

#include "macros.h"

/* The table: a new built-in density is a line here. */
#define FMC_LEAVES(X)                                                                                                  \
  X(mixture)                                                                                                           \
  X(elliptical)                                                                                                        \
  X(glm)                                                                                                               \
  X(source)

#define FMC_OPERATORS(X)                                                                                               \
  X(temper)    /* number[0] times the topmost; zero times anything is zero */                                          \
  X(product)   /* the two topmost become their sum */                                                                  \
  X(mix_first) /* the topmost, of log weight number[0], begins a log-sum-exp */                                        \
  X(mix_add)   /* the topmost, of log weight number[0], is added to the log-sum-exp below it */                        \
  X(mix_end)   /* the log-sum-exp becomes a value */

#define FMC_KIND_NAME(name) FMC_KIND_##name,
enum { FMC_LEAVES(FMC_KIND_NAME) FMC_OPERATORS(FMC_KIND_NAME) FMC_N_KINDS };
#undef FMC_KIND_NAME

FMC_FN int fmc_is_leaf(int kind) { return kind < FMC_KIND_temper; }

#define FMC_NODE_NUMBERS 8
#define FMC_NODE_ARRAYS 6
#define FMC_MAX_DEPTH 8 /* values that wait on the stack at most */

#endif
