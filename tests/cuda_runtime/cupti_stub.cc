#include "tests/cuda_runtime/cupti_stub.h"

#ifdef METRONOME_CUPTI

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

struct State {
  std::mutex mutex;
  std::map<std::string, CUptiResult> failing;
  CUpti_BuffersCallbackRequestFunc give = nullptr;
  CUpti_BuffersCallbackCompleteFunc take = nullptr;
  std::set<CUpti_ActivityKind> enabled;
  CUpti_CallbackFunc callback = nullptr;
  void* of_callback = nullptr;
  bool tells_copies = false;
  std::map<CUgraphNode, std::uint64_t> numbers;
  std::uint64_t next_number = 1000;
  std::vector<std::uint64_t> labels;
  std::uint32_t calls = 0;
  std::uint64_t clock = 1'000'000;
  std::vector<std::string> records;  // the bytes of each
  std::size_t told = 0;              // of the buffer that is handed over
  std::size_t dropped = 0;           // and not told of yet
};

State& state() {
  static State all;
  return all;
}

template <class Work>
CUptiResult call(const char* name, Work work) {
  State& all = state();
  {
    const std::scoped_lock lock(all.mutex);
    if (const auto found = all.failing.find(name); found != all.failing.end()) return found->second;
  }
  work(all);
  return CUPTI_SUCCESS;
}

template <class Record>
void keep(State& all, const Record& record) {
  all.records.emplace_back(reinterpret_cast<const char*>(&record), sizeof record);
}

template <class Record>
void keep_work(State& all, CUpti_ActivityKind kind, std::uint64_t node) {
  if (!all.enabled.contains(kind)) return;
  Record record{};
  record.kind = kind;
  record.correlationId = all.calls;
  record.graphNodeId = node;
  record.start = all.clock;
  record.end = all.clock + 1000;
  keep(all, record);
}

}  // namespace

extern "C" {

void stub_cupti_copied(CUgraphNode original, CUgraphNode copy) {
  State& all = state();
  all.numbers[copy] = all.next_number++;
  if (!all.tells_copies) return;
  CUpti_GraphData graph{};
  graph.originalNode = original;
  graph.node = copy;
  CUpti_ResourceData resource{};
  resource.resourceDescriptor = &graph;
  all.callback(all.of_callback, CUPTI_CB_DOMAIN_RESOURCE, CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED,
               &resource);
}
void stub_cupti_ran(CUgraphNode node, CUpti_ActivityKind kind) {
  State& all = state();
  ++all.calls;
  if (node == nullptr && !all.labels.empty() &&
      all.enabled.contains(CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION)) {
    CUpti_ActivityExternalCorrelation label{};
    label.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    label.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    label.externalId = all.labels.back();
    label.correlationId = all.calls;
    keep(all, label);
  }
  all.clock += 250;
  const std::uint64_t number = node == nullptr ? 0 : all.numbers.at(node);
  if (kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
    keep_work<CUpti_ActivityMemcpy6>(all, kind, number);
  } else if (kind == CUPTI_ACTIVITY_KIND_MEMSET) {
    keep_work<CUpti_ActivityMemset4>(all, kind, number);
  } else {
    keep_work<CUpti_ActivityKernel10>(all, kind, number);
  }
  all.clock += 1000;
}
void stub_cupti_fail(const char* function, CUptiResult error) {
  const std::scoped_lock lock(state().mutex);
  if (error == CUPTI_SUCCESS) {
    state().failing.clear();
  } else {
    state().failing[function] = error;
  }
}
void stub_cupti_drop(std::size_t records) { state().dropped = records; }
int stub_cupti_busy() {
  return static_cast<int>(state().enabled.size()) + (state().callback == nullptr ? 0 : 1);
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                                           CUpti_BuffersCallbackCompleteFunc take) {
  return call("cuptiActivityRegisterCallbacks", [&](State& all) {
    all.give = give;
    all.take = take;
  });
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  return call("cuptiActivityEnable", [&](State& all) { all.enabled.insert(kind); });
}
CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  return call("cuptiActivityDisable", [&](State& all) { all.enabled.erase(kind); });
}
CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                   std::uint64_t label) {
  return call("cuptiActivityPushExternalCorrelationId",
              [&](State& all) { all.labels.push_back(label); });
}
CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind,
                                                  std::uint64_t* last) {
  return call("cuptiActivityPopExternalCorrelationId", [&](State& all) {
    *last = all.labels.back();
    all.labels.pop_back();
  });
}
CUptiResult cuptiActivityFlushAll(std::uint32_t) {
  return call("cuptiActivityFlushAll", [](State& all) {
    if (all.records.empty()) return;
    std::uint8_t* buffer = nullptr;
    std::size_t bytes = 0, most = 0;
    all.give(&buffer, &bytes, &most);
    all.told = 0;
    all.take(nullptr, 0, buffer, bytes, bytes);
    all.records.clear();
  });
}
CUptiResult cuptiActivityGetNextRecord(std::uint8_t*, std::size_t, CUpti_Activity** record) {
  State& all = state();
  if (all.told == all.records.size()) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(all.records[all.told++].data());
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, std::uint32_t, std::size_t* dropped) {
  *dropped = std::exchange(state().dropped, 0);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* made, CUpti_CallbackFunc callback, void* of) {
  if (state().callback != nullptr) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  return call("cuptiSubscribe", [&](State& all) {
    all.callback = callback;
    all.of_callback = of;
    *made = reinterpret_cast<CUpti_SubscriberHandle>(&all);
  });
}
CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle) {
  return call("cuptiUnsubscribe", [](State& all) {
    all.callback = nullptr;
    all.tells_copies = false;
  });
}
CUptiResult cuptiEnableCallback(std::uint32_t enable, CUpti_SubscriberHandle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id) {
  return call("cuptiEnableCallback", [&](State& all) {
    if (domain == CUPTI_CB_DOMAIN_RESOURCE && id == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED) {
      all.tells_copies = enable != 0;
    }
  });
}
CUptiResult cuptiGetGraphNodeId(CUgraphNode node, std::uint64_t* number) {
  return call("cuptiGetGraphNodeId", [&](State& all) { *number = all.numbers.at(node); });
}

}  // extern "C"

#endif
