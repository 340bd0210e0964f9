// Statements that are right until something wrong is fed to them. `stray` is an input of their own,
// of one element; `h` is the stream.
#include <array>
#include <limits>

#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

Value row(const Value& h) { return h.reshape({1, -1}); }
Value embedded(Graph& g, const Value& index) {
  return mean(embedding_lookup(g.constant({0.1, 0.2, 0.3}, {f64, {3, 1}}), index));
}
Value masked(const Value& h, const Value& mask) {
  const Value all = softmax(concat({h.reshape({-1}), mask}, 0));
  return h + all.slice(0, 0, h.type().numel()).reshape(h.shape());
}
Value picked_branch(const Value& h, const Value& selector) {
  return h.choose(selector.reshape({}), {tanh, sin, tanh});
}
double count(const Value& h) { return static_cast<double>(h.type().numel()); }
template <int N>
double always(const Value&) {
  return N;
}
double nan(const Value&) { return kNaN; }
double infinity(const Value&) { return -kInfinity; }

#define DATA_MISTAKE(...)                                                   \
  #__VA_ARGS__, [](Graph& g, const Value& h, const Value& stray) -> Value { \
    (void)g;                                                                \
    return __VA_ARGS__;                                                     \
  }

const std::array kDataMistakes = {
    // indices: one too many, as of those who count from 1, and one too few
    DataMistake{DATA_MISTAKE(h + 0.1 * cross_entropy_loss(row(h), stray)), i64, count, "target {}"},
    DataMistake{DATA_MISTAKE(h - 0.1 * cross_entropy_loss(row(h), stray)), i64, always<-1>,
                "target {}"},
    DataMistake{DATA_MISTAKE(h + embedded(g, stray)), i64, always<3>, "index {}"},
    DataMistake{DATA_MISTAKE(h - embedded(g, stray)), i32, always<-7>, "index {}"},
    DataMistake{DATA_MISTAKE(h + mean(pick(row(h), stray))), i32, count, "index {}"},
    DataMistake{DATA_MISTAKE(picked_branch(h, stray)), i32, always<3>, "selector {}"},
    // numbers that are not finite
    DataMistake{DATA_MISTAKE(h + stray), f64, nan, "read a NaN from input \"stray{}\""},
    DataMistake{DATA_MISTAKE(h + log(stray)), f64, always<-1>, "made a NaN"},
    DataMistake{DATA_MISTAKE(h + tanh(exp(stray))), f64, always<1000>, "made an infinity"},
    // no mistake
    DataMistake{DATA_MISTAKE(masked(h, stray)), f64, infinity, ""},
};

}  // namespace

std::span<const DataMistake> data_mistakes() { return kDataMistakes; }

}  // namespace metronome::random_programs
