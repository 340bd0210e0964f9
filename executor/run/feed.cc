#include "executor/run/feed.h"

#include <ATen/core/Tensor.h>

#include <new>
#include <utility>

namespace metronome {

static_assert(sizeof(at::Tensor) == sizeof(void*) && alignof(at::Tensor) == alignof(void*));

Feed::Feed(Value input, at::Tensor tensor) : input(std::move(input)) {
  new (bytes_) at::Tensor(std::move(tensor));
}
Feed::Feed(std::string name, at::Tensor tensor) : name(std::move(name)) {
  new (bytes_) at::Tensor(std::move(tensor));
}
Feed::Feed(Value input, Tensor tensor)
    : input(std::move(input)), is_own_(true), own_(std::move(tensor)) {
  new (bytes_) at::Tensor();
}
Feed::Feed(std::string name, Tensor tensor)
    : name(std::move(name)), is_own_(true), own_(std::move(tensor)) {
  new (bytes_) at::Tensor();
}
Feed::Feed(const Feed& other)
    : input(other.input), name(other.name), is_own_(other.is_own_), own_(other.own_) {
  new (bytes_) at::Tensor(other.tensor());
}
Feed::Feed(Feed&& other) noexcept
    : input(std::move(other.input)),
      name(std::move(other.name)),
      is_own_(other.is_own_),
      own_(std::move(other.own_)) {
  new (bytes_) at::Tensor(std::move(other.tensor()));
}
Feed& Feed::operator=(const Feed& other) {
  Feed copy(other);
  return *this = std::move(copy);
}
Feed& Feed::operator=(Feed&& other) noexcept {
  input = std::move(other.input);
  name = std::move(other.name);
  is_own_ = other.is_own_;
  own_ = std::move(other.own_);
  tensor() = std::move(other.tensor());
  return *this;
}
Feed::~Feed() { tensor().~Tensor(); }

}  // namespace metronome
