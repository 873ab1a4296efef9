/* Compiled densities on the GPU: modules of the driver's, their constants and their launches. Read by backend_cuda.cu
 * alone, after cuda_memory.h and cuda_chunks.h.
 *
 * A module is loaded from what NVRTC made and stays loaded. Its data are one struct in its constant memory, so two
 * densities of the same code in one call need a module each. */
#include <cuda.h>
#include <dlfcn.h>

#define N_MODULES 32 /* kept at most, and the most compiled densities that a call can have */

typedef struct {
  char key[128]; /* empty: no module here */
  int in_use;    /* by the call that runs */
  unsigned long long last_use;
  CUmodule module;
  CUfunction log_density, mh_step; /* no mh_step above FMC_SOURCE_STEP_DIMS dims */
  CUdeviceptr data;
  char *image; /* what `data` is to hold */
  size_t image_bytes;
} fmc_source_module;

/* Of each device; a call sees those of its own. */
static struct {
  unsigned long long n_uses;
  fmc_source_module module[N_MODULES];
} all_modules[MAX_DEVICES];
#define kept_modules all_modules[kept.device]

/* The driver's functions. */
static struct {
  int is_there;
  CUresult (*load)(CUmodule *, const void *);
  CUresult (*unload)(CUmodule);
  CUresult (*function)(CUfunction *, CUmodule, const char *);
  CUresult (*global)(CUdeviceptr *, size_t *, CUmodule, const char *);
  CUresult (*copy)(CUdeviceptr, const void *, size_t, CUstream);
  CUresult (*launch)(CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream,
                     void **, void **);
} driver;

static int find_in_driver(void *library, const char *name, void *function) {
  void *symbol = dlsym(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void look_for_driver(void) {
  void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  driver.is_there = library && find_in_driver(library, "cuModuleLoadData", &driver.load) &&
                    find_in_driver(library, "cuModuleUnload", &driver.unload) &&
                    find_in_driver(library, "cuModuleGetFunction", &driver.function) &&
                    find_in_driver(library, "cuModuleGetGlobal_v2", &driver.global) &&
                    find_in_driver(library, "cuMemcpyHtoDAsync_v2", &driver.copy) &&
                    find_in_driver(library, "cuLaunchKernel", &driver.launch);
}

/* The driver's library, which is there where there is a GPU to use; it is not linked. */
static fmc_status find_driver(fmc_context *context) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, look_for_driver);
  if (driver.is_there)
    return FMC_OK;
  snprintf(context->message, sizeof context->message, "the NVIDIA driver's library, libcuda.so.1, lacks functions");
  return FMC_ERROR_CUDA;
}

/* The driver's errors are the runtime's, by number. */
#define TRY_DRIVER(call)                                                                                               \
  do {                                                                                                                 \
    CUresult result_ = (call);                                                                                         \
    if (result_ != CUDA_SUCCESS) {                                                                                     \
      status = failed(context, (cudaError_t)result_, #call);                                                           \
      goto done;                                                                                                       \
    }                                                                                                                  \
  } while (0)

static void unload_module(fmc_source_module *module) {
  if (module->module)
    driver.unload(module->module);
  free(module->image);
  memset(module, 0, sizeof *module);
}

/* Unloads all modules. They belong to the device that is current. */
static void source_release(void) {
  for (int i = 0; i < N_MODULES; i++)
    unload_module(&kept_modules.module[i]);
}

/* At the end of a call: its modules may serve the next. */
static void source_end_call(void) {
  for (int i = 0; i < N_MODULES; i++)
    kept_modules.module[i].in_use = 0;
}

/* The place of a module for the key: one that has it, else an empty one, else the one that has been idle longest. */
static fmc_source_module *module_for(const char *key) {
  fmc_source_module *best = NULL;
  for (int i = 0; i < N_MODULES; i++) {
    fmc_source_module *module = &kept_modules.module[i];
    if (module->in_use)
      continue;
    if (module->key[0] && !strcmp(module->key, key))
      return module;
    if (!best || module->last_use < best->last_use)
      best = module;
  }
  return best;
}

static fmc_status load_module(const fmc_source *source, fmc_source_module *module, fmc_context *context) {
  fmc_status status = FMC_OK;
  unload_module(module);
  TRY_DRIVER(driver.load(&module->module, source->cubin));
  TRY_DRIVER(driver.function(&module->log_density, module->module, "fmc_source_log_density_kernel"));
  if (driver.function(&module->mh_step, module->module, "fmc_source_mh_step_kernel") != CUDA_SUCCESS)
    module->mh_step = NULL;
  TRY_DRIVER(driver.global(&module->data, &module->image_bytes, module->module, "fmc_data"));
  module->image = (char *)calloc(module->image_bytes, 1);
  if (!module->image)
    status = no_host_memory(context, module->image_bytes);
  snprintf(module->key, sizeof module->key, "%s", source->key);
done:
  if (status != FMC_OK)
    unload_module(module);
  return status;
}

/* A module for a density of the call that runs; another one for each time that the call asks. */
static fmc_status source_module(const fmc_source *source, fmc_source_module **out, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_source_module *module = module_for(source->key);
  TRY_STATUS(find_driver(context));
  if (!module) {
    snprintf(context->message, sizeof context->message, "a call takes at most %d densities in C", N_MODULES);
    return FMC_ERROR_CUDA;
  }
  if (strcmp(module->key, source->key))
    TRY_STATUS(load_module(source, module, context));
  module->in_use = 1;
  module->last_use = ++kept_modules.n_uses;
  *out = module;
done:
  return status;
}

/* Puts a value into the struct of the data, which source_text_gpu() in R declares; members lie as C lays them out. */
static void put_member(fmc_source_module *module, size_t *used, const void *value, size_t bytes) {
  size_t at = (*used + bytes - 1) / bytes * bytes;
  *used = at + bytes;
  if (module && *used <= module->image_bytes)
    memcpy(module->image + at, value, bytes);
}

static void put_number(fmc_source_module *module, size_t *used, double number, int single_precision, int in_float) {
  float rounded = (float)number;
  if (in_float) {
    put_member(module, used, &rounded, sizeof rounded);
    return;
  }
  number = single_precision ? (double)rounded : number;
  put_member(module, used, &number, sizeof number);
}

/* An array in the type that the code sees; its place on the device. */
static const void *place_item(const fmc_source_item *item, int single_precision, int in_float, placement *to) {
  size_t size = item->is_int ? sizeof(int) : in_float ? sizeof(float) : sizeof(double);
  size_t at = next_place(to, item->n * size);
  const double *from = (const double *)item->values;
  if (!to->host)
    return NULL;
  if (item->is_int || !single_precision)
    memcpy(to->host + at, item->values, item->n * size);
  else if (in_float)
    for (size_t i = 0; i < item->n; i++)
      ((float *)(to->host + at))[i] = (float)from[i];
  else
    for (size_t i = 0; i < item->n; i++)
      ((double *)(to->host + at))[i] = (double)(float)from[i];
  return to->device + at;
}

/* Places a density's arrays, and puts their addresses and the other data into the module's image. With no module, and a
 * placement that only measures, nothing is written. */
static void source_place(const fmc_source *source, int single_precision, placement *to, fmc_source_module *module) {
  size_t used = sizeof(int); /* a struct has a member even where there are no data */
  for (size_t k = 0; k < source->n_items; k++) {
    const fmc_source_item *item = source->items + k;
    int n = (int)item->n, nrow = (int)item->nrow, ncol = (int)item->ncol;
    if (item->is_scalar && item->is_int) {
      put_member(module, &used, item->values, sizeof(int));
    } else if (item->is_scalar) {
      put_number(module, &used, *(const double *)item->values, single_precision, source->in_float);
    } else {
      const void *array = place_item(item, single_precision, source->in_float, to);
      put_member(module, &used, &array, sizeof array);
      put_member(module, &used, &n, sizeof n);
      put_member(module, &used, &nrow, sizeof nrow);
      put_member(module, &used, &ncol, sizeof ncol);
    }
  }
}

/* Sends the image to the module's constant memory. It stays as it is until the module is placed anew. */
static fmc_status source_bind(const fmc_source_module *module, cudaStream_t stream, fmc_context *context) {
  fmc_status status = FMC_OK;
  TRY_DRIVER(driver.copy(module->data, module->image, module->image_bytes, stream));
done:
  return status;
}

static unsigned blocks_for(size_t n, size_t per_block, size_t most) {
  return (unsigned)smaller((n + per_block - 1) / per_block, most);
}

/* Log densities at n rows of x0 into out, and where there is an x1 at n rows of it into out + n. Columns are `stride`
 * long; all in the precision of the call. */
static fmc_status source_launch_log_density(const fmc_source_module *module, const void *x0, const void *x1,
                                            size_t stride, size_t n, void *out, cudaStream_t stream,
                                            fmc_context *context) {
  fmc_status status = FMC_OK;
  void *arguments[] = {&x0, &x1, &stride, &n, &out};
  unsigned grid = blocks_for(x1 ? 2 * n : n, 128, (size_t)kept.n_sms * 64);
  TRY_DRIVER(driver.launch(module->log_density, grid, 1, 1, 128, 1, 1, 0, stream, arguments, NULL));
done:
  return status;
}

/* Whether the module makes a whole step of `n_dim` dims, with noise from the generator and a step size per dim. */
static int source_has_step(const fmc_source_module *module) { return module->mh_step != NULL; }

static fmc_status source_launch_mh_step(const fmc_source_module *module, const fmc_source_mh_args *args, size_t n_dim,
                                        cudaStream_t stream, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_source_mh_args copy = *args;
  void *arguments[] = {&copy};
  unsigned width = 32, height = (unsigned)((n_dim + FMC_BLOCK - 1) / FMC_BLOCK), per_sm = 4;
  if (n_dim <= FMC_FEW_DIMS) {
    width = FMC_FEW_THREADS;
    height = 1;
  }
  unsigned grid = blocks_for(args->n_chains, width, (size_t)kept.n_sms * per_sm);
  TRY_DRIVER(driver.launch(module->mh_step, grid, 1, 1, width, height, 1, 0, stream, arguments, NULL));
done:
  return status;
}
