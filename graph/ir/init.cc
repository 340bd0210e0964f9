#include "graph/ir/init.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "graph/ir/half.h"

namespace metronome {
namespace {

template <class T>
double number_at(const std::byte* bytes, std::size_t i) {
  T number;
  std::memcpy(&number, bytes + i * sizeof number, sizeof number);
  return static_cast<double>(number);
}

std::optional<Requirement> wrong_uniform(const Init& init, const Type& type) {
  const double width = init.b - init.a;
  if (std::isfinite(init.a) && std::isfinite(init.b) && init.a <= init.b && std::isfinite(width) &&
      holds(type.element, init.a) && holds(type.element, init.b)) {
    return std::nullopt;
  }
  return Requirement{
      fmt::format("a finite lower bound for {}, and an upper one that is not below "
                  "it, but {} and {}",
                  name_of(type.element), init.a, init.b)};
}

std::optional<Requirement> wrong_normal(const Init& init, const Type& type) {
  if (!std::isfinite(init.a) || !holds(type.element, init.a)) {
    return Requirement{
        fmt::format("a finite mean that {} can hold, but {}", name_of(type.element), init.a)};
  }
  if (!(init.b >= 0) || std::isinf(init.b) || !holds(type.element, init.b)) {
    return Requirement{fmt::format("a finite deviation of 0 or more that {} can hold, but {}",
                                   name_of(type.element), init.b)};
  }
  return std::nullopt;
}

std::optional<Requirement> wrong_truncated(const Init& init, const Type& type) {
  if (auto wrong = wrong_normal(init, type)) return wrong;
  // Beyond, its probabilities are too few numbers to draw from.
  const double low = (init.low - init.a) / init.b, high = (init.high - init.a) / init.b;
  if (init.b > 0 && low < high && low <= 6 && high >= -6) return std::nullopt;
  return Requirement{fmt::format(
      "a deviation above 0, and bounds in order, not all beyond 6 deviations, but {}, {} and {}",
      init.b, init.low, init.high)};
}

std::optional<Requirement> wrong_orthogonal(const Type& type) {
  if (type.rank() >= 2) return std::nullopt;
  return Requirement{fmt::format("two dimensions or more for orthogonal, but {}", to_string(type))};
}

std::optional<Requirement> wrong_number(double number, const Type& type, bool trained) {
  if (!holds(type.element, number)) {
    return Requirement{fmt::format("{}, but {}", what_holds(type.element), number)};
  }
  if (std::isnan(number)) return Requirement{fmt::format("a number, but {}", number)};
  if (trained && std::isinf(number)) {
    return Requirement{fmt::format("a finite number for what is trained, but {}", number)};
  }
  return std::nullopt;
}

}  // namespace

InitialNumbers::InitialNumbers(const std::vector<double>& numbers) {
  const auto* const first = reinterpret_cast<const std::byte*>(numbers.data());
  bytes_ = std::make_shared<const std::vector<std::byte>>(first,
                                                          first + numbers.size() * sizeof(double));
}

InitialNumbers::InitialNumbers(Element element, std::vector<std::byte> bytes)
    : element_(element), bytes_(std::make_shared<const std::vector<std::byte>>(std::move(bytes))) {}

std::size_t InitialNumbers::size() const { return bytes_ ? bytes_->size() / size_of(element_) : 0; }

double InitialNumbers::operator[](std::size_t i) const {
  const std::byte* const bytes = bytes_->data();
  switch (element_) {
    case Element::f32:
      return number_at<float>(bytes, i);
    case Element::f64:
      return number_at<double>(bytes, i);
    case Element::i32:
      return number_at<std::int32_t>(bytes, i);
    case Element::i64:
      return number_at<std::int64_t>(bytes, i);
    case Element::bool_:
      return bytes[i] != std::byte{0} ? 1 : 0;
    case Element::f16:
      return number_at<Float16>(bytes, i);
    case Element::bf16:
      return number_at<BFloat16>(bytes, i);
  }
  throw InternalError("an element type out of range");
}

const std::byte* InitialNumbers::bytes_of(Element element) const {
  return bytes_ && element == element_ ? bytes_->data() : nullptr;
}

bool InitialNumbers::operator==(const InitialNumbers& other) const {
  if (size() != other.size()) return false;
  for (std::size_t i = 0; i < size(); ++i) {
    if ((*this)[i] != other[i]) return false;
  }
  return true;
}

std::string to_string(const Init& init) {
  switch (init.kind) {
    case Init::Kind::constant:
      return fmt::format("{}", init.a);
    case Init::Kind::uniform:
      return fmt::format("uniform({}, {})", init.a, init.b);
    case Init::Kind::normal:
      return fmt::format("normal({}, {})", init.a, init.b);
    case Init::Kind::values:
      return fmt::format("{} values", init.values.size());
    case Init::Kind::truncated_normal:
      return fmt::format("truncated_normal({}, {}, {}, {})", init.a, init.b, init.low, init.high);
    case Init::Kind::orthogonal:
      return fmt::format("orthogonal({})", init.a);
  }
  throw InternalError("an initial value's kind out of range");
}

std::optional<Requirement> wrong_init(const Init& init, const Type& type, bool trained) {
  if (!init.wrong.empty()) return Requirement{init.wrong};
  const auto given = static_cast<std::int64_t>(init.values.size());
  switch (init.kind) {
    case Init::Kind::constant:
      return wrong_number(init.a, type, trained);
    case Init::Kind::values:
      if (given != type.numel()) {
        return Requirement{
            fmt::format("{} initial values for {}, but {}", type.numel(), to_string(type), given)};
      }
      for (std::size_t i = 0; i < init.values.size(); ++i) {
        if (auto wrong = wrong_number(init.values[i], type, trained)) {
          wrong->requires_ += fmt::format(", which is value {}", i);
          return wrong;
        }
      }
      return std::nullopt;
    default:
      break;
  }
  if (!is_floating(type.element)) {
    return Requirement{
        fmt::format("a floating element type for {}, but {}", to_string(init), to_string(type))};
  }
  if (init.kind == Init::Kind::uniform) return wrong_uniform(init, type);
  if (init.kind == Init::Kind::normal) return wrong_normal(init, type);
  if (init.kind == Init::Kind::truncated_normal) return wrong_truncated(init, type);
  if (init.kind == Init::Kind::orthogonal) return wrong_orthogonal(type);
  throw InternalError("an initial value's kind out of range");
}

}  // namespace metronome
