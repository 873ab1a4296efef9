/* Log densities on the GPU; see cuda_calls.h. Template over REAL; read by backend_cuda.cu. */

typedef struct {
  const fmc_log_density_job *job;
  T(program) density;
  size_t points; /* of a chunk at most */
} T(log_density_call);

/* The stack comes after the points of a chunk, which lie there unless they stay on the GPU anyway. */
static T(stack_layout) T(lay_out_log_density)(const T(log_density_call) * call, size_t *all) {
  *all = call->job->resident ? 0 : call->points * call->job->n_dim * sizeof(REAL);
  return T(lay_out_stack)(&call->density, call->density.depth, call->points, all);
}

/* The first level of the stack comes back over the points in pinned memory: the copies of a stream keep their order. */
static fmc_status T(start_log_density_chunk)(const void *what, size_t first, size_t n, fmc_slot *slot,
                                             fmc_context *context) {
  fmc_status status = FMC_OK;
  const T(log_density_call) *call = (const T(log_density_call) *)what;
  const fmc_log_density_job *job = call->job;
  size_t all;
  T(stack_layout) at = T(lay_out_log_density)(call, &all);
  T(points) points = {n, n, (const REAL *)slot->device, NULL};
  T(stack) stack = T(stack_at)(&at, slot->device);
  if (job->resident) {
    points.n = job->resident->stride;
    points.x = (const REAL *)job->resident->values + first;
  } else {
    fmc_stage_in(job->x, job->n, job->n_dim, first, n, slot->pinned, IS_SINGLE, context->n_threads);
    TRY(cudaMemcpyAsync(slot->device, slot->pinned, n * job->n_dim * sizeof(REAL), cudaMemcpyHostToDevice,
                        slot->stream));
  }
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
  size_t bytes_per_row = (job->resident ? 1 : job->n_dim) * sizeof(REAL), all;
  chunks plan;

  if (!nodes) {
    status = no_host_memory(context, job->density->n_nodes * sizeof *nodes);
    goto done;
  }
  call.density = T(place_density)(job->density, &to, nodes);
  plan = plan_chunks(job->n, bytes_per_row, 32, context);
  call.points = plan.per_chunk;
  T(lay_out_log_density)(&call, &all);
  TRY_STATUS(begin_placement(&to, plan.n_slots, plan.per_chunk * bytes_per_row, all, context));
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
