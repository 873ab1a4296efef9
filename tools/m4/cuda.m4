dnl The CUDA toolkit: where it is, whether it can make something R can link, and for which GPUs.

dnl FMC_CUDA
dnl Reads with_cuda (auto, yes, no or a folder), with_cuda_arch and with_cuda_host_compiler. Sets NVCC, NVCC_FLAGS,
dnl NVCC_TARGETS, CUDA_LIBS, BACKEND_OBJECT, fmc_have_cuda (1 or 0), fmc_cuda_defines, fmc_cuda_version, fmc_cuda_dir,
dnl fmc_cuda_targets and, where there is no CUDA, fmc_cuda_why.
AC_DEFUN([FMC_CUDA], [
  fmc_have_cuda=0
  fmc_cuda_why=
  AS_IF([test "x$with_cuda" = xno], [fmc_cuda_why='not wanted (--without-cuda)'], [FMC_CUDA_FIND])
  AS_IF([test -z "$fmc_cuda_why"], [FMC_CUDA_CHOOSE_TARGETS])
  AS_IF([test -z "$fmc_cuda_why"], [FMC_CUDA_TRY])
  AS_IF([test -z "$fmc_cuda_why"], [
    fmc_have_cuda=1
    fmc_backends='CPU, CUDA'
    fmc_cuda_defines="-DFMC_CUDA_VERSION=\\\"$fmc_cuda_version\\\""
    BACKEND_OBJECT=backend_cuda.o
  ], [
    fmc_backends=CPU
    fmc_cuda_defines=
    NVCC=
    NVCC_FLAGS=
    NVCC_TARGETS=
    CUDA_LIBS=
    BACKEND_OBJECT=backend_none.o
    AS_CASE([$with_cuda],
      [no], [],
      [auto], [AC_MSG_NOTICE([no CUDA backend: $fmc_cuda_why])],
      [AC_MSG_ERROR([--with-cuda was given, but $fmc_cuda_why])])
  ])
  AC_SUBST([NVCC])
  AC_SUBST([NVCC_FLAGS])
  AC_SUBST([NVCC_TARGETS])
  AC_SUBST([CUDA_LIBS])
  AC_SUBST([BACKEND_OBJECT])
])

dnl FMC_CUDA_FIND
dnl Sets NVCC, fmc_cuda_dir, fmc_cuda_version and fmc_cuda_lib_dir, or fmc_cuda_why.
AC_DEFUN([FMC_CUDA_FIND], [
  AC_MSG_CHECKING([for nvcc])
  NVCC=
  fmc_on_path=`command -v nvcc 2>/dev/null`
  if test -n "$fmc_on_path"; then
    fmc_on_path=`dirname "$fmc_on_path"`/..
  fi
  AS_CASE([$with_cuda],
    [auto | yes], [set x "$CUDA_HOME" "$CUDA_PATH" "$fmc_on_path" /usr/local/cuda /opt/cuda],
    [set x "$with_cuda"])
  shift
  for fmc_cuda_dir in "$[]@"; do
    if test -n "$fmc_cuda_dir" && test -x "$fmc_cuda_dir/bin/nvcc"; then
      fmc_cuda_dir=`cd "$fmc_cuda_dir" && pwd`
      NVCC=$fmc_cuda_dir/bin/nvcc
      break
    fi
  done
  if test -z "$NVCC"; then
    AC_MSG_RESULT([no])
    AS_CASE([$with_cuda],
      [auto | yes],
        [fmc_cuda_why='nvcc is not in CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda or /opt/cuda'],
      [fmc_cuda_why="there is no bin/nvcc in $with_cuda"])
  else
    fmc_cuda_version=`"$NVCC" --version 2>/dev/null | sed -n 's/.*release \(@<:@0-9@:>@*\.@<:@0-9@:>@*\).*/\1/p'`
    AC_MSG_RESULT([$NVCC, CUDA ${fmc_cuda_version:-of an unknown version}])
    fmc_cuda_major=`echo "$fmc_cuda_version" | sed 's/\..*//'`
    if test "${fmc_cuda_major:-0}" -lt 12; then
      fmc_cuda_why="$NVCC is of CUDA ${fmc_cuda_version:-an unknown version}, and 12.0 is the oldest that will do"
    fi
  fi
  if test -z "$fmc_cuda_why"; then
    # bin/nvcc may be a link out of a folder that holds nothing else.
    fmc_nvcc_target=`readlink -f "$NVCC" 2>/dev/null`
    fmc_real_dir=`dirname "${fmc_nvcc_target:-$NVCC}"`/..
    fmc_machine=`$CC -dumpmachine 2>/dev/null`
    fmc_cuda_lib_dir=
    for fmc_dir in "$fmc_cuda_dir" "$fmc_real_dir"; do
      for fmc_sub in lib64 targets/x86_64-linux/lib targets/sbsa-linux/lib "lib/$fmc_machine" lib; do
        if test -z "$fmc_cuda_lib_dir" && test -f "$fmc_dir/$fmc_sub/libcudart_static.a"; then
          fmc_cuda_lib_dir=$fmc_dir/$fmc_sub
        fi
      done
    done
    if test -z "$fmc_cuda_lib_dir"; then
      fmc_cuda_why="libcudart_static.a is not in $fmc_cuda_dir"
    else
      CUDA_LIBS="-L$fmc_cuda_lib_dir -lcudart_static -lrt -lpthread -ldl"
    fi
  fi
])

dnl FMC_CUDA_CHOOSE_TARGETS
dnl Real code for each target that is wanted and that nvcc knows, and PTX of the newest for the GPUs to come.
dnl A target that was asked for by name and is not known stops configure: built without it, the package would not
dnl run where it is meant to.
AC_DEFUN([FMC_CUDA_CHOOSE_TARGETS], [
  AC_MSG_CHECKING([which compute targets to build])
  fmc_known=`"$NVCC" --list-gpu-arch 2>/dev/null | sed -n 's/^compute_\(@<:@0-9@:>@*\)$/\1/p'`
  fmc_known=`echo $fmc_known`
  fmc_asked=`echo "$with_cuda_arch" | sed 's/,/ /g; s/sm_//g; s/compute_//g; s/\.//g'`
  fmc_wanted=${fmc_asked:-75 80 86 89 90 100 103 120}
  fmc_cuda_targets=
  NVCC_TARGETS=
  fmc_newest=0
  for fmc_arch in $fmc_wanted; do
    AS_CASE([" $fmc_known "],
      [*" $fmc_arch "*], [AS_CASE([" $fmc_cuda_targets "],
        [*" $fmc_arch "*], [],
        [
          fmc_cuda_targets="$fmc_cuda_targets${fmc_cuda_targets:+ }$fmc_arch"
          NVCC_TARGETS="$NVCC_TARGETS -gencode arch=compute_$fmc_arch,code=sm_$fmc_arch"
          test "$fmc_arch" -gt "$fmc_newest" && fmc_newest=$fmc_arch
        ])],
      [
        if test -n "$fmc_asked"; then
          AC_MSG_ERROR([compute target '$fmc_arch' was asked for, and $NVCC knows only: $fmc_known])
        fi
      ])
  done
  NVCC_TARGETS="$NVCC_TARGETS -gencode arch=compute_$fmc_newest,code=compute_$fmc_newest"
  AC_MSG_RESULT([${fmc_cuda_targets:-none}])
  if test -z "$fmc_cuda_targets"; then
    fmc_cuda_why="$NVCC lists no compute target that is wanted"
  fi
])

dnl FMC_CUDA_TRY
dnl Compiles a kernel for the newest target and links it the way R will. Nothing is run: there may be no GPU here.
AC_DEFUN([FMC_CUDA_TRY], [
  NVCC_FLAGS='-O3 --std=c++17 --fmad=false --ftz=false --prec-div=true --prec-sqrt=true -lineinfo --threads 2'
  if test -n "$with_cuda_host_compiler"; then
    NVCC_FLAGS="$NVCC_FLAGS -ccbin $with_cuda_host_compiler"
  fi
  cat >conftest_kernel.cu <<'_FMC_EOF'
#include <cuda_runtime.h>
#include <math.h>
__global__ void axpy_kernel(double a, const double *x, double *y) { y@<:@threadIdx.x@:>@ += a * x@<:@threadIdx.x@:>@; }
extern "C" int launch_axpy(double a, const double *d_x, double *d_y) {
  axpy_kernel<<<1, 32>>>(a, d_x, d_y);
  return (int)cudaGetLastError();
}
_FMC_EOF
  AC_MSG_CHECKING([whether nvcc compiles a kernel])
  fmc_try="$NVCC $NVCC_FLAGS -gencode arch=compute_$fmc_newest,code=sm_$fmc_newest"
  echo "$as_me: $fmc_try -Xcompiler \"$fmc_pic\" -c conftest_kernel.cu" >&AS_MESSAGE_LOG_FD
  if $fmc_try -Xcompiler "$fmc_pic" -c conftest_kernel.cu -o conftest_kernel.o >conftest_nvcc.log 2>&1; then
    AC_MSG_RESULT([yes])
  else
    AC_MSG_RESULT([no])
    tail -n 5 conftest_nvcc.log
    fmc_cuda_why="$NVCC does not compile a kernel here (--with-cuda-host-compiler chooses its host compiler)"
  fi
  cat conftest_nvcc.log >&AS_MESSAGE_LOG_FD

  if test -z "$fmc_cuda_why"; then
    AC_MSG_CHECKING([whether the kernel links with the static CUDA runtime])
    fmc_saved=$LIBS
    fmc_linked=no
    for fmc_extra in '' ' -lstdc++'; do
      if test $fmc_linked = no; then
        LIBS="conftest_kernel.o $CUDA_LIBS$fmc_extra $fmc_saved"
        AC_LINK_IFELSE([AC_LANG_PROGRAM([[int launch_axpy(double a, const double *x, double *y);]],
            [[return launch_axpy(1.0, 0, 0);]])],
          [fmc_linked=yes
           CUDA_LIBS="$CUDA_LIBS$fmc_extra"])
      fi
    done
    LIBS=$fmc_saved
    AC_MSG_RESULT([$fmc_linked])
    if test $fmc_linked = no; then
      fmc_cuda_why="a program with a kernel does not link with $CUDA_LIBS (config.log says why)"
    fi
  fi
  rm -f conftest_kernel.cu conftest_kernel.o conftest_nvcc.log
])
