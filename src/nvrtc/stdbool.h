/* NVRTC has what it needs of <stdbool.h> built in. */
