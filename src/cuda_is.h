/* Importance sampling on the GPU: chunks of samples that are copied in, lie there or are drawn there, weighed, and
 * summed over tiles; see backend.h. Where cuda_is_fused.h has no kernel for a call, each of these is a kernel of its
 * own. Template over REAL; read by backend_cuda.cu alone. */

typedef struct {
  fmc_is_job *job;
  T(program) target, proposal; /* not where log weights are given */
  T(fmc_draw_plan) plan;
  const double *shift;
  size_t n_dim, width, per_chunk, room; /* width: of a row; room: for log weights of the tail */
  int fused;
  is_layout at;
} T(is_call);

static int T(is_weighed)(const fmc_is_job *job) { return job->target && !job->given_log_weights; }

/* Both densities in registers: a kernel for the log weights alone. */
static int T(weighs_in_registers)(const T(is_call) * call) {
  return call->n_dim <= FMC_REGISTER_DIMS && T(is_mixture)(&call->target) && T(is_mixture)(&call->proposal);
}

/* Whether the fused kernel does the call. Few tiles that are read would leave most of the GPU idle there. */
static int T(can_fuse)(const T(is_call) * call) {
  const fmc_is_job *job = call->job;
  const fmc_drawing *drawing = job->drawing;
  if (!T(is_weighed)(job) || !job->summary || job->draws || call->n_dim > FMC_FEW_DIMS ||
      job->moments == FMC_MOMENTS_PRODUCTS || !T(is_mixture)(&call->target) || !T(is_mixture)(&call->proposal) ||
      call->target.node->count + call->proposal.node->count > FMC_FEW_COMPONENTS)
    return 0;
  if (drawing && (drawing->full || drawing->df))
    return 0;
  if (!drawing &&
      (job->offset % (FMC_FETCH_BYTES / sizeof(REAL)) != 0 || call->per_chunk / FMC_TILE <= (size_t)kept.n_sms / 2))
    return 0;
  return T(fused_shared_bytes)((int)fmc_n_lanes(call->n_dim), drawing != NULL, job->moments != FMC_MOMENTS_NONE) <=
         (size_t)kept.shared_bytes - FMC_FUSED_STATIC;
}

/* For chunks of up to n samples. */
static is_layout T(lay_out_is)(const T(is_call) * call, size_t n) {
  const fmc_is_job *job = call->job;
  is_layout at;
  size_t used = 0, matrix, log_weights = n * sizeof(double), n_tiles = n / FMC_TILE + 2;
  at.stride = (n + 31) / 32 * 32;
  matrix = at.stride * call->n_dim * sizeof(REAL);
  at.given = take(&used, job->given_log_weights ? log_weights : 0);
  at.x = next_part(&used, job->samples ? matrix : 0);
  at.up = used;
  static_assert(sizeof(is_counters) <= PART_ALIGN, "a part of its own");
  at.counters = next_part(&used, sizeof(is_counters));
  at.log_weights = next_part(&used, job->log_weights && T(is_weighed)(job) ? log_weights : 0);
  if (job->draws)
    at.x = next_part(&used, matrix);
  at.nodes = next_part(&used, smaller(n_tiles, n_tiles / FMC_NODE_TILES + FMC_UNJOINED) * call->width * sizeof(double));
  at.down = used;
  if (job->drawing && !job->draws && !call->fused)
    at.x = next_part(&used, matrix);
  if (!job->log_weights && T(is_weighed)(job) && !call->fused)
    at.log_weights = next_part(&used, log_weights);
  at.tail = next_part(&used, smaller(call->room, n) * sizeof(double));
  at.rows = next_part(&used, n_tiles * call->width * sizeof(double));
  at.stack.partial = at.stack.value = at.stack.scaled = used;
  if (T(is_weighed)(job) && !call->fused && !T(weighs_in_registers)(call)) {
    size_t target = T(most_partial)(&call->target, n), proposal = T(most_partial)(&call->proposal, n);
    int depth = call->target.depth > 1 + call->proposal.depth ? call->target.depth : 1 + call->proposal.depth;
    at.stack.partial = next_part(&used, target > proposal ? target : proposal);
    at.stack.value = next_part(&used, (size_t)depth * n * sizeof(REAL));
    at.stack.scaled = next_part(&used, (size_t)depth * n * sizeof(REAL));
  }
  at.all = used;
  return at;
}

/* Log weights of n samples at x. */
static fmc_status T(launch_log_weights_of)(const T(is_call) * call, const REAL *x, size_t stride, size_t n,
                                           double *log_weights, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  if (T(weighs_in_registers)(call)) {
    T(log_weights_args)
    args = {n, call->n_dim, stride, x, T(mixture_of)(&call->target), T(mixture_of)(&call->proposal), log_weights};
    T(launch_log_weights)(&args, slot->stream);
  } else {
    T(points) points = {stride, n, x, NULL};
    T(stack)
    stack = {(REAL *)(slot->device + call->at.stack.value), (REAL *)(slot->device + call->at.stack.scaled),
             (double *)(slot->device + call->at.stack.partial)};
    TRY_STATUS(T(launch_program)(&call->target, &points, &stack, 0, slot->stream, context));
    TRY_STATUS(T(launch_program)(&call->proposal, &points, &stack, 1, slot->stream, context));
    T(ratio_kernel)<<<(unsigned)smaller((n + 255) / 256, 1u << 20), 256, 0, slot->stream>>>(
        stack.value, stack.value + n, n, log_weights);
  }
  TRY(cudaGetLastError());
done:
  return status;
}

/* What a kernel notes of the samples of a chunk. */
static sample_notes T(notes_of)(const T(is_call) * call, const fmc_slot *slot) {
  is_counters *counters = (is_counters *)(slot->device + call->at.counters);
  sample_notes notes;
  notes.first_bad = &counters->first_bad;
  notes.n_tail = &counters->n_tail;
  notes.tail = (double *)(slot->device + call->at.tail);
  notes.room = call->room;
  notes.threshold = call->room ? fmc_is_summary_threshold(call->job->summary) : DBL_MAX;
  return notes;
}

/* Rows that a chunk brings back. */
static size_t T(n_rows_back)(const T(is_call) * call, const sample_range *range) {
  size_t n_tiles = n_tiles_of(range);
  return !call->job->summary ? 0 : n_tiles > FMC_UNJOINED ? n_nodes_of(range) : n_tiles;
}

/* Where the rows of a chunk's tiles go: few of them are not joined on the GPU. */
static double *T(rows_of)(const T(is_call) * call, const sample_range *range, const fmc_slot *slot) {
  return (double *)(slot->device + (n_tiles_of(range) > FMC_UNJOINED ? call->at.rows : call->at.nodes));
}

static fmc_status T(launch_chunk_fused)(const T(is_call) * call, const sample_range *range, const REAL *x,
                                        size_t stride, fmc_slot *slot, fmc_context *context) {
  const fmc_is_job *job = call->job;
  T(fused_args) args;
  memset(&args, 0, sizeof args);
  args.range = *range;
  args.n_dim = call->n_dim;
  args.stride = stride;
  args.x = job->drawing ? NULL : x;
  args.seed = job->seed;
  args.keys = fmc_keys_of(job->seed);
  args.hidden = hidden_numbers();
  T(place_few)(&args, false, job->target->node);
  T(place_few)(&args, true, job->proposal->node);
  if (job->drawing) {
    args.plan = call->plan;
    T(place_few_draws)(&args, job->drawing);
  }
  if (job->moments != FMC_MOMENTS_NONE)
    memcpy(args.shift, job->shift, call->n_dim * sizeof(double));
  args.log_weights = job->log_weights ? (double *)(slot->device + call->at.log_weights) : NULL;
  args.notes = T(notes_of)(call, slot);
  args.rows = T(rows_of)(call, range, slot);
  return T(launch_fused)(&args, job->moments != FMC_MOMENTS_NONE, slot->stream, context);
}

/* Draws, log weights and sums as kernels of their own. */
static fmc_status T(launch_chunk_in_parts)(const T(is_call) * call, const sample_range *range, const REAL *x,
                                           size_t stride, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const fmc_is_job *job = call->job;
  double *log_weights = (double *)(slot->device + call->at.log_weights);
  if (job->drawing) {
    T(draw_args) draw = {*range, stride, call->plan, job->seed, (REAL *)x};
    T(launch_draw)(&draw, slot->stream);
    TRY(cudaGetLastError());
  }
  if (T(is_weighed)(job))
    TRY_STATUS(T(launch_log_weights_of)(call, x, stride, range->n, log_weights, slot, context));
  if (job->summary) {
    T(tile_sums_args) sums;
    sums.range = *range;
    sums.n_dim = call->n_dim;
    sums.stride = stride;
    sums.x = x;
    sums.log_weights = job->given_log_weights ? (const double *)(slot->device + call->at.given) : log_weights;
    sums.moments = job->moments;
    sums.shift = call->shift;
    sums.notes = T(notes_of)(call, slot);
    sums.rows = T(rows_of)(call, range, slot);
    T(launch_tile_sums)(&sums, slot->stream);
    TRY(cudaGetLastError());
  }
done:
  return status;
}

/* Starts samples first .. first + n - 1 of the call. */
static fmc_status T(start_is_chunk)(const T(is_call) * call, size_t first, size_t n, fmc_slot *slot,
                                    fmc_context *context) {
  fmc_status status = FMC_OK;
  const fmc_is_job *job = call->job;
  const is_layout *at = &call->at;
  const sample_range range = {job->offset + first, n};
  const REAL *x = (const REAL *)(slot->device + at->x);
  size_t stride = at->stride;
  if (job->resident) {
    x = (const REAL *)job->resident->values + first;
    stride = job->resident->stride;
  }
  if (job->samples)
    stage_columns(job->samples, job->n, call->n_dim, first, n, slot->pinned + at->x, stride, IS_SINGLE, context);
  if (job->given_log_weights)
    memcpy(slot->pinned + at->given, job->given_log_weights + first, n * sizeof(double));
  if (at->up)
    TRY(cudaMemcpyAsync(slot->device, slot->pinned, at->up, cudaMemcpyHostToDevice, slot->stream));
  TRY(cudaMemsetAsync(slot->device + at->counters, 0, PART_ALIGN, slot->stream)); /* the gap travels too */
  if (call->fused)
    TRY_STATUS(T(launch_chunk_fused)(call, &range, x, stride, slot, context));
  else
    TRY_STATUS(T(launch_chunk_in_parts)(call, &range, x, stride, slot, context));
  if (job->summary && n_tiles_of(&range) > FMC_UNJOINED) {
    launch_join(&range, call->width, (double *)(slot->device + at->rows), (double *)(slot->device + at->nodes),
                slot->stream);
    TRY(cudaGetLastError());
  }
  TRY(cudaMemcpyAsync(slot->pinned + at->counters, slot->device + at->counters,
                      at->nodes + T(n_rows_back)(call, &range) * call->width * sizeof(double) - at->counters,
                      cudaMemcpyDeviceToHost, slot->stream));
done:
  return status;
}

/* Takes the log weights that a chunk has noted for the tail. */
static fmc_status T(take_tail)(const T(is_call) * call, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  double *tail = NULL;
  if (n == 0)
    return FMC_OK;
  tail = (double *)malloc(n * sizeof(double));
  if (!tail)
    return no_host_memory(context, n * sizeof(double));
  TRY(cudaMemcpyAsync(tail, slot->device + call->at.tail, n * sizeof(double), cudaMemcpyDeviceToHost, slot->stream));
  TRY(cudaStreamSynchronize(slot->stream));
  fmc_is_summary_offer(call->job->summary, tail, n);
done:
  free(tail);
  return status;
}

static fmc_status T(finish_is_chunk)(const T(is_call) * call, size_t first, size_t n, fmc_slot *slot,
                                     fmc_context *context);

/* Does a chunk again that had more for the tail than there is room: in halves, of which the second has a higher
 * threshold. One tile always has room. */
static fmc_status T(halve_is_chunk)(const T(is_call) * call, size_t first, size_t n, fmc_slot *slot,
                                    fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t half = chunk_before_border(call->job->offset + first, n / 2, n);
  TRY_STATUS(T(start_is_chunk)(call, first, half, slot, context));
  TRY_STATUS(T(finish_is_chunk)(call, first, half, slot, context));
  TRY_STATUS(T(start_is_chunk)(call, first + half, n - half, slot, context));
  TRY_STATUS(T(finish_is_chunk)(call, first + half, n - half, slot, context));
done:
  return status;
}

static fmc_status T(finish_is_chunk)(const T(is_call) * call, size_t first, size_t n, fmc_slot *slot,
                                     fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_is_job *job = call->job;
  const is_layout *at = &call->at;
  const sample_range range = {job->offset + first, n};
  const is_counters *counters = (const is_counters *)(slot->pinned + at->counters);
  TRY(cudaStreamSynchronize(slot->stream));
  if (counters->n_tail > call->room)
    return T(halve_is_chunk)(call, first, n, slot, context);
  TRY_STATUS(T(take_tail)(call, (size_t)counters->n_tail, slot, context));
  if (counters->first_bad && job->first_bad == FMC_NO_SAMPLE)
    job->first_bad = ~(uint64_t)counters->first_bad;
  if (job->log_weights && job->given_log_weights)
    memcpy(job->log_weights + first, job->given_log_weights + first, n * sizeof(double));
  else if (job->log_weights)
    fmc_stage_out(slot->pinned + at->log_weights, job->log_weights, job->n, 1, first, n, 0, context->n_threads);
  for (size_t d = 0; job->draws && d < call->n_dim; d++)
    fmc_stage_out(slot->pinned + at->x + d * at->stride * sizeof(REAL), job->draws + d * job->n, job->n, 1, first, n,
                  IS_SINGLE, context->n_threads);
  if (job->summary) {
    const double *node = (const double *)(slot->pinned + at->nodes);
    for (size_t k = T(n_rows_back)(call, &range); k > 0; k--, node += call->width)
      if (!fmc_is_summary_push(job->summary, node))
        TRY_STATUS(no_host_memory(context, call->width * sizeof(double)));
  }
  if (context->progress)
    context->progress(first + n);
done:
  return status;
}

/* The call's chunks, two at a time. With a tail they begin small and grow with the number of samples that have been
 * seen: of twice as many, some 2 n_tail are expected above the threshold. */
static fmc_status T(run_is_chunks)(const T(is_call) * call, const chunks *plan, fmc_context *context) {
  fmc_status status = FMC_OK;
  fmc_is_job *job = call->job;
  struct {
    size_t first, n;
  } under_way[N_SLOTS];
  size_t next = 0, started = 0, finished = 0, seen = 0;
  while (seen < job->n) {
    if (started - finished == plan->n_slots || next == job->n) {
      size_t s = finished++ % plan->n_slots;
      TRY_STATUS(T(finish_is_chunk)(call, under_way[s].first, under_way[s].n, &kept.slot[s], context));
      seen += under_way[s].n;
      continue;
    }
    if (started > 0 && started % plan->per_look == 0 && context->interrupted())
      TRY_STATUS(interrupted(context));
    size_t wanted =
        call->room ? smaller(2 * seen > call->room ? 2 * seen : call->room, call->per_chunk) : call->per_chunk;
    size_t s = started++ % plan->n_slots, n = chunk_before_border(job->offset + next, wanted, job->n - next);
    TRY_STATUS(T(start_is_chunk)(call, next, n, &kept.slot[s], context));
    under_way[s].first = next;
    under_way[s].n = n;
    next += n;
  }
done:
  return status;
}

static void T(place_is)(T(is_call) * call, placement *to, T(fmc_node) * nodes) {
  const fmc_is_job *job = call->job;
  if (job->moments != FMC_MOMENTS_NONE)
    call->shift = (const double *)place_bytes(job->shift, call->n_dim * sizeof(double), to);
  if (job->drawing)
    call->plan = T(place_drawing)(job->drawing, to);
  if (T(is_weighed)(job)) {
    call->target = T(place_density)(job->target, to, nodes);
    call->proposal = T(place_density)(job->proposal, to, nodes + job->target->n_nodes);
  }
}

/* Chunks by what travels for each sample; where nothing does, by what they need on the GPU. */
static chunks T(plan_is)(T(is_call) * call, const fmc_context *context) {
  const fmc_is_job *job = call->job;
  size_t moved = ((job->samples || job->draws) ? call->n_dim * sizeof(REAL) : 0) +
                 (job->given_log_weights || job->log_weights ? sizeof(double) : 0);
  chunks plan = plan_chunks(job->n, moved ? moved : 1, FMC_TILE, context);
  if (!moved) {
    double looks = context->cpu_ns / CPU_NS_PER_LOOK;
    plan.per_look = 1;
    plan.per_chunk = smaller(looks > 1 ? (size_t)((double)job->n / looks) + 1 : job->n, FMC_LARGEST_CHUNK);
    call->per_chunk = plan.per_chunk;
    call->fused = T(can_fuse)(call);
    while (plan.per_chunk > FMC_TILE && T(lay_out_is)(call, plan.per_chunk).all > KEEP_BYTES)
      plan.per_chunk /= 2;
  }
  plan.per_chunk =
      smaller((plan.per_chunk + FMC_TILE - 1) / FMC_TILE * FMC_TILE, plan.per_chunk < job->n ? SIZE_MAX : job->n);
  plan.n_slots = plan.per_chunk < job->n || (call->room && call->room < job->n) ? N_SLOTS : 1;
  call->per_chunk = plan.per_chunk;
  call->room = smaller(call->room, plan.per_chunk);
  call->fused = T(can_fuse)(call);
  return plan;
}

static fmc_status T(is_weights)(fmc_is_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n_nodes = T(is_weighed)(job) ? job->target->n_nodes + job->proposal->n_nodes : 0;
  T(fmc_node) *nodes = (T(fmc_node) *)malloc((n_nodes + 1) * sizeof *nodes);
  placement to = {NULL, NULL, 0};
  T(is_call) call;
  chunks plan;

  memset(&call, 0, sizeof call);
  call.job = job;
  call.n_dim = job->samples || job->resident || job->drawing ? job->n_dim : 0;
  call.width = job->summary ? fmc_is_summary_width(job->summary) : 0;
  call.room = job->summary ? tail_room(job->summary) : 0;
  job->first_bad = FMC_NO_SAMPLE;
  if (job->n == 0)
    goto done;
  if (!nodes) {
    status = no_host_memory(context, n_nodes * sizeof *nodes);
    goto done;
  }
  T(place_is)(&call, &to, nodes);
  plan = T(plan_is)(&call, context);
  call.at = T(lay_out_is)(&call, call.per_chunk);
  TRY_STATUS(begin_placement(&to, plan.n_slots, call.at.down, call.at.all, context));
  if (T(is_weighed)(job)) {
    TRY_STATUS(T(load_sources)(job->target, nodes, context));
    TRY_STATUS(T(load_sources)(job->proposal, nodes + job->target->n_nodes, context));
  }
  T(place_is)(&call, &to, nodes);
  if (T(is_weighed)(job)) {
    TRY_STATUS(T(bind_sources)(&call.target, context));
    TRY_STATUS(T(bind_sources)(&call.proposal, context));
  }
  TRY_STATUS(send_placement(&to, context));
  TRY_STATUS(T(run_is_chunks)(&call, &plan, context));
done:
  free(to.host);
  free(nodes);
  return status;
}
