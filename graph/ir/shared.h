// Vectors and strings that many nodes of many graphs share.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace metronome {

/// A vector or string that is made once and never changed: a copy shares it, as each pass copies
/// nodes. Read as a `const T`.
template <class T>
class SharedConst {
 public:
  SharedConst() = default;
  SharedConst(T value)  // NOLINT: a T where a SharedConst is asked for
      : value_(value.empty() ? nullptr : std::make_shared<const T>(std::move(value))) {}
  SharedConst(const char* text)  // NOLINT: so is a literal
    requires std::same_as<T, std::string>
      : SharedConst(std::string(text)) {}

  const T& get() const {
    static const T none;
    return value_ ? *value_ : none;
  }
  operator const T&() const { return get(); }  // NOLINT
  operator std::string_view() const            // NOLINT
    requires std::same_as<T, std::string>
  {
    return get();
  }

  bool empty() const { return value_ == nullptr; }
  std::size_t size() const { return get().size(); }
  const auto& operator[](std::size_t i) const { return (*value_)[i]; }
  const auto& front() const { return get().front(); }
  const auto& back() const { return get().back(); }
  const auto* data() const { return get().data(); }
  auto begin() const { return get().begin(); }
  auto end() const { return get().end(); }

  friend bool operator==(const SharedConst& a, const SharedConst& b) {
    return a.value_ == b.value_ || a.get() == b.get();
  }
  friend bool operator==(const SharedConst& a, const T& b) { return a.get() == b; }
  friend bool operator==(const SharedConst& a, const char* b)
    requires std::same_as<T, std::string>
  {
    return a.get() == b;
  }

 private:
  std::shared_ptr<const T> value_;
};

}  // namespace metronome
