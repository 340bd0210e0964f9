// The context of kernels on a device: see ops/kernel/kernel.h for what it promises. Only for nvcc
// and NVRTC.
#pragma once

#include "ops/kernel/kernel.h"

namespace metronome::cuda {

struct DeviceContext {
  __device__ __forceinline__ int thread() const { return threadIdx.x; }
  __device__ __forceinline__ int threads() const { return blockDim.x; }
  __device__ __forceinline__ int block() const { return blockIdx.x; }
  __device__ __forceinline__ int blocks() const { return gridDim.x; }
  __device__ __forceinline__ void barrier() { __syncthreads(); }
  template <class T>
  __device__ __forceinline__ T shuffle_xor(T v, int mask) {
    return __shfl_xor_sync(0xFFFFFFFFu, v, mask);
  }
  template <class T>
  __device__ __forceinline__ T shuffle_down(T v, int delta) {
    return __shfl_down_sync(0xFFFFFFFFu, v, delta);
  }
  template <class T>
  __device__ __forceinline__ T shuffle(T v, int lane) {
    return __shfl_sync(0xFFFFFFFFu, v, lane);
  }
  __device__ __forceinline__ unsigned ballot(bool v) { return __ballot_sync(0xFFFFFFFFu, v); }
  __device__ __forceinline__ int atomic_add(int* p, int v) { return atomicAdd(p, v); }
  __device__ __forceinline__ int atomic_min(int* p, int v) { return atomicMin(p, v); }
  __device__ __forceinline__ Index atomic_min(Index* p, Index v) { return atomicMin(p, v); }
  __device__ __forceinline__ unsigned char* shared() {
    extern __shared__ __align__(16) unsigned char metronome_shared[];
    return metronome_shared;
  }
};

/// The first thing that a kernel does. A graph may let it begin before the kernel that it comes
/// after has ended (GraphBuilder::begin_early): it lets the next one begin likewise, and waits for
/// the one before and for what that wrote. So each waits in turn for all before it. Else it does
/// nothing. "CUDA C++ Programming Guide" 13.0, "Programmatic Dependent Launch".
__device__ __forceinline__ void begin_in_order() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace metronome::cuda
