/* Double precision for templates.h. */
#define REAL double
#define T(name) name##_f64
#define R_FMA fmc_fma
#define R_LOG fmc_log
#define R_EXP fmc_exp
#define R_UNIFORM fmc_accept_uniform
