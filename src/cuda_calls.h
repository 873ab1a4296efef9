/* What a call does on the GPU: parameters up, chunks through the two slots. Here densities and steps; the other calls
 * are in cuda_is.h and cuda_log_density.h. Template over REAL; read by backend_cuda.cu. */

/* Rounds an array to the call's precision and gives its place on the device; NULL stays NULL. */
static const REAL *T(place_array)(const double *from, size_t n, placement *to) {
  size_t at = next_place(to, n * sizeof(REAL));
  if (!from)
    return NULL;
  if (to->host) {
    REAL *host = (REAL *)(to->host + at);
    for (size_t i = 0; i < n; i++)
      host[i] = (REAL)from[i];
  }
  return (const REAL *)(to->device + at);
}

/* Places a density's arrays; `nodes` has room for its nodes. The modules of compiled ones are there when it is placed
 * in earnest. */
static T(program) T(place_density)(const fmc_density *density, placement *to, T(fmc_node) * nodes) {
  T(program) program = {density->n_nodes, density->depth, nodes};
  for (size_t k = 0; k < density->n_nodes; k++) {
    const fmc_node *from = density->node + k;
    T(fmc_node) node;
    memset(&node, 0, sizeof node);
    if (from->source) {
      fmc_source_module *module = to->host ? (fmc_source_module *)nodes[k].source : NULL;
      source_place(from->source, IS_SINGLE, to, module);
      node.source = module;
    }
    node.kind = from->kind;
    node.flags = from->flags;
    node.n_dim = from->n_dim;
    node.count = from->count;
    memcpy(node.number, from->number, sizeof node.number);
    for (int a = 0; a < FMC_NODE_ARRAYS; a++)
      node.array[a] = T(place_array)(from->array[a], from->length[a], to);
    nodes[k] = node;
  }
  return program;
}

/* Loads the modules of a density's compiled parts. */
static fmc_status T(load_sources)(const fmc_density *density, T(fmc_node) * nodes, fmc_context *context) {
  fmc_status status = FMC_OK;
  for (size_t k = 0; k < density->n_nodes; k++)
    if (density->node[k].source) {
      fmc_source_module *module = NULL;
      TRY_STATUS(source_module(density->node[k].source, &module, context));
      nodes[k].source = module;
    }
done:
  return status;
}

/* Sends the data that compiled parts have in constant memory, on the stream of send_placement(). */
static fmc_status T(bind_sources)(const T(program) * program, fmc_context *context) {
  fmc_status status = FMC_OK;
  for (size_t k = 0; k < program->n_nodes; k++)
    if (program->node[k].source)
      TRY_STATUS(source_bind((const fmc_source_module *)program->node[k].source, kept.slot[0].stream, context));
done:
  return status;
}

/* The module of a program that is nothing but compiled code, or NULL. */
static const fmc_source_module *T(module_of)(const T(program) * program) {
  return program->n_nodes == 1 ? (const fmc_source_module *)program->node[0].source : NULL;
}

static int T(is_mixture)(const T(program) * program) {
  return program->n_nodes == 1 && program->node[0].kind == FMC_KIND_mixture;
}

static T(mixture) T(mixture_of)(const T(program) * program) {
  const T(fmc_node) *node = program->node;
  T(mixture)
  mixture = {node->n_dim, node->count, node->array[FMC_MIXTURE_LOG_CONST], node->array[FMC_MIXTURE_MEAN],
             node->array[FMC_MIXTURE_INV_SD]};
  return mixture;
}

/* Where a stack lies; `at` is moved past it. */
typedef struct {
  size_t partial, value, scaled;
} T(stack_layout);

static T(stack_layout) T(lay_out_stack)(const T(program) * program, int depth, size_t n_points, size_t *used) {
  T(stack_layout) at;
  size_t level = n_points * sizeof(REAL);
  at.partial = next_part(used, T(most_partial)(program, n_points));
  at.value = next_part(used, (size_t)depth * level);
  at.scaled = next_part(used, depth > 1 ? (size_t)depth * level : 0);
  return at;
}

static T(stack) T(stack_at)(const T(stack_layout) * at, char *device) {
  T(stack) stack = {(REAL *)(device + at->value), (REAL *)(device + at->scaled), (double *)(device + at->partial)};
  return stack;
}

typedef struct {
  const fmc_mh_step_job *job;
  T(mh_args) args;
  T(mh_constants) constants;
  T(program) target; /* no nodes: given log densities, or none */
} T(mh_call);

/* Where the parts of a chunk lie: in what goes up, in what comes down, and on the device alone. */
typedef struct {
  size_t x, noise, u, given_old, given_new, up, x_new, log_density, log_alpha, accepted, down, scratch, all;
  T(stack_layout) stack;
} T(mh_layout);

static T(mh_layout) T(lay_out_mh)(const T(mh_call) * call, size_t n) {
  T(mh_layout) at;
  const fmc_mh_step_job *job = call->job;
  size_t matrix = n * job->n_dim * sizeof(REAL), given = job->given_old ? n * sizeof(REAL) : 0, used = 0;
  at.u = take(&used, job->u ? n * sizeof(double) : 0);
  at.x = take(&used, matrix);
  at.noise = take(&used, job->noise ? matrix : 0);
  at.given_old = take(&used, given);
  at.given_new = take(&used, given);
  at.up = used;
  at.x_new = next_part(&used, matrix);
  at.log_density = take(&used, n * sizeof(REAL));
  at.log_alpha = take(&used, n * sizeof(REAL));
  at.accepted = take(&used, n * sizeof(int));
  at.down = used;
  at.scratch = next_part(&used, job->cholesky ? matrix : 0);
  if (call->target.n_nodes > 0 && !T(is_mixture)(&call->target))
    at.stack = T(lay_out_stack)(&call->target, call->target.depth, 2 * n, &used);
  at.all = used;
  return at;
}

/* Proposal, evaluation and decision as kernels of their own. */
static fmc_status T(launch_mh_in_parts)(const T(mh_call) * call, const T(mh_args) * args, const T(mh_layout) * at,
                                        fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const REAL *log_old = (const REAL *)(slot->device + at->given_old);
  const REAL *log_new = (const REAL *)(slot->device + at->given_new);
  T(launch_propose)(args, kept.n_sms, slot->stream);
  TRY(cudaGetLastError());
  if (call->target.n_nodes > 0) {
    T(points) points = {args->n_chains, 2 * args->n_chains, args->x, args->x_new};
    T(stack) stack = T(stack_at)(&at->stack, slot->device);
    TRY_STATUS(T(launch_program)(&call->target, &points, &stack, 0, slot->stream, context));
    log_old = stack.value;
    log_new = stack.value + args->n_chains;
  }
  if (call->target.n_nodes > 0 || call->job->given_old)
    T(launch_decide)(args, log_old, log_new, slot->stream);
  TRY(cudaGetLastError());
done:
  return status;
}

/* A whole step by compiled code, where it has one for this call. */
static int T(source_has_step)(const T(mh_call) * call) {
  const fmc_source_module *module = T(module_of)(&call->target);
  return module && source_has_step(module) && !call->job->cholesky && !call->job->noise;
}

static fmc_status T(launch_source_step)(const T(mh_call) * call, const T(mh_args) * a, fmc_slot *slot,
                                        fmc_context *context) {
  fmc_source_mh_args args = {a->n_chains, a->x,           a->u,         a->seed,     a->first_chain, a->step,
                             a->x_new,    a->log_density, a->log_alpha, a->accepted, {{0}}};
  REAL *step_size = IS_SINGLE ? (REAL *)args.step_size.f32 : (REAL *)args.step_size.f64;
  for (size_t d = 0; d < a->n_dim; d++)
    step_size[d] = (REAL)call->job->step_size[d];
  return source_launch_mh_step(T(module_of)(&call->target), &args, a->n_dim, slot->stream, context);
}

static fmc_status T(start_mh_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const T(mh_call) *call = (const T(mh_call) *)what;
  const fmc_mh_step_job *job = call->job;
  T(mh_layout) at = T(lay_out_mh)(call, n);
  T(mh_args) args = call->args;
  int n_threads = context->n_threads;
  fmc_stage_in(job->x, job->n_chains, job->n_dim, first, n, slot->pinned + at.x, IS_SINGLE, n_threads);
  if (job->noise)
    fmc_stage_in(job->noise, job->n_chains, job->n_dim, first, n, slot->pinned + at.noise, IS_SINGLE, n_threads);
  if (job->u)
    memcpy(slot->pinned + at.u, job->u + first, n * sizeof(double));
  if (job->given_old) {
    fmc_stage_in(job->given_old, job->n_chains, 1, first, n, slot->pinned + at.given_old, IS_SINGLE, 1);
    fmc_stage_in(job->given_new, job->n_chains, 1, first, n, slot->pinned + at.given_new, IS_SINGLE, 1);
  }
  args.n_chains = n;
  args.x = (const REAL *)(slot->device + at.x);
  args.noise = job->noise ? (const REAL *)(slot->device + at.noise) : NULL;
  args.u = job->u ? (const double *)(slot->device + at.u) : NULL;
  args.first_chain = job->chain_offset + first;
  args.x_new = (REAL *)(slot->device + at.x_new);
  args.log_density = (REAL *)(slot->device + at.log_density);
  args.log_alpha = (REAL *)(slot->device + at.log_alpha);
  args.accepted = (int *)(slot->device + at.accepted);
  args.scratch = (REAL *)(slot->device + at.scratch);
  TRY(cudaMemcpyAsync(slot->device, slot->pinned, at.up, cudaMemcpyHostToDevice, slot->stream));
  if (T(is_mixture)(&call->target))
    T(launch_mh_step)(&args, &call->constants, kept.n_sms, slot->stream);
  else if (T(source_has_step)(call))
    TRY_STATUS(T(launch_source_step)(call, &args, slot, context));
  else
    TRY_STATUS(T(launch_mh_in_parts)(call, &args, &at, slot, context));
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(slot->pinned + at.x_new, slot->device + at.x_new, at.down - at.x_new, cudaMemcpyDeviceToHost,
                      slot->stream));
done:
  return status;
}

static fmc_status T(finish_mh_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  const T(mh_call) *call = (const T(mh_call) *)what;
  const fmc_mh_step_job *job = call->job;
  T(mh_layout) at = T(lay_out_mh)(call, n);
  TRY(cudaStreamSynchronize(slot->stream));
  fmc_stage_out(slot->pinned + at.x_new, job->x_new, job->n_chains, job->n_dim, first, n, IS_SINGLE,
                context->n_threads);
  if (!job->target && !job->given_old)
    return FMC_OK;
  fmc_stage_out(slot->pinned + at.log_density, job->log_density, job->n_chains, 1, first, n, IS_SINGLE, 1);
  fmc_stage_out(slot->pinned + at.log_alpha, job->log_alpha, job->n_chains, 1, first, n, IS_SINGLE, 1);
  memcpy(job->accepted + first, slot->pinned + at.accepted, n * sizeof(int));
done:
  return status;
}

static void T(set_constants)(const fmc_mh_step_job *job, T(mh_constants) * constants) {
  const fmc_node *node = job->target->node;
  for (size_t d = 0; d < smaller(job->n_dim, FMC_FEW_DIMS); d++) {
    constants->mean[d] = (REAL)node->array[FMC_MIXTURE_MEAN][d];
    constants->inv_sd[d] = (REAL)node->array[FMC_MIXTURE_INV_SD][d];
    constants->step_size[d] = (REAL)job->step_size[d];
  }
  constants->log_const = (REAL)node->array[FMC_MIXTURE_LOG_CONST][0];
}

/* Parameters of a step: once to learn their size, once to place them. */
static void T(place_mh)(T(mh_call) * call, placement *to, T(fmc_node) * nodes) {
  const fmc_mh_step_job *job = call->job;
  call->args.step_size = T(place_array)(job->step_size, job->cholesky ? job->n_dim * job->n_dim : job->n_dim, to);
  if (job->target)
    call->target = T(place_density)(job->target, to, nodes);
}

static fmc_status T(mh_step)(const fmc_mh_step_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t bytes_per_row = job->n_dim * sizeof(REAL) * (job->noise ? 3 : 2);
  size_t n_nodes = job->target ? job->target->n_nodes : 0;
  T(fmc_node) *nodes = (T(fmc_node) *)malloc((n_nodes + 1) * sizeof *nodes);
  placement to = {NULL, NULL, 0};
  T(mh_call) call;
  T(mh_layout) at;
  chunks plan;

  memset(&call, 0, sizeof call);
  call.job = job;
  call.args.n_dim = job->n_dim;
  call.args.cholesky = job->cholesky;
  call.args.seed = job->seed;
  call.args.step = job->step;
  if (!nodes) {
    status = no_host_memory(context, n_nodes * sizeof *nodes);
    goto done;
  }
  T(place_mh)(&call, &to, nodes);
  plan = plan_chunks(job->n_chains, bytes_per_row, 32, context);
  at = T(lay_out_mh)(&call, plan.per_chunk);
  TRY_STATUS(begin_placement(&to, plan.n_slots, at.down, at.all, context));
  if (job->target)
    TRY_STATUS(T(load_sources)(job->target, nodes, context));
  T(place_mh)(&call, &to, nodes);
  TRY_STATUS(T(bind_sources)(&call.target, context));
  if (T(is_mixture)(&call.target)) {
    call.args.target = T(mixture_of)(&call.target);
    T(set_constants)(job, &call.constants);
  }
  TRY_STATUS(send_placement(&to, context));
  TRY_STATUS(run_chunks(&plan, T(start_mh_chunk), T(finish_mh_chunk), &call, context));
done:
  free(to.host);
  free(nodes);
  return status;
}
