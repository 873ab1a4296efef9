#include "cpu_call.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

fmc_status fmc_cpu_out_of_memory(fmc_context *context, size_t bytes) {
  context->bytes = bytes;
  snprintf(context->message, sizeof context->message, "cannot allocate %.3f GB of host memory", (double)bytes / 1e9);
  return FMC_ERROR_MEMORY;
}

fmc_status fmc_cpu_interrupted(fmc_context *context) {
  snprintf(context->message, sizeof context->message, "interrupted");
  return FMC_ERROR_INTERRUPTED;
}

int fmc_cpu_threads(size_t n_parts, const fmc_context *context) {
  size_t most = (size_t)(context->n_threads > 0 ? context->n_threads : 1);
  return (int)(n_parts < most ? n_parts : most);
}

size_t fmc_cpu_parts_per_look(size_t n_parts, int n_threads, const fmc_context *context) {
  double looks = context->cpu_ns / ((double)n_threads * FMC_CPU_NS_PER_LOOK) + 1;
  return (size_t)((double)n_parts / looks) + (size_t)n_threads;
}

static size_t n_numbers(const fmc_density *density) {
  size_t n = 0;
  for (size_t k = 0; k < density->n_nodes; k++)
    for (int a = 0; a < FMC_NODE_ARRAYS; a++)
      n += density->node[k].length[a];
  return n;
}

static const void *source_of(const fmc_node *node) { return node->source ? node->source->cpu_source : NULL; }

/* Nodes as they are, with their arrays. Zero where there is no memory. */
static int density_f64(const fmc_density *density, fmc_cpu_density *out) {
  fmc_node_f64 *nodes = malloc(density->n_nodes * sizeof *nodes);
  if (!nodes)
    return 0;
  for (size_t k = 0; k < density->n_nodes; k++) {
    const fmc_node *node = density->node + k;
    fmc_node_f64 to = {.kind = node->kind, .flags = node->flags, .n_dim = node->n_dim, .count = node->count};
    memcpy(to.number, node->number, sizeof to.number);
    memcpy(to.array, node->array, sizeof to.array);
    to.source = source_of(node);
    nodes[k] = to;
  }
  out->owned = nodes;
  out->as.f64 = (fmc_density_f64){density->n_dim, density->n_nodes, nodes};
  return 1;
}

/* The same with every array rounded to float. */
static int density_f32(const fmc_density *density, fmc_cpu_density *out) {
  fmc_node_f32 *nodes = malloc(density->n_nodes * sizeof *nodes + n_numbers(density) * sizeof(float));
  if (!nodes)
    return 0;
  float *floats = (float *)(nodes + density->n_nodes);
  for (size_t k = 0; k < density->n_nodes; k++) {
    const fmc_node *node = density->node + k;
    fmc_node_f32 to = {.kind = node->kind, .flags = node->flags, .n_dim = node->n_dim, .count = node->count};
    memcpy(to.number, node->number, sizeof to.number);
    for (int a = 0; a < FMC_NODE_ARRAYS; a++) {
      to.array[a] = node->array[a] ? floats : NULL;
      for (size_t i = 0; i < node->length[a]; i++)
        *floats++ = (float)node->array[a][i];
    }
    to.source = source_of(node);
    nodes[k] = to;
  }
  out->owned = nodes;
  out->as.f32 = (fmc_density_f32){density->n_dim, density->n_nodes, nodes};
  return 1;
}

int fmc_cpu_density_new(const fmc_density *density, int single_precision, fmc_cpu_density *out) {
  return single_precision ? density_f32(density, out) : density_f64(density, out);
}

int fmc_cpu_drawing_new(const fmc_drawing *drawing, int single_precision, fmc_cpu_drawing *out) {
  size_t n_dim = drawing->n_dim, n_means = drawing->count * n_dim;
  size_t n_factors = drawing->full ? drawing->count * (n_dim * (n_dim + 1) / 2) : n_means;
  out->owned = NULL;
  if (!single_precision) {
    out->as.f64 =
        (fmc_draw_plan_f64){n_dim,           drawing->count, drawing->full,     drawing->cumulative, drawing->mean,
                            drawing->factor, drawing->df,    drawing->n_groups, drawing->group};
    return 1;
  }
  float *mean = malloc((n_means + n_factors) * sizeof(float)), *factor = mean + n_means;
  if (!mean)
    return 0;
  for (size_t i = 0; i < n_means; i++)
    mean[i] = (float)drawing->mean[i];
  for (size_t i = 0; i < n_factors; i++)
    factor[i] = (float)drawing->factor[i];
  out->owned = mean;
  out->as.f32 = (fmc_draw_plan_f32){n_dim,  drawing->count, drawing->full,     drawing->cumulative, mean,
                                    factor, drawing->df,    drawing->n_groups, drawing->group};
  return 1;
}
