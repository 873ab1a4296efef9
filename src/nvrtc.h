/* NVIDIA's run-time compiler, found when it is first needed: the package neither links it nor needs it to load. */
#ifndef FUSEDMC_NVRTC_H
#define FUSEDMC_NVRTC_H

#include <stddef.h>

/* `where`: the path of the library, or "" to look for it. Zero with a reason in `why` where there is none. */
int fmc_nvrtc_version(const char *where, int version[2], char *why, size_t size);

typedef struct {
  char *code; /* a cubin or PTX; NULL where it could not be made */
  size_t code_bytes;
  char *log; /* the compiler's, or why there is no compiler; NULL where memory ran out */
} fmc_nvrtc_result;

/* Compiles CUDA C++ for a compute capability such as 90. What is in the result is freed by fmc_nvrtc_free(). */
void fmc_nvrtc_compile(const char *where, const char *text, int capability, const char *include_dir,
                       fmc_nvrtc_result *result);
void fmc_nvrtc_free(fmc_nvrtc_result *result);

#endif
