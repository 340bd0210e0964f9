// Casts from and to elements of two bytes have libtorch's bits, by the kernels of both instruction
// sets and by a device's, made of the host.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "graph/ir/half.h"
#include "ops/cast/cast.h"
#include "ops/cpu/table.h"
#include "ops/reference/elements.h"
#include "tests/aten.h"
#include "tests/doctest.h"
#include "tests/gpu/device_interpreter.h"
#include "tests/gpu/host_device.h"

namespace metronome::half_cast_test {
namespace {

at::Tensor by_cpu(std::string_view isa, const at::Tensor& x, Element to) {
  const Types in = {{from_torch(x.scalar_type()), x.sizes().vec()}}, out = {{to, in[0].shape}};
  at::Tensor y = at::empty(in[0].shape, at::TensorOptions(to_torch(to)));
  const std::vector<void*> operands = {x.data_ptr()}, results = {y.data_ptr()};
  const OpPtr op = make_op(Cast{to});
  cpu_table_of(isa).of(*op).bind(*op, {in, out, operands, results, nullptr, Candidate{}})();
  return y;
}

at::Tensor by_device(const at::Tensor& x, Element to) {
  static HostDevice device;
  Graph g("cast");
  const Value y = g.input("x", from_torch(x.scalar_type()), x.sizes().vec()).cast(to);
  DeviceInterpreter run(g.data(), device.pool, false);
  run.set("x", x);
  run.run();
  return run.tensor(y.id()).clone();
}

/// Elements whose bits differ, but for two that are NaN: libtorch's own differ from kernel to
/// kernel in which one they give.
std::int64_t differences(const at::Tensor& a, const at::Tensor& b) {
  const auto bits = [](const at::Tensor& t) {
    const auto size = t.element_size();
    return t.view(size == 8   ? at::kLong
                  : size == 4 ? at::kInt
                  : size == 2 ? at::kShort
                              : at::kByte);
  };
  const at::Tensor both_nan = a.ne(a).logical_and(b.ne(b));
  return bits(a).ne(bits(b)).logical_and(both_nan.logical_not()).sum().item<std::int64_t>();
}

void check_cast(const at::Tensor& x, Element to) {
  INFO(c10::toString(x.scalar_type()), " to ", name_of(to));
  const at::Tensor theirs = x.to(to_torch(to));
  const at::Tensor ours = by_cpu("avx2", x, to);
  CHECK(differences(ours, theirs) == 0);
  // Among themselves NaN is the same, too.
  const auto same = [&](const at::Tensor& other) {
    return std::memcmp(ours.data_ptr(), other.data_ptr(), ours.nbytes()) == 0;
  };
  CHECK(same(by_cpu("portable", x, to)));
  if (cpu_features().avx512) CHECK(same(by_cpu("avx512", x, to)));
  CHECK(same(by_device(x, to)));
}

/// All numbers of two bytes.
at::Tensor all_of(Element element) {
  return at::arange(0x10000, at::TensorOptions(at::kInt)).to(at::kShort).view(to_torch(element));
}

/// Bits drawn: every exponent, NaN and infinities too.
at::Tensor drawn(at::ScalarType type, std::int64_t count) {
  std::mt19937_64 generator(20240229);
  std::vector<std::int64_t> bits(static_cast<std::size_t>(count));
  for (std::int64_t& b : bits) b = static_cast<std::int64_t>(generator());
  const at::Tensor words = at::tensor(bits, at::TensorOptions(at::kLong));
  return type == at::kFloat ? words.to(at::kInt).view(type) : words.view(type);
}

/// Numbers around which an element of two bytes is rounded up or down: all that it has, those
/// halfway between neighbours, and those a step of f32, or a little of f64, to either side.
at::Tensor around(Element element, at::ScalarType type) {
  const at::Tensor all = all_of(element).to(at::kDouble);
  const at::Tensor finite = all.masked_select(at::isfinite(all));
  const at::Tensor ordered = std::get<0>(finite.sort());
  const at::Tensor middles = (ordered.slice(0, 1) + ordered.slice(0, 0, -1)) / 2;
  at::Tensor numbers =
      at::cat({finite, middles,
               at::tensor({65520.0, 0x1.ffp127, -65520.0, 1e300}, at::TensorOptions(at::kDouble))});
  numbers = at::cat({numbers, numbers * (1 + 0x1p-23), numbers * (1 - 0x1p-23),
                     numbers * (1 + 0x1p-40), numbers * (1 - 0x1p-40)});
  return numbers.to(type).contiguous();
}

TEST_CASE("every number of two bytes becomes libtorch's in every type") {
  at::set_num_threads(1);
  for (const Element from : {bf16, f16}) {
    const at::Tensor all = all_of(from);
    for (const Element to : {f32, f64, bf16, f16, bool_}) check_cast(all, to);
    // A number that an integer cannot hold has no meaning there.
    const at::Tensor wide = all.to(at::kFloat);
    const at::Tensor held = all.masked_select(wide.abs() < 0x1p31f);
    for (const Element to : {i32, i64}) check_cast(held, to);
  }
}

TEST_CASE("numbers of other types are rounded to two bytes as libtorch rounds them") {
  at::set_num_threads(1);
  for (const Element to : {bf16, f16}) {
    for (const at::ScalarType from : {at::kFloat, at::kDouble}) {
      check_cast(around(to, from), to);
      check_cast(drawn(from, 200003), to);
    }
    const at::Tensor whole = drawn(at::kLong, 20001);
    check_cast(whole, to);
    check_cast(whole.to(at::kInt), to);
    check_cast(at::arange(-70000, 70000, at::TensorOptions(at::kInt)), to);
    check_cast(whole.gt(0), to);
  }
}

TEST_CASE("a double is rounded to f32 first, as in libtorch") {
  // A little more than a tie, which f32 cannot tell from one.
  const at::Tensor x =
      at::tensor({1 + 0x1p-11 + 0x1p-40, 1 + 0x1p-8 + 0x1p-40}, at::TensorOptions(at::kDouble));
  CHECK(x.to(at::kHalf)[0].item<double>() == 1);
  CHECK(x.to(at::kBFloat16)[1].item<double>() == 1);
  CHECK(by_cpu("avx2", x, f16)[0].item<double>() == 1);
  CHECK(by_cpu("avx2", x, bf16)[1].item<double>() == 1);
}

}  // namespace
}  // namespace metronome::half_cast_test
