/* NVRTC has what it needs of <stddef.h> built in. */
