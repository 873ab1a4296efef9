/* Resampling on the GPU: all weights lie on the device at once, and the passes over them are kernels of their own. Read
 * by backend_cuda.cu alone. */

typedef struct {
  fmc_resample_job *job;
  resample_args args;
} resample_call;

/* Places a call's arrays in device memory, or with none measures them. */
static size_t place_resample(const fmc_resample_job *job, size_t n_tiles, char *device, resample_memory *out) {
  size_t used = 0, tiles = (n_tiles + 1) * sizeof(uint64_t);
  out->numbers = (uint64_t *)(device + next_part(&used, job->n_weights * sizeof(uint64_t)));
  out->copies =
      (uint64_t *)(device + next_part(&used, job->method == FMC_RESIDUAL ? job->n_weights * sizeof(uint64_t) : 0));
  out->tile_sums = (uint64_t *)(device + next_part(&used, tiles));
  out->tile_copies = (uint64_t *)(device + next_part(&used, tiles));
  out->tile_bad = (uint64_t *)(device + next_part(&used, tiles));
  out->tile_max = (double *)(device + next_part(&used, tiles));
  out->totals = (resample_totals *)(device + next_part(&used, sizeof(resample_totals)));
  return used;
}

/* A chunk of weights goes up; a chunk is whole tiles. */
static fmc_status start_weights_chunk(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const resample_call *call = (const resample_call *)what;
  const resample_memory *m = &call->args.memory;
  size_t tile = first / FMC_TILE;
  fmc_stage_in(call->job->weights, call->job->n_weights, 1, first, n, slot->pinned, 0, context->n_threads);
  TRY(cudaMemcpyAsync(m->numbers + first, slot->pinned, n * sizeof(double), cudaMemcpyHostToDevice, slot->stream));
  weight_range_kernel<<<(unsigned)((n + FMC_TILE - 1) / FMC_TILE), RS_THREADS, 0, slot->stream>>>(
      (const double *)m->numbers + first, n, call->job->is_log, m->tile_max + tile, m->tile_bad + tile);
  TRY(cudaGetLastError());
done:
  return status;
}

static fmc_status finish_weights_chunk(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  (void)what, (void)first, (void)n;
  TRY(cudaStreamSynchronize(slot->stream));
done:
  return status;
}

/* A chunk of draws is made and comes down. */
static fmc_status start_draws_chunk(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const resample_call *call = (const resample_call *)what;
  unsigned n_blocks = (unsigned)((n + RS_THREADS - 1) / RS_THREADS);
  size_t bytes = n * (call->job->indices ? sizeof(int) : sizeof(double));
  if (call->job->indices)
    resample_kernel<<<n_blocks, RS_THREADS, 0, slot->stream>>>(call->args, first, n, (int *)slot->device);
  else
    resample_kernel<<<n_blocks, RS_THREADS, 0, slot->stream>>>(call->args, first, n, (double *)slot->device);
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(slot->pinned, slot->device, bytes, cudaMemcpyDeviceToHost, slot->stream));
done:
  return status;
}

static fmc_status finish_draws_chunk(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const fmc_resample_job *job = ((const resample_call *)what)->job;
  TRY(cudaStreamSynchronize(slot->stream));
  if (job->indices)
    memcpy(job->indices + first, slot->pinned, n * sizeof(int));
  else
    memcpy(job->wide_indices + first, slot->pinned, n * sizeof(double));
done:
  return status;
}

/* The totals so far, on the host. */
static fmc_status fetch_totals(const resample_memory *m, resample_totals *out, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_slot *slot = &kept.slot[0];
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(slot->pinned, m->totals, sizeof *out, cudaMemcpyDeviceToHost, slot->stream));
  TRY(cudaStreamSynchronize(slot->stream));
  memcpy(out, slot->pinned, sizeof *out);
done:
  return status;
}

/* Whole weights and their sum, which stays 0 where weights are bad or all are zero. */
static fmc_status weigh_on_gpu(resample_call *call, resample_totals *totals, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_resample_job *job = call->job;
  const resample_memory *m = &call->args.memory;
  size_t n = job->n_weights, n_tiles = call->args.n_tiles;
  cudaStream_t stream = kept.slot[0].stream;
  fmc_weight_scale scale;
  join_range_kernel<<<1, RS_SCAN_THREADS, 0, stream>>>(m->tile_max, m->tile_bad, n_tiles, m->totals);
  TRY_STATUS(fetch_totals(m, totals, context));
  job->n_bad = (size_t)totals->n_bad;
  if (job->is_piece)
    totals->max = job->max;
  if (job->n_bad > 0 || totals->max == -FMC_INF)
    return FMC_OK;
  scale = fmc_weight_scale_of(totals->max, job->is_log, fmc_weight_bits(job->is_piece ? job->n_all : n));
  whole_weights_kernel<<<(unsigned)n_tiles, RS_THREADS, 0, stream>>>(m->numbers, n, scale, m->tile_sums);
  scan_tiles_kernel<<<1, RS_SCAN_THREADS, 0, stream>>>(m->tile_sums, n_tiles, &m->totals->sum);
  TRY_STATUS(fetch_totals(m, totals, context));
  job->sum = totals->sum;
done:
  return status;
}

/* Residual resampling: copies, and what is left as weights. */
static fmc_status split_residuals(resample_call *call, resample_totals *totals, fmc_context *context) {
  fmc_status status = FMC_OK;
  const fmc_resample_job *job = call->job;
  const resample_memory *m = &call->args.memory;
  size_t n = job->n_weights, n_tiles = call->args.n_tiles;
  cudaStream_t stream = kept.slot[0].stream;
  residual_kernel<<<(unsigned)n_tiles, RS_THREADS, 0, stream>>>(m->numbers, m->copies, n, call->args.plan,
                                                                m->tile_copies);
  scan_tiles_kernel<<<1, RS_SCAN_THREADS, 0, stream>>>(m->tile_copies, n_tiles, &m->totals->n_copies);
  TRY_STATUS(fetch_totals(m, totals, context));
  shift_kernel<<<(unsigned)n_tiles, RS_THREADS, 0, stream>>>(
      m->numbers, n, fmc_residual_shift(job->n - totals->n_copies, job->sum), m->tile_sums);
  scan_tiles_kernel<<<1, RS_SCAN_THREADS, 0, stream>>>(m->tile_sums, n_tiles, &m->totals->sum);
  cumulate_kernel<<<(unsigned)n_tiles, RS_THREADS, 0, stream>>>(m->copies, n, m->tile_copies);
  TRY_STATUS(fetch_totals(m, totals, context));
  call->args.n_copies = totals->n_copies;
  call->args.sum = totals->sum;
  call->args.plan = fmc_resample_plan_of(FMC_MULTINOMIAL, job->n - totals->n_copies, totals->sum, job->seed, job->step,
                                         job->offset + totals->n_copies);
done:
  return status;
}

static fmc_status resample_on_gpu(fmc_resample_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  resample_call call;
  resample_totals totals;
  chunks weights, draws;
  size_t index_bytes = job->indices ? sizeof(int) : sizeof(double),
         n_tiles = (job->n_weights + FMC_TILE - 1) / FMC_TILE;
  fmc_needs needs;

  memset(&call, 0, sizeof call);
  call.job = job;
  call.args.n_weights = job->n_weights;
  call.args.n_tiles = n_tiles;
  job->n_bad = 0;
  job->sum = 0;
  weights = plan_chunks(job->n_weights, sizeof(double), FMC_TILE, context);
  draws = plan_chunks(job->n ? job->n : 1, index_bytes, RS_THREADS, context);
  needs.n_slots = N_SLOTS;
  needs.device_bytes = draws.per_chunk * index_bytes;
  needs.pinned_bytes = weights.per_chunk * sizeof(double) + needs.device_bytes + sizeof totals;
  needs.parameter_bytes = place_resample(job, n_tiles, NULL, &call.args.memory);
  TRY_STATUS(reserve(&needs, context));
  place_resample(job, n_tiles, kept.parameters, &call.args.memory);
  TRY_STATUS(run_chunks(&weights, start_weights_chunk, finish_weights_chunk, &call, context));
  TRY_STATUS(weigh_on_gpu(&call, &totals, context));
  if (job->n == 0 || job->n_bad > 0 || (job->sum == 0 && !job->is_piece))
    return FMC_OK;
  call.args.base = job->is_piece ? job->base : 0;
  call.args.sum = job->sum;
  call.args.plan = fmc_resample_plan_of(job->method, job->n, job->is_piece ? job->total : job->sum, job->seed,
                                        job->step, job->offset);
  if (job->method == FMC_RESIDUAL)
    TRY_STATUS(split_residuals(&call, &totals, context));
  cumulate_kernel<<<(unsigned)n_tiles, RS_THREADS, 0, kept.slot[0].stream>>>(call.args.memory.numbers, job->n_weights,
                                                                             call.args.memory.tile_sums);
  TRY(cudaGetLastError());
  TRY(cudaStreamSynchronize(kept.slot[0].stream));
  TRY_STATUS(run_chunks(&draws, start_draws_chunk, finish_draws_chunk, &call, context));
done:
  return status;
}

static fmc_status resample(fmc_resample_job *job, fmc_context *context) {
  int before;
  fmc_status status = enter(context, &before);
  if (status != FMC_OK)
    return status;
  status = resample_on_gpu(job, context);
  leave(before);
  return status;
}
