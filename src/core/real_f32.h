/* Single precision for templates.h. */
#define REAL float
#define T(name) name##_f32
#define R_FMA fmc_fmaf
#define R_LOG fmc_logf
#define R_EXP fmc_expf
#define R_UNIFORM fmc_accept_uniformf
