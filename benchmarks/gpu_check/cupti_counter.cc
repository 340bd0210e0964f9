#include "benchmarks/gpu_check/cupti_counter.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <string_view>

#include "graph/ir/error.h"

#if __has_include(<cupti.h>)
#include <cupti.h>
#define METRONOME_CUPTI 1
#endif

namespace metronome::gpu_check {
#if defined(METRONOME_CUPTI)
namespace {

// More than CUDA 13's two interfaces have calls each.
constexpr std::size_t kMostCalls = 2048;

// One call of one interface. Callbacks come from any thread and must not call CUDA or allocate.
struct Count {
  std::atomic<std::int64_t> calls = 0;
  std::atomic<const char*> name = nullptr;  // CUPTI's own, which stays
};
std::array<std::array<Count, kMostCalls>, 2> counts;
std::atomic<bool> counting = false;

void CUPTIAPI count_call(void*, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                         const void* data) {
  const auto* call = static_cast<const CUpti_CallbackData*>(data);
  if (!counting || call->callbackSite != CUPTI_API_ENTER) return;
  Count& count = counts[domain == CUPTI_CB_DOMAIN_RUNTIME_API ? 0 : 1].at(id);
  count.name = call->functionName;
  ++count.calls;
}

// The part of a name that versions leave alone: "cudaMalloc_v3020" and "cuMemAlloc_v2" have one.
std::string_view name_without_version(std::string_view name) {
  return name.substr(0, name.find("_v"));
}

}  // namespace

struct CuptiCounter::Cupti {
  void* library = nullptr;
  CUpti_SubscriberHandle subscriber = nullptr;

  template <class Function, class... Arguments>
  CUptiResult call(const char* name, Arguments... arguments) const {
    void* address = dlsym(library, name);
    if (address == nullptr) throw RunError(fmt::format("libcupti.so.13 has no {}", name));
    return reinterpret_cast<Function*>(address)(arguments...);
  }
};

CuptiCounter::CuptiCounter() : cupti_(std::make_unique<Cupti>()) {
  Cupti& c = *cupti_;
  c.library = dlopen("libcupti.so.13", RTLD_NOW);
  if (c.library == nullptr) throw RunError(fmt::format("there is no CUPTI: {}", dlerror()));
  const auto expect = [](CUptiResult result, const char* what) {
    if (result == CUPTI_SUCCESS) return;
    throw RunError(fmt::format("CUPTI refuses to {}: error {}", what, static_cast<int>(result)));
  };
  expect(c.call<decltype(cuptiSubscribe)>("cuptiSubscribe", &c.subscriber, count_call, nullptr),
         "watch this process");
  for (const auto domain : {CUPTI_CB_DOMAIN_RUNTIME_API, CUPTI_CB_DOMAIN_DRIVER_API}) {
    expect(c.call<decltype(cuptiEnableDomain)>("cuptiEnableDomain", 1, c.subscriber, domain),
           "watch CUDA's calls");
  }
}

CuptiCounter::~CuptiCounter() {
  counting = false;
  cupti_->call<decltype(cuptiUnsubscribe)>("cuptiUnsubscribe", cupti_->subscriber);
}

void CuptiCounter::begin() {
  for (auto& domain : counts) {
    for (Count& count : domain) count.calls = 0;
  }
  counting = true;
}

Calls CuptiCounter::end() {
  counting = false;
  Calls calls;
  for (const auto& domain : counts) {
    for (const Count& count : domain) {
      if (count.calls > 0)
        calls[std::string(name_without_version(count.name.load()))] += count.calls;
    }
  }
  return calls;
}

#else

struct CuptiCounter::Cupti {};
CuptiCounter::CuptiCounter() {
  throw RunError("this program was built without CUPTI's header, cupti.h, of the CUDA 13 toolkit");
}
CuptiCounter::~CuptiCounter() = default;
void CuptiCounter::begin() {}
Calls CuptiCounter::end() { return {}; }

#endif

namespace {

std::int64_t sum(const Calls& calls, auto wanted) {
  std::int64_t sum = 0;
  for (const auto& [name, count] : calls) {
    if (wanted(std::string_view(name))) sum += count;
  }
  return sum;
}

}  // namespace

std::int64_t allocations(const Calls& calls) {
  return sum(calls, [](std::string_view name) {
    for (const char* begin :
         {"cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cuMemAlloc", "cuMemFree",
          "cuMemHostAlloc", "cuMemHostRegister", "cuMemCreate"}) {
      if (name.starts_with(begin)) return true;
    }
    return false;
  });
}

std::int64_t event_waits(const Calls& calls) {
  return sum(calls, [](std::string_view name) { return name == "cudaEventSynchronize"; });
}

std::int64_t synchronizations(const Calls& calls) {
  return sum(calls, [](std::string_view name) {
    return name.find("Synchronize") != name.npos && name.find("EventSynchronize") == name.npos;
  });
}

}  // namespace metronome::gpu_check
