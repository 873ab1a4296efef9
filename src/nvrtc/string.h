/* NVRTC has what it needs of <string.h> built in. */
