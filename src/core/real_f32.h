/* Single precision for templates. */
#define REAL float
#define T(name) name##_f32
#define R_FMA fmc_fmaf
#define R_LOG fmc_logf
#define R_LOG_NORMAL fmc_log_normalf
#define R_LOG1P fmc_log1pf
#define R_LOG1PEXP fmc_log1pexpf
#define R_SQRT fmc_sqrtf
#define R_EXP fmc_expf
#define R_EXP_BELOW fmc_exp_belowf
#define R_UNIFORM fmc_accept_uniformf
#define R_ABS fmc_absf
