#include "executor/support/load_watch.h"

#include <mutex>

namespace metronome::executor {
namespace {

std::mutex& meter_mutex() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

LoadMeter& load_meter() {
  static LoadMeter meter;
  return meter;
}

LoadWatch::LoadWatch() {
  const std::scoped_lock lock(meter_mutex());
  begin_ = load_meter().sample();
}

double LoadWatch::share() const {
  const std::scoped_lock lock(meter_mutex());
  return load_meter().share_since(begin_);
}

}  // namespace metronome::executor
