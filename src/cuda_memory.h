/* What the CUDA backend keeps between calls, and its errors. Read by backend_cuda.cu alone. */

#define N_SLOTS 2
#define SLOT_BYTES ((size_t)4 << 20)  /* aimed at: large enough for the bus, small enough to overlap */
#define KEEP_BYTES ((size_t)64 << 20) /* a slot larger than this is given back at the end of its call */

typedef struct {
  cudaStream_t stream;
  char *pinned, *device;
  size_t pinned_bytes, device_bytes;
} fmc_slot;

/* CUDA does not survive a fork, so the process is remembered. */
static struct {
  pid_t process; /* that used CUDA first; 0 before */
  int n_devices; /* -1 until asked */
  char why[256]; /* there are none */
} found = {0, -1, ""};

#define MAX_DEVICES 64

/* Kept between calls, for each device. A call holds `busy` of its device: calls of one device follow each other, those
 * of several may run at once, each in a thread of its own. */
typedef struct {
  pthread_mutex_t busy;
  int device, is_ready, n_sms, shared_bytes; /* is_ready: there are streams; shared_bytes: of a block at most */
  fmc_slot slot[N_SLOTS];
  char *parameters; /* device memory for what all chunks share */
  size_t parameter_bytes;
} fmc_kept;

static fmc_kept all_kept[MAX_DEVICES];
static __thread fmc_kept *kept_now = all_kept; /* of the call that this thread is in */
#define kept (*kept_now)

/* After some errors, such as an access out of bounds, CUDA answers every call of the process with the same error.
 * Nothing that was allocated can be given back then. */
static void lose_devices(cudaError_t error) {
  memset(kept.slot, 0, sizeof kept.slot);
  kept.parameters = NULL;
  kept.parameter_bytes = 0;
  kept.is_ready = 0;
  found.n_devices = 0;
  snprintf(found.why, sizeof found.why,
           "an earlier call failed on the GPU (%s), which ends CUDA in this R session: start a new session for it; "
           "backend = \"cpu\" still works here",
           cudaGetErrorString(error));
}

static fmc_status failed(fmc_context *context, cudaError_t error, const char *what) {
  snprintf(context->message, sizeof context->message, "%s failed: %s (%s)", what, cudaGetErrorString(error),
           cudaGetErrorName(error));
  cudaGetLastError(); /* an error that does not stick is over */
  if (cudaFree(NULL) != cudaSuccess) {
    lose_devices(error);
    snprintf(context->message, sizeof context->message,
             "a kernel failed: %s (%s). This ends CUDA in this R session: start a new session to use the GPU; "
             "backend = \"cpu\" still works here",
             cudaGetErrorString(error), cudaGetErrorName(error));
  }
  return FMC_ERROR_CUDA;
}

#define TRY(call)                                                                                                      \
  do {                                                                                                                 \
    cudaError_t error_ = (call);                                                                                       \
    if (error_ != cudaSuccess) {                                                                                       \
      status = failed(context, error_, #call);                                                                         \
      goto done;                                                                                                       \
    }                                                                                                                  \
  } while (0)

#define TRY_STATUS(call)                                                                                               \
  do {                                                                                                                 \
    status = (call);                                                                                                   \
    if (status != FMC_OK)                                                                                              \
      goto done;                                                                                                       \
  } while (0)

static int forked(void) { return found.process != 0 && found.process != getpid(); }

static const char *const why_forked = "CUDA was used before this process was forked and cannot be used in it; use "
                                      "backend = \"cpu\" there, or processes that are started afresh";

int fmc_cuda_n_devices(char *why, size_t size) {
  if (forked()) {
    snprintf(why, size, "%s", why_forked);
    return 0;
  }
  if (found.n_devices < 0) {
    int driver = 0;
    found.process = getpid();
    cudaError_t error = cudaDriverGetVersion(&driver);
    if (error == cudaSuccess && driver == 0) {
      snprintf(found.why, sizeof found.why, "there is no NVIDIA driver");
      found.n_devices = 0;
    } else if ((error = cudaGetDeviceCount(&found.n_devices)) != cudaSuccess || found.n_devices == 0) {
      const char *text = error == cudaSuccess ? "no device" : cudaGetErrorString(error);
      snprintf(found.why, sizeof found.why, "the NVIDIA driver offers no GPU (%s)", text);
      found.n_devices = 0;
      cudaGetLastError();
    }
  }
  snprintf(why, size, "%s", found.why);
  return found.n_devices;
}

int fmc_cuda_toolkit_version(void) { return CUDART_VERSION; }

int fmc_cuda_driver_version(void) {
  int version = 0;
  if (forked() || cudaDriverGetVersion(&version) != cudaSuccess)
    return 0;
  return version;
}

/* Whether `device` is one; says why where it is not. */
static fmc_status check_device(int device, fmc_context *context) {
  int n = fmc_cuda_n_devices(context->message, sizeof context->message);
  if (n == 0)
    return FMC_ERROR_CUDA;
  if (device < 0 || device >= n || device >= MAX_DEVICES) {
    snprintf(context->message, sizeof context->message, "device %d is not one of 0 to %d", device, n - 1);
    return FMC_ERROR_DEVICE;
  }
  return FMC_OK;
}

fmc_status fmc_cuda_device(int device, fmc_device *out, fmc_context *context) {
  cudaDeviceProp properties;
  fmc_status status = check_device(device, context);
  if (status != FMC_OK)
    return status;
  TRY(cudaGetDeviceProperties(&properties, device));
  memset(out, 0, sizeof *out);
  snprintf(out->name, sizeof out->name, "%s", properties.name);
  out->memory_bytes = (double)properties.totalGlobalMem;
  out->major = properties.major;
  out->minor = properties.minor;
done:
  return status;
}

/* Matrices that stay; see cuda_resident.h. */
static void release_residents(void);

/* Of compiled densities; see cuda_source.h. */
static void source_release(void);
static void source_end_call(void);

static void release_slot(fmc_slot *slot) {
  cudaFreeHost(slot->pinned);
  cudaFree(slot->device);
  slot->pinned = slot->device = NULL;
  slot->pinned_bytes = slot->device_bytes = 0;
}

static void release_memory(void) {
  for (int s = 0; s < N_SLOTS; s++)
    release_slot(&kept.slot[s]);
  cudaFree(kept.parameters);
  kept.parameters = NULL;
  kept.parameter_bytes = 0;
}

static void init_kept(void) {
  for (int device = 0; device < MAX_DEVICES; device++) {
    pthread_mutex_init(&all_kept[device].busy, NULL);
    all_kept[device].device = device;
  }
}

void fmc_cuda_release(void) {
  int before = 0;
  if (forked() || found.process == 0)
    return;
  release_residents();
  for (int device = 0; device < MAX_DEVICES; device++) {
    kept_now = &all_kept[device];
    if (!kept.is_ready)
      continue;
    cudaGetDevice(&before);
    cudaSetDevice(device);
    release_memory();
    source_release();
    for (int s = 0; s < N_SLOTS; s++) {
      cudaStreamDestroy(kept.slot[s].stream);
      kept.slot[s].stream = NULL;
    }
    kept.is_ready = 0;
    cudaSetDevice(before);
    cudaGetLastError();
  }
}

/* Waits for the device, makes it current and its streams ready; the caller's device comes back in *before. leave() must
 * follow where this is FMC_OK. */
static fmc_status enter(fmc_context *context, int *before) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  fmc_status status = check_device(context->device, context);
  *before = -1;
  if (status != FMC_OK)
    return status;
  pthread_once(&once, init_kept);
  kept_now = &all_kept[context->device];
  pthread_mutex_lock(&kept.busy);
  TRY(cudaGetDevice(before));
  TRY(cudaSetDevice(context->device));
  if (!kept.is_ready) {
    TRY(cudaDeviceGetAttribute(&kept.n_sms, cudaDevAttrMultiProcessorCount, context->device));
    TRY(cudaDeviceGetAttribute(&kept.shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, context->device));
    for (int s = 0; s < N_SLOTS; s++)
      if (!kept.slot[s].stream)
        TRY(cudaStreamCreateWithFlags(&kept.slot[s].stream, cudaStreamNonBlocking));
    kept.is_ready = 1;
  }
done:
  if (status != FMC_OK) {
    if (*before >= 0)
      cudaSetDevice(*before);
    pthread_mutex_unlock(&kept.busy);
  }
  return status;
}

/* After enter() was FMC_OK. */
static void leave(int before) {
  source_end_call();
  for (int s = 0; s < N_SLOTS; s++) {
    if (kept.slot[s].stream)
      cudaStreamSynchronize(kept.slot[s].stream);
    if (kept.slot[s].device_bytes > KEEP_BYTES)
      release_slot(&kept.slot[s]);
  }
  if (kept.parameter_bytes > KEEP_BYTES) {
    cudaFree(kept.parameters);
    kept.parameters = NULL;
    kept.parameter_bytes = 0;
  }
  if (before >= 0)
    cudaSetDevice(before);
  cudaGetLastError();
  pthread_mutex_unlock(&kept.busy);
}

static cudaError_t allocate_device(void **memory, size_t bytes) { return cudaMalloc(memory, bytes); }
static cudaError_t allocate_pinned(void **memory, size_t bytes) {
  return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

static fmc_status allocate(cudaError_t (*how)(void **, size_t), char **memory, size_t bytes, fmc_context *context) {
  void *got = NULL;
  cudaError_t error = how(&got, bytes);
  *memory = (char *)got;
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    context->bytes = bytes;
    snprintf(context->message, sizeof context->message, "cannot allocate %.0f bytes (%.3f GB) of %s memory",
             (double)bytes, (double)bytes / 1e9, how == allocate_device ? "GPU" : "pinned host");
    return FMC_ERROR_MEMORY;
  }
  return error == cudaSuccess ? FMC_OK : failed(context, error, "memory allocation");
}

/* Makes a buffer at least this large; what it held is gone. */
static fmc_status grow(cudaError_t (*how)(void **, size_t), char **memory, size_t *has, size_t bytes,
                       fmc_context *context) {
  if (bytes <= *has)
    return FMC_OK;
  if (how == allocate_device)
    cudaFree(*memory);
  else
    cudaFreeHost(*memory);
  *memory = NULL;
  *has = 0;
  fmc_status status = allocate(how, memory, bytes, context);
  if (status == FMC_OK)
    *has = bytes;
  return status;
}

/* What a call needs: slots for its chunks and room for its parameters. */
typedef struct {
  size_t n_slots, pinned_bytes, device_bytes, parameter_bytes;
} fmc_needs;

static fmc_status try_reserve(const fmc_needs *needs, fmc_context *context) {
  fmc_status status = FMC_OK;
  TRY_STATUS(grow(allocate_device, &kept.parameters, &kept.parameter_bytes, needs->parameter_bytes, context));
  for (size_t s = 0; s < needs->n_slots; s++) {
    fmc_slot *slot = &kept.slot[s];
    TRY_STATUS(grow(allocate_pinned, &slot->pinned, &slot->pinned_bytes, needs->pinned_bytes, context));
    TRY_STATUS(grow(allocate_device, &slot->device, &slot->device_bytes, needs->device_bytes, context));
  }
done:
  return status;
}

/* Where memory has run out, gives back all that is kept and what R no longer needs, and tries once more. */
static fmc_status reserve(const fmc_needs *needs, fmc_context *context) {
  fmc_status status = try_reserve(needs, context);
  if (status != FMC_ERROR_MEMORY)
    return status;
  release_memory();
  context->reclaim();
  return try_reserve(needs, context);
}

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* The place of the next array in a buffer. Arrays of doubles come first in a part, so none needs room before it and a
 * part is copied whole. */
static size_t take(size_t *used, size_t bytes) {
  size_t at = *used;
  *used += bytes;
  return at;
}

#define PART_ALIGN 256

/* The first array of a part, which starts on a multiple of PART_ALIGN. */
static size_t next_part(size_t *used, size_t bytes) {
  *used = (*used + PART_ALIGN - 1) / PART_ALIGN * PART_ALIGN;
  return take(used, bytes);
}
