// Declarations of the part of NCCL (nccl.h of version 2.14 and later) that is called: a build needs
// no NCCL. tests/nccl/library_test.cc compares it with the header where there is one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace metronome::executor::libraries::nccl {

using Result = int;  ///< ncclResult_t
inline constexpr Result kSuccess = 0, kInProgress = 7;

using Handle = void*;  ///< ncclComm_t

/// ncclUniqueId: by it ranks find each other.
struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t as of version 2.14: later libraries know by `version` what is absent.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;  ///< no call waits for other ranks: it says kInProgress, and goes on
};

using DataType = int;  ///< ncclDataType_t
inline constexpr DataType kBytes = 0, kInt64 = 4, kFloat32 = 7, kFloat64 = 8;
using Reduction = int;  ///< ncclRedOp_t
inline constexpr Reduction kSum = 0, kMax = 2, kMin = 3, kMean = 4;

/// By their names in the library. Counts are of elements.
struct Functions {
  const char* (*ncclGetErrorString)(Result);
  const char* (*ncclGetLastError)(Handle);
  Result (*ncclGetUniqueId)(UniqueId*);
  Result (*ncclCommInitRankConfig)(Handle*, int size, UniqueId, int rank, Config*);
  Result (*ncclCommGetAsyncError)(Handle, Result*);
  Result (*ncclCommDestroy)(Handle);
  Result (*ncclCommAbort)(Handle);
  Result (*ncclAllReduce)(const void* from, void* to, std::size_t count, DataType, Reduction,
                          Handle, cudaStream_t);
  Result (*ncclReduce)(const void* from, void* to, std::size_t count, DataType, Reduction, int root,
                       Handle, cudaStream_t);
  Result (*ncclBroadcast)(const void* from, void* to, std::size_t count, DataType, int root, Handle,
                          cudaStream_t);
  Result (*ncclAllGather)(const void* from, void* to, std::size_t sent, DataType, Handle,
                          cudaStream_t);
  Result (*ncclReduceScatter)(const void* from, void* to, std::size_t received, DataType, Reduction,
                              Handle, cudaStream_t);
  Result (*ncclSend)(const void* from, std::size_t count, DataType, int peer, Handle, cudaStream_t);
  Result (*ncclRecv)(void* to, std::size_t count, DataType, int peer, Handle, cudaStream_t);
  Result (*ncclGroupStart)();
  Result (*ncclGroupEnd)();
};

/// Loads libnccl.so.2. Throws RunError if it cannot be loaded.
Functions load();

}  // namespace metronome::executor::libraries::nccl
