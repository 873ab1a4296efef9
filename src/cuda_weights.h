/* Calls on the GPU that weigh or evaluate; see cuda_calls.h. Template over REAL; read by backend_cuda.cu. */

typedef struct {
  const fmc_is_job *job;
  T(program) target, proposal;
} T(is_call);

typedef struct {
  size_t x, given, up, log_weights, tiles, down, all;
  T(stack_layout) stack;
} T(is_layout);

static int T(is_fused)(const T(is_call) * call) {
  return call->job->n_dim <= FMC_REGISTER_DIMS && T(is_mixture)(&call->target) && T(is_mixture)(&call->proposal);
}

/* Log weights come down only where they are wanted; `tiles` is the last part that comes down. */
static T(is_layout) T(lay_out_is)(const T(is_call) * call, size_t n) {
  T(is_layout) at;
  const fmc_is_job *job = call->job;
  size_t n_dim = job->samples ? job->n_dim : 0, n_tiles = (n + FMC_TILE - 1) / FMC_TILE, used = 0;
  at.given = take(&used, job->given_log_weights ? n * sizeof(double) : 0);
  at.x = take(&used, n * n_dim * sizeof(REAL));
  at.up = used;
  at.log_weights = next_part(&used, job->given_log_weights ? 0 : n * sizeof(double));
  at.tiles = take(&used, n_tiles * (FMC_SUMMARY_COLUMNS + n_dim) * sizeof(double));
  at.down = used;
  if (!job->given_log_weights && !T(is_fused)(call)) {
    size_t target = T(segments)(&call->target, n), proposal = T(segments)(&call->proposal, n);
    int depth = call->target.depth > 1 + call->proposal.depth ? call->target.depth : 1 + call->proposal.depth;
    at.stack = T(lay_out_stack)(target > proposal ? &call->target : &call->proposal, depth, n, &used);
  }
  at.all = used;
  return at;
}

static fmc_status T(launch_log_weights_of)(const T(is_call) * call, const T(is_layout) * at, const REAL *x, size_t n,
                                           double *log_weights, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  if (T(is_fused)(call)) {
    T(log_weights_args)
    args = {n, call->job->n_dim, x, T(mixture_of)(&call->target), T(mixture_of)(&call->proposal), log_weights};
    T(launch_log_weights)(&args, slot->stream);
    return FMC_OK;
  }
  T(points) points = {n, n, x, NULL};
  T(stack) stack = T(stack_at)(&at->stack, slot->device);
  TRY_STATUS(T(launch_program)(&call->target, &points, &stack, 0, slot->stream, context));
  TRY_STATUS(T(launch_program)(&call->proposal, &points, &stack, 1, slot->stream, context));
  T(ratio_kernel)<<<(unsigned)smaller((n + 255) / 256, 1u << 20), 256, 0, slot->stream>>>(stack.value, stack.value + n,
                                                                                          n, log_weights);
done:
  return status;
}

static fmc_status T(start_is_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const T(is_call) *call = (const T(is_call) *)what;
  const fmc_is_job *job = call->job;
  T(is_layout) at = T(lay_out_is)(call, n);
  T(tile_sums_args) sums;
  size_t back = job->log_weights && !job->given_log_weights ? at.log_weights : at.tiles;
  if (job->samples)
    fmc_stage_in(job->samples, job->n, job->n_dim, first, n, slot->pinned + at.x, IS_SINGLE, context->n_threads);
  if (job->given_log_weights)
    memcpy(slot->pinned + at.given, job->given_log_weights + first, n * sizeof(double));
  TRY(cudaMemcpyAsync(slot->device, slot->pinned, at.up, cudaMemcpyHostToDevice, slot->stream));
  sums.n = n;
  sums.n_dim = job->samples ? job->n_dim : 0;
  sums.x = (const REAL *)(slot->device + at.x);
  sums.log_weights = (const double *)(slot->device + at.given);
  sums.first_tile = first / FMC_TILE;
  sums.tiles = (double *)(slot->device + at.tiles);
  if (!job->given_log_weights) {
    double *log_weights = (double *)(slot->device + at.log_weights);
    sums.log_weights = log_weights;
    TRY_STATUS(T(launch_log_weights_of)(call, &at, sums.x, n, log_weights, slot, context));
    TRY(cudaGetLastError());
  }
  T(launch_tile_sums)(&sums, slot->stream);
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(slot->pinned + back, slot->device + back, at.down - back, cudaMemcpyDeviceToHost, slot->stream));
done:
  return status;
}

static fmc_status T(finish_is_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const T(is_call) *call = (const T(is_call) *)what;
  const fmc_is_job *job = call->job;
  T(is_layout) at = T(lay_out_is)(call, n);
  size_t width = fmc_is_summary_width(job->summary), n_tiles = (n + FMC_TILE - 1) / FMC_TILE;
  double *tiles = (double *)(slot->pinned + at.tiles);
  TRY(cudaStreamSynchronize(slot->stream));
  if (job->log_weights)
    fmc_stage_out(slot->pinned + (job->given_log_weights ? at.given : at.log_weights), job->log_weights, job->n, 1,
                  first, n, 0, context->n_threads);
  for (size_t t = 0; t < n_tiles; t++, tiles += width)
    if (!fmc_is_summary_push(job->summary, tiles))
      TRY_STATUS(no_host_memory(context, width * sizeof(double)));
done:
  return status;
}

static void T(place_is)(T(is_call) * call, placement *to, T(fmc_node) * nodes) {
  const fmc_is_job *job = call->job;
  if (job->given_log_weights)
    return;
  call->target = T(place_density)(job->target, to, nodes);
  call->proposal = T(place_density)(job->proposal, to, nodes + job->target->n_nodes);
}

static fmc_status T(is_weights)(fmc_is_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n_dim = job->samples ? job->n_dim : 0;
  size_t n_nodes = job->given_log_weights ? 0 : job->target->n_nodes + job->proposal->n_nodes;
  T(fmc_node) *nodes = (T(fmc_node) *)malloc((n_nodes + 1) * sizeof *nodes);
  placement to = {NULL, NULL, 0};
  T(is_call) call;
  T(is_layout) at;
  chunks plan;

  memset(&call, 0, sizeof call);
  call.job = job;
  job->first_bad = FMC_NO_SAMPLE;
  if (!nodes) {
    status = no_host_memory(context, n_nodes * sizeof *nodes);
    goto done;
  }
  T(place_is)(&call, &to, nodes);
  plan = plan_chunks(job->n, n_dim * sizeof(REAL) + sizeof(double), FMC_TILE, context);
  at = T(lay_out_is)(&call, plan.per_chunk);
  TRY_STATUS(begin_placement(&to, plan.n_slots, at.down, at.all, context));
  if (!job->given_log_weights) {
    TRY_STATUS(T(load_sources)(job->target, nodes, context));
    TRY_STATUS(T(load_sources)(job->proposal, nodes + job->target->n_nodes, context));
  }
  T(place_is)(&call, &to, nodes);
  TRY_STATUS(T(bind_sources)(&call.target, context));
  TRY_STATUS(T(bind_sources)(&call.proposal, context));
  TRY_STATUS(send_placement(&to, context));
  TRY_STATUS(run_chunks(&plan, T(start_is_chunk), T(finish_is_chunk), &call, context));
done:
  free(to.host);
  free(nodes);
  return status;
}

typedef struct {
  const fmc_log_density_job *job;
  T(program) density;
} T(log_density_call);

static T(stack_layout) T(lay_out_log_density)(const T(log_density_call) * call, size_t n, size_t *all) {
  *all = n * call->job->n_dim * sizeof(REAL);
  return T(lay_out_stack)(&call->density, call->density.depth, n, all);
}

/* The first level of the stack comes back over the points in pinned memory: the copies of a stream keep their order. */
static fmc_status T(start_log_density_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot,
                                             fmc_context *context) {
  fmc_status status = FMC_OK;
  const T(log_density_call) *call = (const T(log_density_call) *)what;
  const fmc_log_density_job *job = call->job;
  size_t all;
  T(stack_layout) at = T(lay_out_log_density)(call, n, &all);
  T(points) points = {n, n, (const REAL *)slot->device, NULL};
  T(stack) stack = T(stack_at)(&at, slot->device);
  fmc_stage_in(job->x, job->n, job->n_dim, first, n, slot->pinned, IS_SINGLE, context->n_threads);
  TRY(cudaMemcpyAsync(slot->device, slot->pinned, n * job->n_dim * sizeof(REAL), cudaMemcpyHostToDevice, slot->stream));
  TRY_STATUS(T(launch_program)(&call->density, &points, &stack, 0, slot->stream, context));
  TRY(cudaMemcpyAsync(slot->pinned, stack.value, n * sizeof(REAL), cudaMemcpyDeviceToHost, slot->stream));
done:
  return status;
}

static fmc_status T(finish_log_density_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot,
                                              fmc_context *context) {
  fmc_status status = FMC_OK;
  const fmc_log_density_job *job = ((const T(log_density_call) *)what)->job;
  TRY(cudaStreamSynchronize(slot->stream));
  fmc_stage_out(slot->pinned, job->log_density, job->n, 1, first, n, IS_SINGLE, 1);
done:
  return status;
}

static fmc_status T(log_density)(const fmc_log_density_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  T(fmc_node) *nodes = (T(fmc_node) *)malloc(job->density->n_nodes * sizeof *nodes);
  placement to = {NULL, NULL, 0};
  T(log_density_call) call = {job};
  chunks plan;
  size_t all;

  if (!nodes) {
    status = no_host_memory(context, job->density->n_nodes * sizeof *nodes);
    goto done;
  }
  call.density = T(place_density)(job->density, &to, nodes);
  plan = plan_chunks(job->n, job->n_dim * sizeof(REAL), 32, context);
  T(lay_out_log_density)(&call, plan.per_chunk, &all);
  TRY_STATUS(begin_placement(&to, plan.n_slots, plan.per_chunk * job->n_dim * sizeof(REAL), all, context));
  TRY_STATUS(T(load_sources)(job->density, nodes, context));
  call.density = T(place_density)(job->density, &to, nodes);
  TRY_STATUS(T(bind_sources)(&call.density, context));
  TRY_STATUS(send_placement(&to, context));
  TRY_STATUS(run_chunks(&plan, T(start_log_density_chunk), T(finish_log_density_chunk), &call, context));
done:
  free(to.host);
  free(nodes);
  return status;
}
