/* Matrices that stay on a GPU. Read by backend_cuda.cu alone.
 *
 * They are made and freed by R's thread alone. They are freed whenever R collects garbage, also within a call that has
 * run out of memory and holds its device, so freeing takes no lock. */

#define RESIDENT_ALIGN 64 /* numbers: columns start on 256 bytes */

static fmc_resident *residents = NULL; /* all that there are, by `next` */
static size_t resident_bytes[MAX_DEVICES];
static size_t bytes_since_collection = 0;

static void forget_resident(fmc_resident *resident) {
  for (fmc_resident **at = &residents; *at; at = &(*at)->next)
    if (*at == resident) {
      *at = resident->next;
      break;
    }
  resident->next = NULL;
}

void fmc_cuda_free_resident(fmc_resident *resident) {
  int before = -1;
  if (!resident->values || forked())
    return;
  if (cudaGetDevice(&before) == cudaSuccess && cudaSetDevice(resident->device) == cudaSuccess)
    cudaFree(resident->values);
  if (before >= 0)
    cudaSetDevice(before);
  cudaGetLastError();
  forget_resident(resident);
  resident_bytes[resident->device] -= resident->bytes;
  resident->values = NULL;
}

static void release_residents(void) {
  while (residents)
    fmc_cuda_free_resident(residents);
}

double fmc_cuda_resident_bytes(int device) {
  return device < 0 || device >= MAX_DEVICES ? 0 : (double)resident_bytes[device];
}

/* R does not see how much these matrices hold, and so would not think of collecting those that nobody can reach: it is
 * told to when an eighth of the GPU's memory has been taken since the last time. */
static fmc_status allocate_resident(fmc_resident *resident, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t unused, total;
  TRY(cudaMemGetInfo(&unused, &total));
  if (bytes_since_collection + resident->bytes > total / 8) {
    context->reclaim();
    bytes_since_collection = 0;
  }
  status = allocate(allocate_device, (char **)&resident->values, resident->bytes, context);
  if (status == FMC_ERROR_MEMORY) {
    release_memory();
    context->reclaim();
    bytes_since_collection = 0;
    status = allocate(allocate_device, (char **)&resident->values, resident->bytes, context);
  }
  if (status != FMC_OK)
    goto done;
  resident->next = residents;
  residents = resident;
  resident_bytes[resident->device] += resident->bytes;
  bytes_since_collection += resident->bytes;
done:
  return status;
}

/* A copy of a matrix to or from the GPU, in chunks of rows. */
typedef struct {
  const fmc_resident *resident;
  const double *from;
  double *to;
} resident_copy;

static size_t resident_number(const fmc_resident *resident) {
  return resident->single_precision ? sizeof(float) : sizeof(double);
}

/* Starts the copy of rows first .. first + n - 1 from a slot's pinned memory, or back to it; there columns are n
 * numbers long. CUDA copies matrices only up to a distance of columns that fits an int; beyond it they go one by one.
 */
static fmc_status copy_rows(const fmc_resident *r, size_t first, size_t n, fmc_slot *slot, int up,
                            fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t number = resident_number(r), pitch = r->stride * number, width = n * number;
  size_t at_once = pitch <= INT_MAX ? r->n_dim : 1;
  cudaMemcpyKind kind = up ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost;
  for (size_t d = 0; d < r->n_dim; d += at_once) {
    char *there = (char *)r->values + first * number + d * pitch, *here = slot->pinned + d * width;
    if (at_once == 1)
      TRY(cudaMemcpyAsync(up ? there : here, up ? here : there, width, kind, slot->stream));
    else if (up)
      TRY(cudaMemcpy2DAsync(there, pitch, here, width, width, at_once, kind, slot->stream));
    else
      TRY(cudaMemcpy2DAsync(here, width, there, pitch, width, at_once, kind, slot->stream));
  }
done:
  return status;
}

static fmc_status start_upload(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  const resident_copy *copy = (const resident_copy *)what;
  const fmc_resident *r = copy->resident;
  fmc_stage_in(copy->from, r->n, r->n_dim, first, n, slot->pinned, r->single_precision, context->n_threads);
  return copy_rows(r, first, n, slot, 1, context);
}

static fmc_status finish_upload(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  (void)what, (void)first, (void)n;
  TRY(cudaStreamSynchronize(slot->stream));
done:
  return status;
}

static fmc_status start_download(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  return copy_rows(((const resident_copy *)what)->resident, first, n, slot, 0, context);
}

static fmc_status finish_download(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const resident_copy *copy = (const resident_copy *)what;
  const fmc_resident *r = copy->resident;
  TRY(cudaStreamSynchronize(slot->stream));
  fmc_stage_out(slot->pinned, copy->to, r->n, r->n_dim, first, n, r->single_precision, context->n_threads);
done:
  return status;
}

static fmc_status copy_resident(const resident_copy *copy, chunk_function start, chunk_function finish,
                                fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t bytes_per_row = copy->resident->n_dim * resident_number(copy->resident);
  chunks plan = plan_chunks(copy->resident->n, bytes_per_row, 32, context);
  fmc_needs needs = {plan.n_slots, plan.per_chunk * bytes_per_row, 0, 0};
  TRY_STATUS(reserve(&needs, context));
  TRY_STATUS(run_chunks(&plan, start, finish, copy, context));
done:
  return status;
}

fmc_status fmc_cuda_upload(const double *x, fmc_resident *resident, fmc_context *context) {
  int before;
  fmc_status status = enter(context, &before);
  resident_copy copy = {resident, x, NULL};
  if (status != FMC_OK)
    return status;
  resident->device = context->device;
  resident->stride = (resident->n + RESIDENT_ALIGN - 1) / RESIDENT_ALIGN * RESIDENT_ALIGN;
  resident->bytes = resident->stride * resident->n_dim * resident_number(resident);
  if (resident->n == 0)
    goto done;
  TRY_STATUS(allocate_resident(resident, context));
  if (resident->stride > resident->n) { /* the fused kernel reads past the last sample, up to 16 bytes */
    TRY(cudaMemset(resident->values, 0, resident->bytes));
    TRY(cudaStreamSynchronize(0)); /* the copies' streams do not wait for this one */
  }
  TRY_STATUS(copy_resident(&copy, start_upload, finish_upload, context));
done:
  if (status != FMC_OK)
    fmc_cuda_free_resident(resident);
  leave(before);
  return status;
}

fmc_status fmc_cuda_download(const fmc_resident *resident, double *x, fmc_context *context) {
  int before;
  resident_copy copy = {resident, NULL, x};
  context->device = resident->device;
  fmc_status status = enter(context, &before);
  if (status != FMC_OK)
    return status;
  if (resident->n > 0)
    status = copy_resident(&copy, start_download, finish_download, context);
  leave(before);
  return status;
}
