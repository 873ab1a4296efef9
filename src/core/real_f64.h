/* Double precision for templates. */
#define REAL double
#define T(name) name##_f64
#define R_FMA fmc_fma
#define R_LOG fmc_log
#define R_LOG_NORMAL fmc_log_normal
#define R_LOG1P fmc_log1p
#define R_LOG1PEXP fmc_log1pexp
#define R_SQRT fmc_sqrt
#define R_EXP fmc_exp
#define R_EXP_BELOW fmc_exp_below
#define R_UNIFORM fmc_accept_uniform
#define R_ABS fmc_abs
