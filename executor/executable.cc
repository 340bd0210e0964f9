#include "executor/executable.h"

#include <fmt/format.h>

#include "executor/checkpoint.h"
#include "executor/executable_impl.h"
#include "graph/error.h"

namespace metronome {

Executable::Executable(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;
Executable::~Executable() = default;

void Executable::run(std::initializer_list<Feed> feeds) {
  impl_->step(Mode::train, std::span(feeds.begin(), feeds.size()));
}
void Executable::run(std::span<const Feed> feeds) { impl_->step(Mode::train, feeds); }
void Executable::evaluate(std::initializer_list<Feed> feeds) {
  impl_->step(Mode::evaluate, std::span(feeds.begin(), feeds.size()));
}
void Executable::evaluate(std::span<const Feed> feeds) { impl_->step(Mode::evaluate, feeds); }

std::vector<KernelTime> Executable::profile(std::initializer_list<Feed> feeds) {
  return profile(std::span(feeds.begin(), feeds.size()));
}
std::vector<KernelTime> Executable::profile(std::span<const Feed> feeds) {
  std::vector<KernelTime> times;
  impl_->step(Mode::train, feeds, &times);
  return times;
}

at::Tensor Executable::input(Value input) { return impl_->fill(impl_->input_of(input)); }
at::Tensor Executable::input(std::string_view name) { return impl_->fill(impl_->input_of(name)); }

at::Tensor Executable::read(Value value) const { return impl_->read(impl_->readable_of(value)); }
at::Tensor Executable::read(std::string_view name) const {
  return impl_->read(impl_->readable_of(name));
}
double Executable::read_scalar(Value value) const {
  return impl_->read_scalar(impl_->readable_of(value));
}
double Executable::read_scalar(Value value, std::int64_t step) const {
  return impl_->read_scalar(impl_->readable_of(value), step);
}

at::Tensor Executable::get(std::string_view path) const {
  return impl_->storage_tensor(impl_->storage_of(path));
}
void Executable::set(std::string_view path, const at::Tensor& tensor) {
  impl_->set_storage(impl_->storage_of(path), tensor);
}
std::vector<std::string> Executable::storages() const {
  std::vector<std::string> paths;
  for (const Storage& s : impl_->memory.storages) paths.push_back(s.path);
  return paths;
}

void Executable::reset() { impl_->reset_states(std::nullopt); }
void Executable::reset(std::string_view path) { impl_->reset_states(path); }

std::int64_t Executable::steps() const { return impl_->engine->steps(); }
std::int64_t Executable::replays() const { return impl_->counter(1); }
std::int64_t Executable::updates() const { return impl_->counter(2); }
std::optional<std::string> Executable::fault() const {
  impl_->engine->settle();
  return impl_->engine->fault();
}

void Executable::save(const std::string& file) const {
  impl_->fetch_all();
  save_checkpoint(file, impl_->checkpointed(), {impl_->options.seed, impl_->report.choices_hash});
  impl_->warn_of_fault();
}
std::vector<std::string> Executable::load(const std::string& file) {
  impl_->fetch_all();
  struct Push {  // whether it loads, or resets what it had begun to load
    Impl& impl;
    ~Push() { impl.push_all(); }
  } const push{*impl_};
  return load_checkpoint(file, impl_->checkpointed(),
                         {impl_->options.seed, impl_->report.choices_hash});
}

const Report& Executable::report() const { return impl_->report; }

}  // namespace metronome
