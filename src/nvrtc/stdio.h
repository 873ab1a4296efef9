/* NVRTC has what it needs of <stdio.h> built in. */
