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

/* The numbers 2 and 0x3f800000, which come to a kernel as arguments so that the compiler cannot know them: what it
 * would make of them are shifts and more logic, which all go through the one pipe that the generator's logic fills. */
typedef struct {
  uint32_t two, one_bits;
} fmc_hidden;

static fmc_hidden hidden_numbers(void) {
  fmc_hidden hidden = {2, 0x3f800000u};
  return hidden;
}

/* A thread's copy of the table, by its address in shared memory. */
typedef struct {
  uint32_t at;
  fmc_hidden hidden;
} normal_copy;

static __device__ __forceinline__ normal_copy copy_of_thread(const float4 *copies, fmc_hidden hidden) {
  normal_copy copy = {(uint32_t)__cvta_generic_to_shared(copies + threadIdx.x % FMC_NORMAL_COPIES), hidden};
  return copy;
}

/* fmc_normal(). A row is 128 bytes, row 0 belongs to the bits 127 << 23. */
static __device__ __forceinline__ float normal_from_copy(const normal_copy *copy, uint32_t word) {
  uint32_t bits = fmc_bitsf((float)(word * copy->hidden.two + 1));
  uint32_t at = ((bits & 0xfff80000u) >> 12) + copy->at;
  float c0, c1, c2, c3;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4 + -260096];" : "=f"(c0), "=f"(c1), "=f"(c2), "=f"(c3) : "r"(at));
  float t = fmc_from_bitsf((bits * 16 & 0x7fffffu) | copy->hidden.one_bits) - 1.0f;
  float z = fmc_fmaf(fmc_fmaf(fmc_fmaf(c3, t, c2), t, c1), t, c0);
  return fmc_from_bitsf(fmc_bitsf(z) | (word & 0x80000000u));
}

static __device__ float normal_from(const float4 *table, uint32_t word) {
  float4 c = table[fmc_normal_row(word)];
  return fmc_normal_cubic(word, c.x, c.y, c.z, c.w);
}

#endif
