/* A run on the GPU: the state goes up once, steps follow in launches of some 50 ms, draws come down while the next
 * launch runs, and the state comes back. Template over REAL; read by backend_cuda.cu alone. */

typedef struct {
  fmc_mh_run_job *job;
  T(run_args) args; /* n_steps, n_before and draws are those of a launch */
  T(run_parts) parts;
  int fused, standard;
  size_t state_from, state_to;                                /* what comes back, in the placement */
  size_t x, log_density, sums, range, n_accepted, not_finite; /* places */
} T(run_call);

/* A matrix of n_chains x n_dim out of one whose columns are `stride` long. */
static void T(place_matrix)(const double *from, size_t stride, size_t n, size_t n_dim, REAL *to) {
  for (size_t d = 0; d < n_dim; d++)
    for (size_t i = 0; i < n; i++)
      to[d * n + i] = (REAL)from[d * stride + i];
}

/* The state, and the sums; measured alone where there is no host memory yet. */
static void T(place_state)(T(run_call) * call, placement *to) {
  const fmc_mh_run_job *job = call->job;
  size_t n = job->n_chains, n_dim = job->n_dim, n_all = n * n_dim;
  T(run_args) *a = &call->args;
  a->shift = NULL;
  if (job->sums) {
    size_t at = next_place(to, n_dim * sizeof(double));
    if (to->host)
      memcpy(to->host + at, job->shift, n_dim * sizeof(double));
    a->shift = (const double *)(to->device + at);
  }
  call->state_from = to->used;
  call->x = next_place(to, n_all * sizeof(REAL));
  call->log_density = next_place(to, n * sizeof(REAL));
  call->sums = next_place(to, job->sums ? FMC_N_SUMS * n_all * sizeof(double) : 0);
  call->range = next_place(to, 2 * n_dim * sizeof(double));
  call->n_accepted = next_place(to, n * sizeof(unsigned));
  call->not_finite = next_place(to, sizeof(fmc_gpu_not_finite));
  call->state_to = to->used;
  a->x = (REAL *)(to->device + call->x);
  a->log_density = (REAL *)(to->device + call->log_density);
  a->sums = (double *)(to->device + call->sums);
  a->range = (double *)(to->device + call->range);
  a->n_accepted = (unsigned *)(to->device + call->n_accepted);
  a->not_finite = (fmc_gpu_not_finite *)(to->device + call->not_finite);
  if (!to->host)
    return;
  T(place_matrix)(job->x, job->stride, n, n_dim, (REAL *)(to->host + call->x));
  T(place_matrix)(job->log_density, n, n, 1, (REAL *)(to->host + call->log_density));
  for (size_t which = 0; job->sums && which < FMC_N_SUMS; which++)
    for (size_t d = 0; d < n_dim; d++)
      memcpy((double *)(to->host + call->sums) + which * n_all + d * n, job->sums + (which * n_dim + d) * job->stride,
             n * sizeof(double));
  for (size_t e = 0; job->sums && e < 2 * n_dim; e++)
    ((long long *)(to->host + call->range))[e] = host_ordered_bits(job->range[e]);
  memset(to->host + call->n_accepted, 0, n * sizeof(unsigned));
  fmc_gpu_not_finite none = {0, ~0ull};
  memcpy(to->host + call->not_finite, &none, sizeof none);
}

/* The other way, once the state has come back to where it was placed. */
static void T(take_state)(const T(run_call) * call, const placement *from) {
  fmc_mh_run_job *job = call->job;
  size_t n = job->n_chains, n_dim = job->n_dim, n_all = n * n_dim;
  const REAL *x = (const REAL *)(from->host + call->x), *log_density = (const REAL *)(from->host + call->log_density);
  const fmc_gpu_not_finite *bad = (const fmc_gpu_not_finite *)(from->host + call->not_finite);
  for (size_t d = 0; d < n_dim; d++)
    for (size_t i = 0; i < n; i++)
      job->x[d * job->stride + i] = x[d * n + i];
  for (size_t i = 0; i < n; i++) {
    job->log_density[i] = log_density[i];
    job->n_accepted[i] += ((const unsigned *)(from->host + call->n_accepted))[i];
  }
  for (size_t which = 0; job->sums && which < FMC_N_SUMS; which++)
    for (size_t d = 0; d < n_dim; d++)
      memcpy(job->sums + (which * n_dim + d) * job->stride,
             (const double *)(from->host + call->sums) + which * n_all + d * n, n * sizeof(double));
  for (size_t e = 0; job->sums && e < 2 * n_dim; e++)
    job->range[e] = host_from_ordered(((const long long *)(from->host + call->range))[e]);
  job->not_finite.n = (double)bad->n;
  job->not_finite.step = (uint32_t)(bad->first >> 32);
  job->not_finite.row = (size_t)(uint32_t)bad->first;
}

/* Parameters, then the state. */
static void T(place_run)(T(run_call) * call, placement *to, T(fmc_node) * nodes) {
  const fmc_mh_run_job *job = call->job;
  call->args.step_size = T(place_array)(job->step_size, job->cholesky ? job->n_dim * job->n_dim : job->n_dim, to);
  call->parts.target = T(place_density)(job->target, to, nodes);
  T(place_state)(call, to);
}

static int T(is_standard)(const fmc_node *node) {
  for (size_t d = 0; d < node->n_dim; d++)
    if (node->array[FMC_MIXTURE_MEAN][d] != 0 || node->array[FMC_MIXTURE_INV_SD][d] != 1)
      return 0;
  return node->count == 1;
}

static void T(choose_kernel)(T(run_call) * call) {
  const fmc_mh_run_job *job = call->job;
  call->fused = T(is_mixture)(&call->parts.target) && !job->cholesky && job->n_dim <= FMC_RUN_DIMS;
  if (!call->fused)
    return;
  call->standard = T(is_standard)(job->target->node);
  call->args.target = T(mixture_of)(&call->parts.target);
  call->fused = T(run_shared_bytes)(&call->args, call->standard) <= (size_t)kept.shared_bytes;
}

/* Where things lie in a slot's device memory: draws, and in the first slot what steps in parts need. */
typedef struct {
  size_t draws, x_new, scratch, log_density_other, all;
  T(stack_layout) stack;
} T(run_room);

static T(run_room) T(lay_out_run_room)(const T(run_call) * call, size_t draws_bytes) {
  T(run_room) at;
  size_t n = call->job->n_chains, matrix = n * call->job->n_dim * sizeof(REAL), used = 0;
  memset(&at, 0, sizeof at);
  at.draws = next_part(&used, draws_bytes);
  if (!call->fused) {
    at.x_new = next_part(&used, matrix);
    at.scratch = next_part(&used, call->job->cholesky ? matrix : 0);
    at.log_density_other = next_part(&used, n * sizeof(REAL));
    at.stack = T(lay_out_stack)(&call->parts.target, call->parts.target.depth, n, &used);
  }
  at.all = used;
  return at;
}

static void T(set_parts)(T(run_call) * call, const T(run_room) * at) {
  char *device = kept.slot[0].device;
  T(mh_args) *p = &call->parts.proposal;
  p->n_chains = call->job->n_chains;
  p->n_dim = call->job->n_dim;
  p->x = call->args.x;
  p->step_size = call->args.step_size;
  p->cholesky = call->job->cholesky;
  p->seed = call->job->seed;
  p->first_chain = call->job->chain_offset;
  p->x_new = (REAL *)(device + at->x_new);
  p->scratch = (REAL *)(device + at->scratch);
  call->parts.stack = T(stack_at)(&at->stack, device);
  call->parts.log_density_other = (REAL *)(device + at->log_density_other);
}

/* States kept, over all calls, once n_done steps of this one are done. */
static size_t T(n_kept_at)(const fmc_mh_run_job *job, size_t n_done) {
  return job->n_before + (job->since + n_done) / job->thin;
}

static fmc_status T(launch_steps)(T(run_call) * call, size_t from, size_t n_steps, fmc_slot *slot,
                                  const T(run_room) * at, fmc_context *context) {
  const fmc_mh_run_job *job = call->job;
  T(run_args) *a = &call->args;
  cudaStream_t stream = kept.slot[0].stream;
  a->n_steps = n_steps;
  a->first_step = job->first_step + (uint32_t)from;
  a->n_before = T(n_kept_at)(job, from);
  a->since = (job->since + from) % job->thin;
  a->draws = job->draws ? (REAL *)(slot->device + at->draws) : NULL;
  return call->fused ? T(launch_run)(a, call->standard, stream, context)
                     : T(launch_run_in_parts)(a, &call->parts, stream, context);
}

/* The run's launches. Draws of a launch are copied when it has ended, beside the next one. */
static fmc_status T(run_launches)(T(run_call) * call, size_t draws_per_launch, const T(run_room) * at,
                                  fmc_context *context) {
  fmc_status status = FMC_OK, ended = FMC_OK;
  fmc_mh_run_job *job = call->job;
  size_t draw_bytes = job->n_chains * job->n_dim * sizeof(REAL), n_stored = 0, waiting = 0;
  /* Steps of a launch: draws have room for so many, and a launch counts them in 31 bits. */
  size_t kept_most = job->draws ? draws_per_launch * job->store : (size_t)1 << 31, limit = (size_t)1 << 31;
  size_t most = kept_most < limit / job->thin ? kept_most * job->thin : limit;
  double ns_per_step = context->cpu_ns / (double)job->n_steps / GPU_SPEED + 1e-3;
  double steps = NS_PER_LAUNCH / 4 / ns_per_step, looked = seconds();
  int slot = 0;
  for (job->n_done = 0; job->n_done < job->n_steps || waiting > 0;) {
    size_t left = job->n_steps - job->n_done, n_now = 0, stored = 0;
    double start = seconds();
    if (left > 0 && ended == FMC_OK) {
      n_now = smaller(smaller(steps < 1 ? 1 : steps < (double)limit ? (size_t)steps : limit, most), left);
      size_t before = T(n_kept_at)(job, job->n_done), after = T(n_kept_at)(job, job->n_done + n_now);
      stored = job->draws ? after / job->store - before / job->store : 0;
      TRY_STATUS(T(launch_steps)(call, job->n_done, n_now, &kept.slot[slot], at, context));
    }
    if (waiting > 0) { /* those of the launch before, in the other slot */
      TRY(cudaStreamSynchronize(kept.slot[1].stream));
      fmc_stage_draws(kept.slot[1 - slot].pinned, waiting, job->n_chains, job->n_dim, job->draws + n_stored,
                      job->n_draws, job->stride, IS_SINGLE, context->n_threads);
      n_stored += waiting;
    }
    waiting = stored;
    TRY(cudaStreamSynchronize(kept.slot[0].stream));
    job->n_done += n_now;
    if (stored > 0) {
      TRY(cudaMemcpyAsync(kept.slot[slot].pinned, kept.slot[slot].device + at->draws, stored * draw_bytes,
                          cudaMemcpyDeviceToHost, kept.slot[1].stream));
      slot = 1 - slot;
    }
    double ns = (seconds() - start) * 1e9;
    if (n_now > 0)
      steps *= ns < NS_PER_LAUNCH / 4 ? 4 : NS_PER_LAUNCH / ns;
    if (ended != FMC_OK && waiting == 0)
      break;
    if (seconds() - looked > 0.05 && n_now > 0) {
      looked = seconds();
      if (context->progress)
        context->progress(job->n_done);
      if (job->n_done < job->n_steps && context->interrupted()) {
        ended = interrupted(context);
        if (waiting == 0)
          break;
      }
    }
  }
done:
  return status == FMC_OK ? ended : status;
}

static fmc_status T(mh_run)(fmc_mh_run_job *job, fmc_context *context) {
  fmc_status status = FMC_OK, ended;
  T(fmc_node) *nodes = (T(fmc_node) *)calloc(job->target->n_nodes, sizeof *nodes);
  placement to = {NULL, NULL, 0};
  size_t draw_bytes = job->n_chains * job->n_dim * sizeof(REAL), draws_per_launch = 0;
  T(run_call) call;
  T(run_room) at;
  REAL *log_density;

  memset(&call, 0, sizeof call);
  call.job = job;
  call.args.n_chains = job->n_chains;
  call.args.n_dim = job->n_dim;
  call.args.thin = job->thin;
  call.args.store = job->store;
  call.args.batch = job->batch;
  call.args.seed = job->seed;
  call.args.keys = fmc_keys_of(job->seed);
  call.args.hidden = hidden_numbers();
  call.args.first_chain = job->chain_offset;
  if (!nodes) {
    status = no_host_memory(context, job->target->n_nodes * sizeof *nodes);
    goto done;
  }
  T(place_run)(&call, &to, nodes);
  T(choose_kernel)(&call);
  if (job->draws)
    draws_per_launch = smaller(job->n_draws, DRAW_BYTES / draw_bytes > 0 ? DRAW_BYTES / draw_bytes : 1);
  at = T(lay_out_run_room)(&call, draws_per_launch * draw_bytes);
  TRY_STATUS(begin_placement(&to, job->draws ? 2 : 1, draws_per_launch * draw_bytes, at.all, context));
  TRY_STATUS(T(load_sources)(job->target, nodes, context));
  T(place_run)(&call, &to, nodes);
  T(choose_kernel)(&call);
  if (!call.fused)
    T(set_parts)(&call, &at);
  TRY_STATUS(T(bind_sources)(&call.parts.target, context));
  TRY_STATUS(send_placement(&to, context));
  log_density = call.args.log_density;

  ended = T(run_launches)(&call, draws_per_launch, &at, context);
  if (ended != FMC_OK && ended != FMC_ERROR_INTERRUPTED) {
    status = ended;
    goto done;
  }
  if (call.args.log_density != log_density) /* steps in parts may have left it in the other place */
    TRY(cudaMemcpyAsync(log_density, call.args.log_density, job->n_chains * sizeof(REAL), cudaMemcpyDeviceToDevice,
                        kept.slot[0].stream));
  TRY(cudaMemcpyAsync(to.host + call.state_from, kept.parameters + call.state_from, call.state_to - call.state_from,
                      cudaMemcpyDeviceToHost, kept.slot[0].stream));
  TRY(cudaStreamSynchronize(kept.slot[0].stream));
  T(take_state)(&call, &to);
  status = ended;
done:
  free(to.host);
  free(nodes);
  return status;
}
