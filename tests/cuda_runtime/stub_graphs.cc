// Graphs of the stub, and kernels.
#ifndef METRONOME_NO_CUDA

#include <fmt/format.h>

#include <algorithm>

#include "tests/cuda_runtime/stub_state.h"

namespace metronome::stub {
namespace {

std::unique_ptr<CUgraph_st> copy_of(const State& all, const CUgraph_st& graph, cudaGraph_t around) {
  auto copy = std::make_unique<CUgraph_st>();
  copy->around = around;
  std::map<cudaGraphNode_t, cudaGraphNode_t> twin;
  for (const auto& node : graph.nodes) {
    auto made = std::make_unique<CUgraphNode_st>();
    made->type = node->type;
    for (const cudaGraphNode_t before : node->after) made->after.push_back(twin.at(before));
    for (const auto& within : node->within) {
      made->within.push_back(copy_of(all, *within, copy.get()));
    }
    twin[node.get()] = made.get();
    if (all.watch.on_copy) all.watch.on_copy(node.get(), made.get());
    copy->nodes.push_back(std::move(made));
  }
  return copy;
}

void run(const State& all, const CUgraph_st& graph) {
  for (const auto& node : graph.nodes) {
    const bool works = node->type == cudaGraphNodeTypeKernel ||
                       node->type == cudaGraphNodeTypeMemcpy ||
                       node->type == cudaGraphNodeTypeMemset;
    if (works) all.watch.on_work(node.get(), node->type);
    for (const auto& within : node->within) run(all, *within);
  }
}

const char* name_of(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeKernel:
      return "kernel";
    case cudaGraphNodeTypeMemcpy:
      return "copy";
    case cudaGraphNodeTypeMemset:
      return "zero";
    case cudaGraphNodeTypeGraph:
      return "child";
    case cudaGraphNodeTypeConditional:
      return "condition";
    default:
      return "other";
  }
}

std::string text_of(const CUgraph_st& graph, const std::string& margin) {
  std::string text;
  std::map<cudaGraphNode_t, std::size_t> number;
  for (const auto& node : graph.nodes) {
    number.emplace(node.get(), number.size());
    std::string after;
    for (const cudaGraphNode_t before : node->after) after += fmt::format(" {}", number.at(before));
    text += fmt::format("{}{} {}{}{}{}\n", margin, number.at(node.get()), name_of(node->type),
                        after.empty() ? "" : " after", after, node->early ? ", early" : "");
    for (std::size_t i = 0; i < node->within.size(); ++i) {
      if (node->within.size() > 1) text += fmt::format("{}  case {}\n", margin, i);
      text += text_of(*node->within[i], margin + "  ");
    }
  }
  return text;
}

}  // namespace
}  // namespace metronome::stub

using namespace metronome::stub;

extern "C" {

// --- Graphs ---

cudaError_t cudaGraphCreate(cudaGraph_t* made, unsigned) {
  return call("cudaGraphCreate", [&](State& all) {
    *made = make_graph(all);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  const auto work = [&](State& all) {
    return all.graphs.erase(graph) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  };
  return call("cudaGraphDestroy", work, true);
}
cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, std::size_t count,
                                   const cudaKernelNodeParams* node) {
  return call("cudaGraphAddKernelNode", [&](State& all) {
    if (node->func == nullptr || node->gridDim.x == 0 || node->kernelParams == nullptr) {
      return cudaErrorInvalidValue;
    }
    return add(all, made, graph, after, count, cudaGraphNodeTypeKernel);
  });
}
cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* made, cudaGraph_t graph,
                                     const cudaGraphNode_t* after, std::size_t count, void*,
                                     const void*, std::size_t bytes, cudaMemcpyKind) {
  return call("cudaGraphAddMemcpyNode1D", [&](State& all) {
    if (bytes == 0) return cudaErrorInvalidValue;
    return add(all, made, graph, after, count, cudaGraphNodeTypeMemcpy);
  });
}
cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                   const cudaGraphNode_t* after, std::size_t count,
                                   const cudaMemsetParams* node) {
  return call("cudaGraphAddMemsetNode", [&](State& all) {
    const unsigned size = node->elementSize;
    if ((size != 1 && size != 2 && size != 4) || node->width == 0 || node->height == 0) {
      return cudaErrorInvalidValue;
    }
    return add(all, made, graph, after, count, cudaGraphNodeTypeMemset);
  });
}
cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* made, cudaGraph_t graph,
                                       const cudaGraphNode_t* after, std::size_t count,
                                       cudaGraph_t child) {
  return call("cudaGraphAddChildGraphNode", [&](State& all) {
    if (!known(all, child)) return cudaErrorInvalidValue;
    const cudaError_t status = add(all, made, graph, after, count, cudaGraphNodeTypeGraph);
    if (status == cudaSuccess) (*made)->within.push_back(copy_of(all, *child, graph));
    return status;
  });
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* made, cudaGraph_t graph,
                                             unsigned, unsigned) {
  return call("cudaGraphConditionalHandleCreate", [&](State& all) {
    if (!known(all, graph)) return cudaErrorInvalidValue;
    *made = all.next_handle++;
    all.handles.insert(*made);
    return cudaSuccess;
  });
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* made, cudaGraph_t graph, const cudaGraphNode_t* after,
                             const cudaGraphEdgeData*, std::size_t count,
                             cudaGraphNodeParams* node) {
  return call("cudaGraphAddNode", [&](State& all) {
    cudaConditionalNodeParams& condition = node->conditional;
    if (node->type != cudaGraphNodeTypeConditional || condition.size == 0) {
      return cudaErrorInvalidValue;
    }
    if (all.handles.erase(condition.handle) == 0) return cudaErrorInvalidValue;
    const cudaError_t status = add(all, made, graph, after, count, node->type);
    if (status != cudaSuccess) return status;
    for (unsigned i = 0; i < condition.size; ++i) {
      (*made)->within.push_back(std::make_unique<CUgraph_st>());
      (*made)->within.back()->around = graph;
      (*made)->bodies.push_back((*made)->within.back().get());
    }
    condition.phGraph_out = (*made)->bodies.data();
    return status;
  });
}
cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edges,
                                     std::size_t count) {
  return call("cudaGraphAddDependencies", [&](State& all) {
    if (!known(all, graph)) return cudaErrorInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      const bool kernels =
          from[i]->type == cudaGraphNodeTypeKernel && to[i]->type == cudaGraphNodeTypeKernel;
      if (!kernels || edges[i].type != cudaGraphDependencyTypeProgrammatic ||
          edges[i].from_port != cudaGraphKernelNodePortProgrammatic) {
        return cudaErrorInvalidValue;
      }
      to[i]->after.push_back(from[i]);
      to[i]->early = true;
    }
    return cudaSuccess;
  });
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  return call("cudaGraphGetNodes", [&](State& all) {
    if (!known(all, graph)) return cudaErrorInvalidValue;
    if (nodes != nullptr) {
      for (std::size_t i = 0; i < *count; ++i) nodes[i] = graph->nodes[i].get();
    }
    *count = graph->nodes.size();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  return call("cudaGraphNodeGetType", [&](State&) {
    *type = node->type;
    return cudaSuccess;
  });
}
cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t* child) {
  return call("cudaGraphChildGraphNodeGetGraph", [&](State&) {
    if (node->type != cudaGraphNodeTypeGraph) return cudaErrorInvalidValue;
    *child = node->within.front().get();
    return cudaSuccess;
  });
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* made, cudaGraph_t graph, unsigned long long) {
  return call("cudaGraphInstantiate", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    if (!all.graphs.contains(graph)) return cudaErrorInvalidValue;
    auto executable = std::make_unique<CUgraphExec_st>();
    executable->copy = copy_of(all, *graph, nullptr);
    *made = executable.get();
    all.executables.emplace(*made, std::move(executable));
    all.last_graph = text_of(*graph, "");
    return cudaSuccess;
  });
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  const auto work = [&](State& all) {
    return all.executables.erase(executable) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  };
  return call("cudaGraphExecDestroy", work, true);
}
cudaError_t cudaGraphUpload(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphUpload", [&](State& all) {
    executable->uploaded = true;
    return outside_capture(all, stream);
  });
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&](State& all) {
    if (!executable->uploaded) return cudaErrorInvalidValue;
    if (all.watch.on_work) run(all, *executable->copy);
    return outside_capture(all, stream);
  });
}

// --- Kernels ---

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* config, const void* kernel, void**) {
  return call("cudaLaunchKernelExC", [&](State& all) {
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    return enqueue(all, config->stream, cudaGraphNodeTypeKernel, [] { return cudaSuccess; });
  });
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* code, const void* kernel) {
  return call("cudaFuncGetAttributes", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    *code = {};
    code->maxThreadsPerBlock = 1024;
    code->numRegs = 32;
    code->maxDynamicSharedSizeBytes = 48 << 10;
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryLoadData(cudaLibrary_t* made, const void*, cudaJitOption*, void**, unsigned,
                                cudaLibraryOption*, void**, unsigned) {
  return call("cudaLibraryLoadData", [&](State& all) {
    if (const cudaError_t refused = unsafe(all); refused != cudaSuccess) return refused;
    auto library = std::make_unique<CUlib_st>();
    *made = library.get();
    all.libraries.emplace(*made, std::move(library));
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t library, const char*) {
  return call("cudaLibraryGetKernel", [&](State&) {
    *kernel = reinterpret_cast<cudaKernel_t>(&library->kernel);
    return cudaSuccess;
  });
}
cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  const auto work = [&](State& all) {
    return all.libraries.erase(library) == 0 ? cudaErrorInvalidValue : cudaSuccess;
  };
  return call("cudaLibraryUnload", work, true);
}

}  // extern "C"

#endif
