/* No CUDA header is read here, so that every build has this: what is taken from nvrtc.h is declared below. */
#include "nvrtc.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct fmc_program *program; /* nvrtcProgram */

/* The library and what is used of it. It stays open once it is: its compiler cannot be unloaded safely. */
static struct {
  void *handle;
  char path[1024]; /* `where` of the library that is open */
  int (*version)(int *, int *);
  const char *(*error)(int);
  int (*n_archs)(int *);
  int (*archs)(int *);
  int (*create)(program *, const char *, const char *, int, const char *const *, const char *const *);
  int (*destroy)(program *);
  int (*compile)(program, int, const char *const *);
  int (*log_size)(program, size_t *);
  int (*log)(program, char *);
  int (*cubin_size)(program, size_t *);
  int (*cubin)(program, char *);
  int (*ptx_size)(program, size_t *);
  int (*ptx)(program, char *);
} nvrtc;

/* A function pointer from dlsym's object pointer, as POSIX wants it. */
static int find(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static int find_all(void *library) {
  return find(library, "nvrtcVersion", &nvrtc.version) && find(library, "nvrtcGetErrorString", &nvrtc.error) &&
         find(library, "nvrtcGetNumSupportedArchs", &nvrtc.n_archs) &&
         find(library, "nvrtcGetSupportedArchs", &nvrtc.archs) && find(library, "nvrtcCreateProgram", &nvrtc.create) &&
         find(library, "nvrtcDestroyProgram", &nvrtc.destroy) && find(library, "nvrtcCompileProgram", &nvrtc.compile) &&
         find(library, "nvrtcGetProgramLogSize", &nvrtc.log_size) && find(library, "nvrtcGetProgramLog", &nvrtc.log) &&
         find(library, "nvrtcGetCUBINSize", &nvrtc.cubin_size) && find(library, "nvrtcGetCUBIN", &nvrtc.cubin) &&
         find(library, "nvrtcGetPTXSize", &nvrtc.ptx_size) && find(library, "nvrtcGetPTX", &nvrtc.ptx);
}

static void *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library && !find_all(library)) {
    dlclose(library);
    library = NULL;
  }
  return library;
}

/* In a folder, or by the loader's own search where `folder` is NULL; the newest that is known first. */
static void *open_in(const char *folder, const char *below) {
  static const char *const names[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
  char path[1024];
  void *library = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++) {
    if (folder)
      snprintf(path, sizeof path, "%s/%s/%s", folder, below, names[i]);
    library = open_library(folder ? path : names[i]);
  }
  return library;
}

static void *open_in_toolkit(const char *folder) {
  void *library = NULL;
  if (!folder || !*folder)
    return NULL;
  library = open_in(folder, "lib64");
  return library ? library : open_in(folder, "lib");
}

static void *search(void) {
  void *library = open_in_toolkit(getenv("CUDA_HOME"));
  if (!library)
    library = open_in_toolkit(getenv("CUDA_PATH"));
  if (!library)
    library = open_in(NULL, NULL);
#ifdef FMC_CUDA_DIR
  if (!library)
    library = open_in_toolkit(FMC_CUDA_DIR);
#endif
  if (!library)
    library = open_in_toolkit("/usr/local/cuda");
  if (!library)
    library = open_in_toolkit("/opt/cuda");
  return library;
}

/* Opens the library, if it is not open. Zero with a reason where there is none. */
static int ready(const char *where, char *why, size_t size) {
  if (nvrtc.handle && !strcmp(nvrtc.path, where))
    return 1;
  void *library = *where ? open_library(where) : search();
  if (library) {
    nvrtc.handle = library;
    snprintf(nvrtc.path, sizeof nvrtc.path, "%s", where);
    return 1;
  }
  const char *error = dlerror();
  if (*where)
    snprintf(why, size, "%s is no NVRTC library of CUDA 12 or later (%s)", where, error ? error : "functions lack");
  else
    snprintf(
        why, size,
        "libnvrtc.so, the run-time compiler of the CUDA toolkit, is neither in CUDA_HOME, CUDA_PATH or /usr/local/cuda "
        "nor where the loader looks; options(fusedmc.nvrtc = \"<path>\") says where");
  if (nvrtc.handle)
    find_all(nvrtc.handle); /* a library that will not do may have left something behind */
  return 0;
}

int fmc_nvrtc_version(const char *where, int version[2], char *why, size_t size) {
  if (!ready(where, why, size))
    return 0;
  return nvrtc.version(&version[0], &version[1]) == 0;
}

/* The largest architecture that NVRTC knows and that is not above the capability; below 0: PTX of it. */
static int architecture(int capability) {
  int n = 0, best = 0, *archs;
  if (nvrtc.n_archs(&n) != 0 || n < 1)
    return capability;
  archs = malloc((size_t)n * sizeof *archs);
  if (!archs || nvrtc.archs(archs) != 0)
    best = capability;
  for (int i = 0; i < n && best != capability; i++)
    if (archs[i] <= capability && archs[i] > best)
      best = archs[i];
  free(archs);
  return best == capability ? best : -best;
}

static char *copy_of(const char *text) {
  char *copy = malloc(strlen(text) + 1);
  return copy ? strcpy(copy, text) : NULL;
}

static char *log_of(program compiled) {
  size_t size = 0;
  if (nvrtc.log_size(compiled, &size) != 0)
    return NULL;
  char *log = calloc(size + 1, 1);
  if (log)
    nvrtc.log(compiled, log);
  return log;
}

static void take_code(program compiled, int as_ptx, fmc_nvrtc_result *result) {
  size_t size = 0;
  if ((as_ptx ? nvrtc.ptx_size : nvrtc.cubin_size)(compiled, &size) != 0 || size == 0)
    return;
  result->code = malloc(size);
  if (result->code && (as_ptx ? nvrtc.ptx : nvrtc.cubin)(compiled, result->code) == 0) {
    result->code_bytes = size;
    return;
  }
  free(result->code);
  result->code = NULL;
}

void fmc_nvrtc_compile(const char *where, const char *text, int capability, const char *include_dir,
                       fmc_nvrtc_result *result) {
  char why[1024] = "", target[64], include[1100], standard[1100];
  const char *options[] = {target,
                           include,
                           standard,
                           "--fmad=false",
                           "--ftz=false",
                           "--prec-div=true",
                           "--prec-sqrt=true",
                           "--std=c++17",
                           "--device-as-default-execution-space"};
  program compiled = NULL;
  memset(result, 0, sizeof *result);
  if (!ready(where, why, sizeof why)) {
    result->log = copy_of(why);
    return;
  }
  int arch = architecture(capability);
  if (arch == 0) {
    snprintf(why, sizeof why, "NVRTC cannot compile for compute capability %d.%d", capability / 10, capability % 10);
    result->log = copy_of(why);
    return;
  }
  snprintf(target, sizeof target, "--gpu-architecture=%s_%d", arch < 0 ? "compute" : "sm", arch < 0 ? -arch : arch);
  snprintf(include, sizeof include, "-I%s", include_dir);
  snprintf(standard, sizeof standard, "-I%s/nvrtc", include_dir);
  int error = nvrtc.create(&compiled, text, "density.cu", 0, NULL, NULL);
  if (error == 0) {
    error = nvrtc.compile(compiled, (int)(sizeof options / sizeof *options), options);
    result->log = log_of(compiled);
    if (error == 0)
      take_code(compiled, arch < 0, result);
    nvrtc.destroy(&compiled);
  }
  if (error != 0 && (!result->log || !*result->log)) {
    free(result->log);
    result->log = copy_of(nvrtc.error(error));
  }
}

void fmc_nvrtc_free(fmc_nvrtc_result *result) {
  free(result->code);
  free(result->log);
  result->code = result->log = NULL;
}
