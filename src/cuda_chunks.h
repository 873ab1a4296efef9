/* How a call goes through the GPU: in chunks of rows, with parameters that all chunks share. Read by backend_cuda.cu
 * alone. */

/* How a call's rows fall into chunks, and after how many of them an interrupt is looked for. */
typedef struct {
  size_t n, per_chunk, n_chunks, n_slots, per_look;
} chunks;

/* What one CPU thread does in a second, the GPU does in some 5 ms, to a factor of a few. */
#define CPU_NS_PER_LOOK 1e10

/* From here on larger chunks are worth their memory: what a chunk costs the host counts for less. */
#define MANY_BYTES ((size_t)256 << 20)

/* Rows in a chunk: a multiple of `unit`, near SLOT_BYTES, in two chunks at least where there is enough to overlap, and
 * no more than are computed in about 50 ms. */
static chunks plan_chunks(size_t n, size_t bytes_per_row, size_t unit, const fmc_context *context) {
  size_t total = n * bytes_per_row, wanted = total < MANY_BYTES ? SLOT_BYTES : 4 * SLOT_BYTES;
  if (total < 2 * SLOT_BYTES)
    wanted = total / 2 > (SLOT_BYTES >> 4) ? total / 2 : total;
  size_t n_units = (wanted / bytes_per_row + unit - 1) / unit;
  double looks = context->cpu_ns / CPU_NS_PER_LOOK, rows = looks > 1 ? (double)n / looks : (double)n;
  if (rows < (double)n_units * (double)unit)
    n_units = (size_t)(rows / (double)unit);
  chunks plan;
  plan.n = n;
  plan.per_chunk = smaller(n, (n_units ? n_units : 1) * unit);
  plan.n_chunks = (n + plan.per_chunk - 1) / plan.per_chunk;
  plan.n_slots = smaller(plan.n_chunks, N_SLOTS);
  plan.per_look = looks > (double)plan.n_chunks / 8 ? 1 : 8;
  return plan;
}

static fmc_status interrupted(fmc_context *context) {
  snprintf(context->message, sizeof context->message, "interrupted");
  return FMC_ERROR_INTERRUPTED;
}

static fmc_status no_host_memory(fmc_context *context, size_t bytes) {
  context->bytes = bytes;
  snprintf(context->message, sizeof context->message, "cannot allocate %.0f bytes of host memory", (double)bytes);
  return FMC_ERROR_MEMORY;
}

typedef fmc_status (*chunk_function)(const void *call, size_t first, size_t n, fmc_slot *slot, fmc_context *context);

/* Starts every chunk, and finishes it when its slot is needed again. */
static fmc_status run_chunks(const chunks *plan, chunk_function start, chunk_function finish, const void *call,
                             fmc_context *context) {
  fmc_status status = FMC_OK;
  for (size_t chunk = 0; chunk < plan->n_chunks + N_SLOTS; chunk++) {
    fmc_slot *slot = &kept.slot[chunk % N_SLOTS];
    if (chunk >= N_SLOTS && chunk - N_SLOTS < plan->n_chunks) {
      size_t first = (chunk - N_SLOTS) * plan->per_chunk;
      TRY_STATUS(finish(call, first, smaller(plan->per_chunk, plan->n - first), slot, context));
    }
    if (chunk < plan->n_chunks) {
      size_t first = chunk * plan->per_chunk;
      if (chunk > 0 && chunk % plan->per_look == 0 && context->interrupted())
        TRY_STATUS(interrupted(context));
      TRY_STATUS(start(call, first, smaller(plan->per_chunk, plan->n - first), slot, context));
    }
  }
done:
  return status;
}

/* What all chunks share: put together on the host, or with no host only measured, and then sent. */
typedef struct {
  char *host, *device;
  size_t used;
} placement;

static size_t next_place(placement *to, size_t bytes) {
  size_t at = to->used;
  to->used = (at + bytes + 15) / 16 * 16;
  return at;
}

/* Places bytes as they are; NULL stays NULL. */
static const void *place_bytes(const void *from, size_t bytes, placement *to) {
  size_t at = next_place(to, from ? bytes : 0);
  if (!from)
    return NULL;
  if (to->host)
    memcpy(to->host + at, from, bytes);
  return to->device + at;
}

/* After everything has been placed once to learn its size: reserves what a call needs and begins anew. */
static fmc_status begin_placement(placement *to, size_t n_slots, size_t pinned_bytes, size_t device_bytes,
                                  fmc_context *context) {
  fmc_needs needs = {n_slots, pinned_bytes, device_bytes, to->used};
  to->host = (char *)malloc(to->used ? to->used : 1);
  if (!to->host)
    return no_host_memory(context, to->used);
  fmc_status status = reserve(&needs, context);
  to->device = kept.parameters;
  to->used = 0;
  return status;
}

/* Later work on any slot's stream finds it there. */
static fmc_status send_placement(const placement *to, fmc_context *context) {
  fmc_status status = FMC_OK;
  TRY(cudaMemcpyAsync(kept.parameters, to->host, to->used, cudaMemcpyHostToDevice, kept.slot[0].stream));
  TRY(cudaStreamSynchronize(kept.slot[0].stream));
done:
  return status;
}
