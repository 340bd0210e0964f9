// CUPTI calls back for each node that is copied, on the thread that instantiates and before the
// instantiation returns. It has one subscriber in a process: ours stays one no longer than needed.
#include "executor/cuda/runtime/watched_graph.h"

#include <fmt/format.h>

#include <mutex>
#include <utility>

#include "graph/ir/error.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#define METRONOME_CUPTI 1
#endif

namespace metronome::executor::runtime {

void NodeCopies::add(cudaGraphNode_t original, cudaGraphNode_t copy, std::uint64_t number) {
  const auto found = commands_.find(original);
  if (found == commands_.end()) return;
  const std::int32_t command = found->second;
  commands_[copy] = command;
  numbers_[number] = command;
}

std::vector<RunRecord> NodeCopies::runs(std::span<const NodeActivity> records) const {
  std::vector<RunRecord> result;
  std::uint64_t first = 0;
  for (const NodeActivity& record : records) {
    const auto found = numbers_.find(record.node);
    if (found == numbers_.end()) continue;
    if (result.empty()) first = record.begin_ns;
    const auto since = [&](std::uint64_t ns) { return static_cast<double>(ns - first) / 1e3; };
    result.push_back({found->second, since(record.begin_ns), since(record.end_ns)});
  }
  return result;
}

#if defined(METRONOME_CUPTI)
namespace {

/// Told of copies from its making to its end.
class CopyWatch {
 public:
  CopyWatch(const libraries::Library& cupti, NodeCopies& copies)
      : copies_(copies),
        number_of_(cupti.function<decltype(cuptiGetGraphNodeId)>("cuptiGetGraphNodeId")),
        unsubscribe_(cupti.function<decltype(cuptiUnsubscribe)>("cuptiUnsubscribe")) {
    require(cupti.function<decltype(cuptiSubscribe)>("cuptiSubscribe")(&subscriber_, tell, this),
            "CUPTI tells of no graph's nodes, perhaps as another tool watches this process");
    const CUptiResult enabled =
        cupti.function<decltype(cuptiEnableCallback)>("cuptiEnableCallback")(
            1, subscriber_, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
    if (enabled == CUPTI_SUCCESS) return;
    static_cast<void>(unsubscribe_(subscriber_));
    require(enabled, "CUPTI tells of no graph's nodes");
  }
  ~CopyWatch() { static_cast<void>(unsubscribe_(subscriber_)); }
  CopyWatch(const CopyWatch&) = delete;
  CopyWatch& operator=(const CopyWatch&) = delete;

  /// Throws RunError where a copy could not be told.
  void require_told() const { require(failed_, "CUPTI numbers no node of a graph"); }

 private:
  static void require(CUptiResult result, const char* refused) {
    if (result == CUPTI_SUCCESS) return;
    throw RunError(fmt::format("{}: error {}", refused, static_cast<int>(result)));
  }

  static void CUPTIAPI tell(void* watch, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                            const void* data) {
    if (domain != CUPTI_CB_DOMAIN_RESOURCE || id != CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) return;
    const auto* resource = static_cast<const CUpti_ResourceData*>(data);
    static_cast<CopyWatch*>(watch)->add(
        *static_cast<const CUpti_GraphData*>(resource->resourceDescriptor));
  }
  void add(const CUpti_GraphData& cloned) noexcept {
    const std::lock_guard lock(mutex_);  // other threads may instantiate theirs
    if (!copies_.has(cloned.originalNode)) return;
    std::uint64_t number = 0;
    const CUptiResult result = number_of_(cloned.node, &number);
    if (result != CUPTI_SUCCESS) {
      failed_ = result;
    } else {
      copies_.add(cloned.originalNode, cloned.node, number);
    }
  }

  NodeCopies& copies_;
  decltype(&cuptiGetGraphNodeId) number_of_;
  decltype(&cuptiUnsubscribe) unsubscribe_;
  CUpti_SubscriberHandle subscriber_ = nullptr;
  std::mutex mutex_;
  CUptiResult failed_ = CUPTI_SUCCESS;
};

}  // namespace

WatchedGraph instantiate_watched(const libraries::Library& cupti, cudaGraph_t graph,
                                 NodeCopies copies, cudaStream_t stream) {
  WatchedGraph watched{nullptr, std::move(copies)};
  const CopyWatch watch(cupti, watched.copies);
  watched.exec = instantiate(graph, stream);
  watch.require_told();
  return watched;
}

#else

WatchedGraph instantiate_watched(const libraries::Library&, cudaGraph_t, NodeCopies, cudaStream_t) {
  throw RunError("this program was built without CUPTI's header, cupti.h, of the CUDA 13 toolkit");
}

#endif

}  // namespace metronome::executor::runtime
