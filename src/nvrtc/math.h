/* NVRTC has the functions of <math.h> built in, but not its constants. */
#ifndef FUSEDMC_NVRTC_MATH_H
#define FUSEDMC_NVRTC_MATH_H

#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fc00000)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define HUGE_VALF INFINITY

#endif
