/* NVRTC has what it needs of <stdlib.h> built in. */
