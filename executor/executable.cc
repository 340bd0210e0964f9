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

at::Tensor Executable::input(Value input) { return impl_->fill(impl_->input_of(input)); }
at::Tensor Executable::input(std::string_view name) { return impl_->fill(impl_->input_of(name)); }

at::Tensor Executable::read(Value value) const {
  const std::size_t index = impl_->readable_of(value);
  return impl_->engine->readable(impl_->last_mode(index), index);
}
at::Tensor Executable::read(std::string_view name) const {
  const std::size_t index = impl_->readable_of(name);
  return impl_->engine->readable(impl_->last_mode(index), index);
}
double Executable::read_scalar(Value value) const {
  const std::size_t index = impl_->readable_of(value);
  const Readable& readable = impl_->declared.readables()[index];
  const Type& type = impl_->declared.type(readable.declared);
  if (type.numel() != 1) {
    throw RunError(
        fmt::format("graph \"{}\": read_scalar requires one element, but \"{}\" is {}; use read",
                    impl_->declared.name(), readable.name, to_string(type)));
  }
  return impl_->engine->scalar(impl_->last_mode(index), index);
}

at::Tensor Executable::get(std::string_view path) const {
  const std::size_t index = impl_->storage_of(path);
  return tensor_over(impl_->memory.storage_blocks[index].data(),
                     impl_->memory.storages[index].type);
}
void Executable::set(std::string_view path, const at::Tensor& tensor) {
  impl_->set_storage(impl_->storage_of(path), tensor);
}
std::vector<std::string> Executable::storages() const {
  std::vector<std::string> paths;
  for (const Storage& s : impl_->memory.storages) paths.push_back(s.path);
  return paths;
}

std::int64_t Executable::replays() const {
  return *reinterpret_cast<const std::int64_t*>(impl_->memory.storage_blocks[1].data());
}
std::int64_t Executable::updates() const {
  return *reinterpret_cast<const std::int64_t*>(impl_->memory.storage_blocks[2].data());
}

void Executable::save(const std::string& file) const {
  save_checkpoint(file, impl_->checkpointed(), {impl_->options.seed, impl_->report.choices_hash});
}
std::vector<std::string> Executable::load(const std::string& file) {
  return load_checkpoint(file, impl_->checkpointed(),
                         {impl_->options.seed, impl_->report.choices_hash});
}

const Report& Executable::report() const { return impl_->report; }

}  // namespace metronome
