#include "executor/run/executable.h"

#include <fmt/format.h>

#include <utility>

#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/take_snapshot.h"
#include "executor/libtorch/convert.h"
#include "executor/record/plan_record.h"
#include "executor/record/trace.h"
#include "executor/run/executable_impl.h"
#include "executor/run/feed.h"
#include "graph/ir/error.h"

namespace metronome {
namespace {

/// A tensor of the caller's own making, which may be none.
void offer(const Tensor& tensor, CallerTensor& as) {
  as.of_other_element = false;
  as.instead.clear();
  as.tensor = tensor;
  if (tensor.sizes.size() != tensor.strides.size()) {
    as.instead =
        fmt::format("of {} sizes and {} strides", tensor.sizes.size(), tensor.strides.size());
  } else if (tensor.data == nullptr && tensor.numel() > 0) {
    as.instead = fmt::format("{} without numbers", to_string(tensor.type()));
  }
}

CallerTensor offered_by(const Tensor& tensor) {
  CallerTensor offered;
  offer(tensor, offered);
  return offered;
}
CallerTensor offered_by(const at::Tensor& tensor) {
  CallerTensor offered;
  show(tensor, offered);
  return offered;
}

/// A tensor to be written to: its own bytes, which no other tensor has.
CallerTensor place_in(const at::Tensor& tensor) {
  CallerTensor offered = offered_by(tensor);
  if (!offered.instead.empty()) return offered;
  if (offered.tensor.owner != nullptr) {  // `show` copied it
    offered.instead = fmt::format("a {}, which has no bytes of its own",
                                  tensor.is_neg() ? "negated view" : "zero tensor");
  } else {
    offered.tensor.data = static_cast<std::byte*>(tensor.mutable_data_ptr());
  }
  return offered;
}

class TorchFeeds final : public executor::FeedViews {
 public:
  explicit TorchFeeds(std::span<const Feed> feeds) : feeds_(feeds) {}
  std::size_t size() const override { return feeds_.size(); }
  void show(std::size_t index, executor::FeedView& as) const override {
    const Feed& feed = feeds_[index];
    as.input = &feed.input;
    as.name = feed.name;
    if (feed.own() != nullptr) return offer(*feed.own(), as.offered);
    metronome::show(feed.tensor(), as.offered);
  }
  std::shared_ptr<void> owner_of(std::size_t index) const override {
    const Feed& feed = feeds_[index];
    return feed.own() != nullptr ? feed.own()->owner : metronome::owner_of(feed.tensor());
  }

 private:
  std::span<const Feed> feeds_;
};

}  // namespace

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

Executable::Impl& Executable::require_impl() const {
  if (impl_ != nullptr) return *impl_;
  throw RunError(
      "this Executable was moved from and holds nothing; call the one that it was moved to");
}

void Executable::run(std::initializer_list<Feed> feeds, RunOptions options) {
  run(std::span(feeds.begin(), feeds.size()), std::move(options));
}
void Executable::run(std::span<const Feed> feeds, RunOptions options) {
  require_impl().step({Mode::train}, TorchFeeds(feeds), options.graph);
}
std::vector<std::vector<double>> Executable::run_many(std::int64_t steps,
                                                      std::initializer_list<Value> scalars,
                                                      RunOptions options) {
  return require_impl().run_many(steps, std::span(scalars.begin(), scalars.size()), options.graph);
}
void Executable::evaluate(std::initializer_list<Feed> feeds, EvaluateOptions options) {
  evaluate(std::span(feeds.begin(), feeds.size()), std::move(options));
}
void Executable::evaluate(std::span<const Feed> feeds, EvaluateOptions options) {
  const Mode mode = options.states == States::advance ? Mode::advance : Mode::evaluate;
  require_impl().step({mode, require_impl().declared.average_of(options.with)}, TorchFeeds(feeds),
                      options.graph);
}

Profile Executable::profile(std::initializer_list<Feed> feeds, ProfileOptions options) {
  return profile(std::span(feeds.begin(), feeds.size()), std::move(options));
}
Profile Executable::profile(std::span<const Feed> feeds, ProfileOptions options) {
  return require_impl().profile({options.mode}, TorchFeeds(feeds), options.graph, options.steps);
}

void Executable::start_trace(int steps) { require_impl().start_trace(steps); }
Trace Executable::trace() const {
  if (!require_impl().tracing) {
    throw RunError(fmt::format("graph \"{}\": no step was traced; call start_trace and run some",
                               require_impl().declared.first().name()));
  }
  return require_impl().tracing->trace();
}

at::Tensor Executable::input(Value input) {
  return to_torch(require_impl().hand_out(require_impl().declared.input_of(input), true));
}
at::Tensor Executable::input(std::string_view name) {
  Impl& impl = require_impl();
  return to_torch(impl.hand_out(impl.feeds.place_of(impl.declared.input_of(name)), false));
}

at::Tensor Executable::read(Value value) const {
  return to_torch(require_impl().values.read(require_impl().declared.readable_of(value)));
}
at::Tensor Executable::read(std::string_view name) const {
  return to_torch(require_impl().values.read(require_impl().declared.readable_of(name)));
}
Tensor Executable::read_tensor(Value value) const {
  return require_impl().values.read(require_impl().declared.readable_of(value));
}
Tensor Executable::read_tensor(std::string_view name) const {
  return require_impl().values.read(require_impl().declared.readable_of(name));
}
void Executable::read_into(Value value, const at::Tensor& to) const {
  require_impl().values.read_into(require_impl().declared.readable_of(value), place_in(to));
}
void Executable::read_into(std::string_view name, const at::Tensor& to) const {
  require_impl().values.read_into(require_impl().declared.readable_of(name), place_in(to));
}
void Executable::read_into(Value value, const Tensor& to) const {
  require_impl().values.read_into(require_impl().declared.readable_of(value), offered_by(to));
}
void Executable::read_into(std::string_view name, const Tensor& to) const {
  require_impl().values.read_into(require_impl().declared.readable_of(name), offered_by(to));
}
double Executable::read_scalar(Value value) const {
  return require_impl().values.read_scalar(require_impl().declared.readable_of(value));
}
double Executable::read_scalar(Value value, std::int64_t step) const {
  return require_impl().values.read_scalar(require_impl().declared.readable_of(value), step);
}

at::Tensor Executable::get(std::string_view path) const {
  return to_torch(require_impl().storages.get(require_impl().storages.storage_of(path)));
}
Tensor Executable::get_tensor(std::string_view path) const {
  return require_impl().storages.get(require_impl().storages.storage_of(path));
}
void Executable::set(std::string_view path, const Tensor& tensor) {
  require_impl().set(path, offered_by(tensor));
}
void Executable::set(std::string_view path, const at::Tensor& tensor) {
  require_impl().set(path, offered_by(tensor));
}
void Executable::set_learning_rate(double rate, std::string_view objective) {
  require_impl().settable().set(executor::SettableNumber::learning_rate, objective, rate);
}
void Executable::set_weight_decay(double decay, std::string_view objective) {
  require_impl().settable().set(executor::SettableNumber::weight_decay, objective, decay);
}
void Executable::set_clip_norm(double norm, std::string_view objective) {
  require_impl().settable().set(executor::SettableNumber::clip_norm, objective, norm);
}
double Executable::learning_rate(std::string_view objective) const {
  return require_impl().settable().get(executor::SettableNumber::learning_rate, objective);
}
double Executable::weight_decay(std::string_view objective) const {
  return require_impl().settable().get(executor::SettableNumber::weight_decay, objective);
}
double Executable::clip_norm(std::string_view objective) const {
  return require_impl().settable().get(executor::SettableNumber::clip_norm, objective);
}

std::vector<std::string> Executable::storages() const { return require_impl().storages.paths(); }

void Executable::reset() { require_impl().storages.reset_states(std::nullopt); }
void Executable::reset(std::string_view path) { require_impl().storages.reset_states(path); }

std::int64_t Executable::steps() const { return require_impl().engine->steps(); }
std::int64_t Executable::replays() const {
  const Impl& impl = require_impl();
  return impl.storages.counter(impl.declared.first().counters().replay);
}
std::int64_t Executable::updates() const {
  const Impl& impl = require_impl();
  return impl.storages.counter(impl.declared.first().counters().update);
}
std::optional<std::string> Executable::fault() const {
  const Impl& impl = require_impl();
  impl.engine->settle();
  return impl.engine->fault();
}

void Executable::save(const std::string& file) const {
  Impl& impl = require_impl();
  impl.storages.save(file);
  impl.values.warn_of_fault();
  impl.storages.warn_of_saved(file);
}
std::vector<std::string> Executable::load(const std::string& file) {
  return require_impl().storages.load([&](auto storages, const auto& expected) {
    return executor::checkpoint::load_checkpoint(file, storages, expected);
  });
}
Snapshot Executable::snapshot() const { return require_impl().storages.snapshot(); }
void Executable::save(const std::string& file, const SaveOptions& options) const {
  Impl& impl = require_impl();
  impl.storages.save_weights(file, options);
  impl.values.warn_of_fault();
}
LoadReport Executable::load(const std::string& file, const LoadOptions& options) {
  return require_impl().storages.load_weights(file, options);
}
LoadReport Executable::load(const Snapshot& snapshot, const LoadOptions& options) {
  return require_impl().storages.load_weights(snapshot, options);
}
std::vector<std::string> Executable::load(const Snapshot& snapshot) {
  return require_impl().storages.load([&](auto storages, const auto& expected) {
    return executor::checkpoint::load_snapshot(snapshot, storages, expected);
  });
}

const Report& Executable::report() const { return require_impl().report; }

PlanRecord Executable::plan_record() const { return require_impl().plan_record(); }
PlanRecord Executable::plan_record(const Profile& profile) const {
  PlanRecord record = plan_record();
  record.times = {.steps = profile.steps,
                  .plan = profile.plan,
                  .kernels = profile.kernels,
                  .idle_microseconds = profile.idle_microseconds,
                  .overlap_microseconds = profile.overlap_microseconds,
                  .under_load = profile.under_load};
  return record;
}

}  // namespace metronome
