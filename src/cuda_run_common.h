/* What runs report from the GPU whatever their precision. Read by backend_cuda.cu alone. */

#include <time.h>

#define FMC_RUN_DIMS 1024             /* dims of a run in registers */
#define NS_PER_LAUNCH 5e7             /* aimed at */
#define GPU_SPEED 200.0               /* times one CPU thread, to a factor of a few: for the first launch alone */
#define DRAW_BYTES ((size_t)64 << 20) /* of a launch's draws, aimed at */

static double seconds(void) {
  struct timespec t;
  timespec_get(&t, TIME_UTC);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Proposals whose log density is NaN or +Inf: how many, and the first as step << 32 | chain. */
typedef struct {
  unsigned long long n, first;
} fmc_gpu_not_finite;

static __device__ void fmc_gpu_note(fmc_gpu_not_finite *out, uint32_t step, size_t chain) {
  atomicAdd(&out->n, 1ull);
  atomicMin(&out->first, (unsigned long long)step << 32 | (unsigned long long)(uint32_t)chain);
}

/* Doubles in an order that integers have too. */
static __device__ long long ordered_bits(double x) {
  long long bits = __double_as_longlong(x);
  return bits < 0 ? bits ^ 0x7fffffffffffffffLL : bits;
}

/* Extends a range kept as ordered_bits(). Minima and maxima come out the same in any order. */
static __device__ void fmc_gpu_extend(double *range, double smallest, double largest) {
  atomicMin((long long *)range, ordered_bits(smallest));
  atomicMax((long long *)range + 1, ordered_bits(largest));
}

static __device__ double from_ordered_bits(long long bits) {
  return __longlong_as_double(bits < 0 ? bits ^ 0x7fffffffffffffffLL : bits);
}

/* So far from `center` a state may be and lies within the range for sure; negative where it may not. */
static __device__ double run_reach(double center, long long least, long long most) {
  double below = center - from_ordered_bits(least), above = from_ordered_bits(most) - center;
  return below < above ? below : above;
}

/* to := from where moved. A select would go through that same pipe. */
static __device__ __forceinline__ void move_if(bool moved, float *to, float from) {
  asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p mov.f32 %0, %1; }" : "+f"(*to) : "f"(from), "r"((unsigned)moved));
}

static __device__ __forceinline__ void move_if(bool moved, double *to, double from) {
  asm("{ .reg .pred p; setp.ne.u32 p, %2, 0; @p mov.f64 %0, %1; }" : "+d"(*to) : "d"(from), "r"((unsigned)moved));
}

static long long host_ordered_bits(double x) {
  long long bits;
  memcpy(&bits, &x, sizeof bits);
  return bits < 0 ? bits ^ 0x7fffffffffffffffLL : bits;
}

static double host_from_ordered(long long bits) {
  double x;
  bits = bits < 0 ? bits ^ 0x7fffffffffffffffLL : bits;
  memcpy(&x, &bits, sizeof x);
  return x;
}
