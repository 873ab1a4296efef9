/* NVRTC has what it needs of <math.h> built in. */
