/* The normals' table in a block's shared memory, where a look-up is one 16-byte load. CUDA alone. */
#ifndef FUSEDMC_CORE_NORMAL_SHARED_H
#define FUSEDMC_CORE_NORMAL_SHARED_H

#include "normal.h"

#define FMC_TABLE_QUALIFIER static __device__ const
#include "normal_table.h"

#define FMC_NORMAL_ROWS ((int)(sizeof(fmc_normal_table) / sizeof(fmc_normal_table[0])))

/* All threads of the block take part. */
static __device__ void load_normal_table(float4 *table) {
  for (int i = threadIdx.y * blockDim.x + threadIdx.x; i < FMC_NORMAL_ROWS; i += blockDim.x * blockDim.y) {
    const float *row = fmc_normal_table[i];
    table[i] = make_float4(row[0], row[1], row[2], row[3]);
  }
  __syncthreads();
}

/* Copies of the table, row by row, each in banks of its own: the eight threads whose 16-byte loads are served together
 * then never wait for each other. Thread i reads from copies + i mod FMC_NORMAL_COPIES. */
#define FMC_NORMAL_COPIES 8

/* All threads of the block take part. */
static __device__ void load_normal_copies(float4 *copies) {
  for (int i = threadIdx.x; i < FMC_NORMAL_COPIES * FMC_NORMAL_ROWS; i += blockDim.x) {
    const float *row = fmc_normal_table[i / FMC_NORMAL_COPIES];
    copies[i] = make_float4(row[0], row[1], row[2], row[3]);
  }
  __syncthreads();
}

static __device__ float normal_from_copy(const float4 *copy, uint32_t word) {
  float4 c = copy[fmc_normal_row(word) * FMC_NORMAL_COPIES];
  return fmc_normal_cubic(word, c.x, c.y, c.z, c.w);
}

static __device__ float normal_from(const float4 *table, uint32_t word) {
  float4 c = table[fmc_normal_row(word)];
  return fmc_normal_cubic(word, c.x, c.y, c.z, c.w);
}

#endif
