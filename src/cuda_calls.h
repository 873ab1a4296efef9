/* What a call does on the GPU: parameters up, chunks through the two slots. Template over REAL; read by
 * backend_cuda.cu. */

#define IS_SINGLE (sizeof(REAL) == sizeof(float))

/* Numbers of a density on the device. */
static size_t T(density_numbers)(const fmc_mixture *mixture) {
  return mixture->n_components * (1 + 2 * mixture->n_dim);
}

static REAL *T(convert)(REAL *to, const double *from, size_t n) {
  for (size_t i = 0; i < n; i++)
    to[i] = (REAL)from[i];
  return to + n;
}

/* Converts a density's numbers to *host and says where they will lie from *device on; moves both past them. */
static T(fmc_density) T(place_density)(const fmc_mixture *mixture, REAL **host, REAL **device) {
  size_t n_components = mixture->n_components, n = n_components * mixture->n_dim;
  T(fmc_density) density = {mixture->n_dim, n_components, *device, *device + n_components, *device + n_components + n};
  *host = T(convert)(*host, mixture->log_const, n_components);
  *host = T(convert)(*host, mixture->mean, n);
  *host = T(convert)(*host, mixture->inv_sd, n);
  *device += T(density_numbers)(mixture);
  return density;
}

/* Copies n numbers to the parameters' place on the device; later work on any slot's stream finds them there. */
static fmc_status T(send_parameters)(const REAL *host, size_t n, fmc_context *context) {
  fmc_status status = FMC_OK;
  TRY(cudaMemcpyAsync(kept.parameters, host, n * sizeof(REAL), cudaMemcpyHostToDevice, kept.slot[0].stream));
  TRY(cudaStreamSynchronize(kept.slot[0].stream));
done:
  return status;
}

/* Where the parts of a chunk lie: in what goes up, in what comes down, and on the device alone. */
typedef struct {
  size_t x, noise, u, up, x_new, log_density, log_alpha, accepted, down, scratch, all;
} T(mh_layout);

static T(mh_layout) T(lay_out_mh)(const fmc_mh_step_job *job, size_t n) {
  T(mh_layout) at;
  size_t matrix = n * job->n_dim * sizeof(REAL), used = 0;
  at.u = take(&used, job->u ? n * sizeof(double) : 0);
  at.x = take(&used, matrix);
  at.noise = take(&used, job->noise ? matrix : 0);
  at.up = used;
  at.x_new = next_part(&used, matrix);
  at.log_density = take(&used, n * sizeof(REAL));
  at.log_alpha = take(&used, n * sizeof(REAL));
  at.accepted = take(&used, n * sizeof(int));
  at.down = used;
  at.scratch = next_part(&used, job->cholesky ? matrix : 0);
  at.all = used;
  return at;
}

static fmc_status T(start_mh_chunk)(const fmc_mh_step_job *job, T(mh_args) args, const T(mh_constants) * constants,
                                    size_t first, size_t n, fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  T(mh_layout) at = T(lay_out_mh)(job, n);
  int n_threads = context->n_threads;
  fmc_stage_in(job->x, job->n_chains, job->n_dim, first, n, slot->pinned + at.x, IS_SINGLE, n_threads);
  if (job->noise)
    fmc_stage_in(job->noise, job->n_chains, job->n_dim, first, n, slot->pinned + at.noise, IS_SINGLE, n_threads);
  if (job->u)
    memcpy(slot->pinned + at.u, job->u + first, n * sizeof(double));
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
  T(launch_mh_step)(&args, constants, kept.n_sms, slot->stream);
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(slot->pinned + at.x_new, slot->device + at.x_new, at.down - at.x_new, cudaMemcpyDeviceToHost,
                      slot->stream));
done:
  return status;
}

static fmc_status T(finish_mh_chunk)(const fmc_mh_step_job *job, size_t first, size_t n, fmc_slot *slot,
                                     fmc_context *context) {
  fmc_status status = FMC_OK;
  T(mh_layout) at = T(lay_out_mh)(job, n);
  TRY(cudaStreamSynchronize(slot->stream));
  fmc_stage_out(slot->pinned + at.x_new, job->x_new, job->n_chains, job->n_dim, first, n, IS_SINGLE,
                context->n_threads);
  fmc_stage_out(slot->pinned + at.log_density, job->log_density, job->n_chains, 1, first, n, IS_SINGLE, 1);
  fmc_stage_out(slot->pinned + at.log_alpha, job->log_alpha, job->n_chains, 1, first, n, IS_SINGLE, 1);
  memcpy(job->accepted + first, slot->pinned + at.accepted, n * sizeof(int));
done:
  return status;
}

static void T(set_constants)(const fmc_mh_step_job *job, T(mh_constants) * constants) {
  size_t n_dim = smaller(job->n_dim, FMC_FEW_DIMS);
  T(convert)(constants->mean, job->target->mean, n_dim);
  T(convert)(constants->inv_sd, job->target->inv_sd, n_dim);
  T(convert)(constants->step_size, job->step_size, n_dim);
  constants->log_const = (REAL)job->target->log_const[0];
}

static fmc_status T(mh_step)(const fmc_mh_step_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n_steps = job->cholesky ? job->n_dim * job->n_dim : job->n_dim;
  size_t n_numbers = T(density_numbers)(job->target) + n_steps;
  size_t bytes_per_row = job->n_dim * sizeof(REAL) * (job->noise ? 3 : 2);
  size_t per_chunk = smaller(job->n_chains, rows_per_chunk(job->n_chains, bytes_per_row, 32));
  size_t n_chunks = (job->n_chains + per_chunk - 1) / per_chunk;
  T(mh_layout) at = T(lay_out_mh)(job, per_chunk);
  fmc_needs needs = {smaller(n_chunks, N_SLOTS), at.down, at.all, n_numbers * sizeof(REAL)};
  T(mh_args) args;
  T(mh_constants) constants;
  REAL *host = NULL, *host_end, *device;

  memset(&args, 0, sizeof args);
  host = (REAL *)malloc(n_numbers * sizeof(REAL));
  if (!host) {
    context->bytes = n_numbers * sizeof(REAL);
    snprintf(context->message, sizeof context->message, "cannot allocate %.0f bytes of host memory",
             (double)context->bytes);
    status = FMC_ERROR_MEMORY;
    goto done;
  }
  TRY_STATUS(reserve(&needs, context));
  host_end = host;
  device = (REAL *)kept.parameters;
  args.target = T(place_density)(job->target, &host_end, &device);
  T(convert)(host_end, job->step_size, n_steps);
  args.step_size = device;
  args.n_dim = job->n_dim;
  args.cholesky = job->cholesky;
  args.seed = job->seed;
  args.step = job->step;
  T(set_constants)(job, &constants);
  TRY_STATUS(T(send_parameters)(host, n_numbers, context));

  for (size_t chunk = 0; chunk < n_chunks + N_SLOTS; chunk++) {
    fmc_slot *slot = &kept.slot[chunk % N_SLOTS];
    if (chunk >= N_SLOTS && chunk - N_SLOTS < n_chunks) {
      size_t first = (chunk - N_SLOTS) * per_chunk;
      TRY_STATUS(T(finish_mh_chunk)(job, first, smaller(per_chunk, job->n_chains - first), slot, context));
    }
    if (chunk < n_chunks) {
      size_t first = chunk * per_chunk;
      if (chunk > 0 && chunk % 8 == 0 && context->interrupted())
        TRY_STATUS(interrupted(context));
      TRY_STATUS(
          T(start_mh_chunk)(job, args, &constants, first, smaller(per_chunk, job->n_chains - first), slot, context));
    }
  }
done:
  free(host);
  return status;
}

typedef struct {
  size_t x, given, up, log_weights, tiles, down;
} T(is_layout);

/* Log weights come down only where they are wanted; `tiles` is the last part. */
static T(is_layout) T(lay_out_is)(const fmc_is_job *job, size_t n) {
  T(is_layout) at;
  size_t n_dim = job->samples ? job->n_dim : 0, n_tiles = (n + FMC_TILE - 1) / FMC_TILE, used = 0;
  at.given = take(&used, job->given_log_weights ? n * sizeof(double) : 0);
  at.x = take(&used, n * n_dim * sizeof(REAL));
  at.up = used;
  at.log_weights = next_part(&used, job->given_log_weights ? 0 : n * sizeof(double));
  at.tiles = take(&used, n_tiles * (n_dim + 4) * sizeof(double));
  at.down = used;
  return at;
}

static fmc_status T(start_is_chunk)(const fmc_is_job *job, T(log_weights_args) densities, size_t first, size_t n,
                                    fmc_slot *slot, fmc_context *context) {
  fmc_status status = FMC_OK;
  T(is_layout) at = T(lay_out_is)(job, n);
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
  sums.tiles = (double *)(slot->device + at.tiles);
  if (!job->given_log_weights) {
    densities.n = n;
    densities.n_dim = job->n_dim;
    densities.x = sums.x;
    densities.log_weights = (double *)(slot->device + at.log_weights);
    sums.log_weights = densities.log_weights;
    T(launch_log_weights)(&densities, slot->stream);
    TRY(cudaGetLastError());
  }
  T(launch_tile_sums)(&sums, slot->stream);
  TRY(cudaGetLastError());
  TRY(cudaMemcpyAsync(slot->pinned + back, slot->device + back, at.down - back, cudaMemcpyDeviceToHost, slot->stream));
done:
  return status;
}

static fmc_status T(finish_is_chunk)(const fmc_is_job *job, size_t first, size_t n, fmc_slot *slot, fmc_tile_tree *tree,
                                     fmc_context *context) {
  fmc_status status = FMC_OK;
  T(is_layout) at = T(lay_out_is)(job, n);
  size_t row = 4 + (job->samples ? job->n_dim : 0), n_tiles = (n + FMC_TILE - 1) / FMC_TILE;
  double *tiles = (double *)(slot->pinned + at.tiles);
  TRY(cudaStreamSynchronize(slot->stream));
  if (job->log_weights)
    fmc_stage_out(slot->pinned + (job->given_log_weights ? at.given : at.log_weights), job->log_weights, job->n, 1,
                  first, n, 0, context->n_threads);
  for (size_t t = 0; t < n_tiles; t++, tiles += row) {
    fmc_weighted_sums sums = {tiles[0], tiles[1], tiles[2], (size_t)tiles[3], tiles + 4};
    fmc_tile_tree_push(tree, &sums);
  }
done:
  return status;
}

static fmc_status T(is_weights)(const fmc_is_job *job, fmc_context *context) {
  fmc_status status = FMC_OK;
  size_t n_dim = job->samples ? job->n_dim : 0;
  size_t n_numbers = job->given_log_weights ? 0 : T(density_numbers)(job->target) + T(density_numbers)(job->proposal);
  size_t bytes_per_row = n_dim * sizeof(REAL) + sizeof(double);
  size_t per_chunk = smaller(job->n, rows_per_chunk(job->n, bytes_per_row, FMC_TILE));
  size_t n_chunks = (job->n + per_chunk - 1) / per_chunk;
  T(is_layout) at = T(lay_out_is)(job, per_chunk);
  fmc_needs needs = {smaller(n_chunks, N_SLOTS), at.down, at.down, n_numbers * sizeof(REAL)};
  T(log_weights_args) densities;
  fmc_tile_tree *tree = fmc_tile_tree_new(n_dim);
  REAL *host = (REAL *)malloc((n_numbers ? n_numbers : 1) * sizeof(REAL)), *host_end = host, *device;

  memset(&densities, 0, sizeof densities);
  if (!host || !tree) {
    context->bytes = n_numbers * sizeof(REAL);
    snprintf(context->message, sizeof context->message, "cannot allocate host memory");
    status = FMC_ERROR_MEMORY;
    goto done;
  }
  TRY_STATUS(reserve(&needs, context));
  if (!job->given_log_weights) {
    device = (REAL *)kept.parameters;
    densities.target = T(place_density)(job->target, &host_end, &device);
    densities.proposal = T(place_density)(job->proposal, &host_end, &device);
    TRY_STATUS(T(send_parameters)(host, n_numbers, context));
  }

  for (size_t chunk = 0; chunk < n_chunks + N_SLOTS; chunk++) {
    fmc_slot *slot = &kept.slot[chunk % N_SLOTS];
    if (chunk >= N_SLOTS && chunk - N_SLOTS < n_chunks) {
      size_t first = (chunk - N_SLOTS) * per_chunk;
      TRY_STATUS(T(finish_is_chunk)(job, first, smaller(per_chunk, job->n - first), slot, tree, context));
    }
    if (chunk < n_chunks) {
      size_t first = chunk * per_chunk;
      if (chunk > 0 && chunk % 8 == 0 && context->interrupted())
        TRY_STATUS(interrupted(context));
      TRY_STATUS(T(start_is_chunk)(job, densities, first, smaller(per_chunk, job->n - first), slot, context));
    }
  }
  fmc_tile_tree_total(tree, job->sums);
done:
  fmc_tile_tree_free(tree);
  free(host);
  return status;
}

#undef IS_SINGLE
