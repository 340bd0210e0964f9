// Cases of the ops that graph/ has: there they are without kernels, so their cases are here.
#pragma once

#include <vector>

#include "graph/compounds/channels_last.h"
#include "graph/ir/op_model.h"
#include "graph/ir/structural.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/convolution/convolution.h"
#include "ops/pool/avg_pool.h"
#include "ops/pool/max_pool.h"
#include "ops/rules/case.h"
#include "ops/upsample/upsample.h"

namespace metronome {

/// The cases of an op: its own, or those below.
template <class Op>
struct CasesOf {
  static std::vector<Case> cases() { return Op::cases(); }
};

namespace structural {

inline const std::vector<Shape>& shapes() {
  static const std::vector<Shape> all = {{}, {0, 3}, {7, 13}, {64}, {300, 257}};
  return all;
}

template <class Op>
Case on_tensors(const Op& op, const Shape& shape, std::size_t operands, Element element = f32) {
  const Type type{element, shape};
  return {to_string(type), make_op(op), std::vector<CaseInput>(operands, {type}), false, false};
}

}  // namespace structural

template <>
struct CasesOf<Fill> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Element element : {f32, f64, i32, i64, bool_, bf16, f16}) {
      for (const Shape& shape : structural::shapes()) {
        const Type type{element, shape};
        cases.push_back({to_string(type), make_op(Fill{1.5, type}), {}, false, false});
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<Constant> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Element element : {f32, f64, i32, i64, bool_, bf16, f16}) {
      for (const Shape& shape : structural::shapes()) {
        const Type type{element, shape};
        std::vector<std::byte> bytes(type.bytes());
        // 0 and 1 are also what a bool's byte may be.
        for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(i % 3 == 0);
        cases.push_back({to_string(type), make_op(Constant{bytes, type}), {}, false, false});
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<Accumulate> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Element element : {f32, bf16, f16}) {
      for (const Shape& shape : structural::shapes()) {
        cases.push_back(structural::on_tensors(Accumulate{}, shape, 2, element));
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<Increment> {
  static std::vector<Case> cases() {
    const Fillings fill{
        .kind = Fillings::Kind::integers, .low = 0, .high = 1e9, .differentiable = false};
    return {{"a counter", make_op(Increment{}), {{Type{i64, {}}, fill}}, false, false}};
  }
};

template <>
struct CasesOf<IsMultiple> {
  static std::vector<Case> cases() {
    const Fillings fill{
        .kind = Fillings::Kind::integers, .low = 0, .high = 1e9, .differentiable = false};
    std::vector<Case> cases;
    for (const std::int64_t of : {1, 2, 7}) {
      cases.push_back({fmt::format("of {}", of),
                       make_op(IsMultiple{of}),
                       {{Type{i64, {}}, fill}},
                       false,
                       false});
    }
    return cases;
  }
};

template <>
struct CasesOf<IsFinite> {
  static std::vector<Case> cases() {
    return {{"a number",
             make_op(IsFinite{}),
             {{Type{f32, {}}, {.differentiable = false}}},
             false,
             false}};
  }
};

template <>
struct CasesOf<MeanWeight> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    const Fillings some{.low = 0.5, .high = 3, .differentiable = false};
    const Fillings none{.low = 0, .high = 0, .differentiable = false};
    cases.push_back({"a further term",
                     make_op(MeanWeight{}),
                     {{Type{f32, {}}, some}, {Type{f64, {}}, some}},
                     false,
                     false});
    cases.push_back({"the first one",
                     make_op(MeanWeight{}),
                     {{Type{f32, {}}, some}, {Type{f64, {}}, none}},
                     false,
                     false});
    cases.push_back({"no weight at all",
                     make_op(MeanWeight{}),
                     {{Type{f32, {}}, none}, {Type{f64, {}}, none}},
                     false,
                     false});
    return cases;
  }
};

template <>
struct CasesOf<AverageWeight> {
  static std::vector<Case> cases() {
    const Fillings fill{
        .kind = Fillings::Kind::integers, .low = 0, .high = 1e4, .differentiable = false};
    std::vector<Case> cases;
    for (const bool correction : {false, true}) {
      cases.push_back({correction ? "corrected" : "as it is",
                       make_op(AverageWeight{0.99, correction}),
                       {{Type{i64, {}}, fill}},
                       false,
                       false});
    }
    return cases;
  }
};

template <>
struct CasesOf<AverageUpdate> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    const auto add = [&](std::string name, const Shape& shape, double low, double high) {
      const CaseInput tensor{Type{f32, shape}, {.differentiable = false}};
      const CaseInput weight{Type{f64, {}}, {.low = low, .high = high, .differentiable = false}};
      cases.push_back(
          {std::move(name), make_op(AverageUpdate{}), {tensor, tensor, weight}, false, false});
    };
    for (const Shape& shape : structural::shapes()) {
      add(to_string(Type{f32, shape}), shape, 1e-4, 0.4);
    }
    add("a large weight", {7, 13}, 0.6, 0.9);
    add("a copy", {7, 13}, 1, 1);
    return cases;
  }
};

template <>
struct CasesOf<Copy> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Element element : {f32, bf16, f16}) {
      for (const Shape& shape : structural::shapes()) {
        cases.push_back(structural::on_tensors(Copy{}, shape, 1, element));
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<Pack> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    const auto add = [&](std::string name, std::size_t alignment, std::vector<Shape> shapes,
                         Element element = f32) {
      Case c{std::move(name), make_op(Pack{alignment}), {}, false, false};
      for (Shape& shape : shapes) {
        CaseInput input{Type{element, std::move(shape)}};
        if (!is_floating(element)) {
          input.fill = {
              .kind = Fillings::Kind::integers, .low = 0, .high = 9, .differentiable = false};
        }
        c.inputs.push_back(std::move(input));
      }
      cases.push_back(std::move(c));
    };
    add("one", 64, {{16}});
    add("one with a gap", 64, {{3, 5}});
    add("some with gaps", 256, {{7}, {}, {64}, {0, 3}, {300, 25}, {1}});
    add("many", 64, std::vector<Shape>(20, {5, 7}));
    add("without bytes", 64, {{0}, {3, 0}});
    add("i64", 64, {{3, 2}, {9}}, i64);
    return cases;
  }
};

template <>
struct CasesOf<Unpack> {
  static std::vector<Case> cases() {
    return {structural::on_tensors(Unpack{0, {3, 5}}, {64}, 1),
            structural::on_tensors(Unpack{16, {}}, {64}, 1),
            structural::on_tensors(Unpack{64, {0, 2}}, {64}, 1)};
  }
};

template <>
struct CasesOf<Relayout> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    const Layout rows{}, channels_last{{0, 2, 3, 1}}, in_16{{}, 1, 16};
    const Layout last_in_8{{1, 0, 3, 2}, 2, 8}, in_1{{}, 3, 1};
    const Shape shape = {3, 20, 5, 6};
    const auto add = [&](const Layout& from, const Layout& to, const Shape& of,
                         Element element = f32) {
      CaseInput input{Type{element, apply_layout(from, of)}};
      if (!is_floating(element)) {
        input.fill = {
            .kind = Fillings::Kind::integers, .low = 0, .high = 1, .differentiable = false};
      }
      const Relayout op{of, from, to};
      cases.push_back({op.attributes(), make_op(op), {input}, false, false});
    };
    const Layout all[] = {rows, channels_last, in_16, last_in_8, in_1};
    for (const Layout& from : all) {
      for (const Layout& to : all) add(from, to, shape);
    }
    add(rows, in_16, {2, 16, 1, 1});
    add(rows, in_16, {2, 1, 4, 3});
    add(rows, in_16, {2, 20, 0, 3});
    add(rows, {{}, 0, 16}, {300});
    add(rows, rows, {});
    for (const Element element : {f64, i32, i64}) add(rows, in_16, shape, element);
    return cases;
  }
};

namespace structural {

inline CaseInput boolean() {
  return {Type{bool_, {}}, {.kind = Fillings::Kind::booleans, .differentiable = false}};
}
inline CaseInput outcome(Element element, double number) {
  return {Type{element, {}},
          {.kind = Fillings::Kind::integers,
           .low = number,
           .high = number + 1,
           .differentiable = false}};
}

}  // namespace structural

template <>
struct CasesOf<Guard> {
  static std::vector<Case> cases() {
    using namespace structural;
    std::vector<Case> cases;
    for (const std::int64_t when : {0, 1}) {
      cases.push_back({"a boolean", make_op(Guard{when, 2, false}), {boolean()}, false, false});
      cases.push_back(
          {"under another", make_op(Guard{when, 2, true}), {boolean(), boolean()}, false, false});
    }
    for (const Element element : {i32, i64}) {
      for (const double number : {-7.0, 0.0, 1.0, 2.0, 3.0, 1e6}) {  // beyond the cases: clamped
        for (const std::int64_t when : {0, 1, 2}) {
          cases.push_back({"a selector",
                           make_op(Guard{when, 3, false}),
                           {outcome(element, number)},
                           false,
                           false});
        }
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<Merge> {
  static std::vector<Case> cases() {
    using namespace structural;
    std::vector<Case> cases;
    for (const Element element : {f32, i32, i64, bool_, bf16, f16}) {
      for (const Shape& shape : shapes()) {
        Fillings fill{.differentiable = false};
        if (element == bool_) fill.kind = Fillings::Kind::booleans;
        if (element == i32 || element == i64) fill = {Fillings::Kind::integers, -9, 9, false};
        const CaseInput value{Type{element, shape}, fill};
        const std::string name = to_string(value.type);
        cases.push_back({name, make_op(Merge{1, true}), {boolean(), value, value}, false, false});
        cases.push_back({name, make_op(Merge{1, false}), {boolean(), value}, false, false});
        cases.push_back({name,
                         make_op(Merge{3, true}),
                         {boolean(), value, boolean(), value, boolean(), value, value},
                         false,
                         false});
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<AccumulateIf> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Element element : {f32, bf16, f16}) {
      for (const Shape& shape : structural::shapes()) {
        const CaseInput value{Type{element, shape}};
        cases.push_back({to_string(value.type),
                         make_op(AccumulateIf{}),
                         {value, value, structural::boolean()},
                         false,
                         false});
      }
    }
    return cases;
  }
};

template <>
struct CasesOf<StopGradient> {
  static std::vector<Case> cases() { return {structural::on_tensors(StopGradient{}, {7, 13}, 1)}; }
};

/// All cases with images of the ops that run channels last, on operands stored so.
template <>
struct CasesOf<ChannelsLast> {
  template <class Op>
  static void add(std::vector<Case>& cases) {
    for (Case& c : Op::cases()) {
      Types types;
      for (const CaseInput& input : c.inputs) types.push_back(input.type);
      std::size_t rank = 0;
      for (const Type& type : types) rank = std::max(rank, type.shape.size());
      const auto laid = lay_out_channels_last(c.op, types, channels_last(rank));
      if (!laid) continue;
      const Types stored = stored_types(types);
      for (std::size_t i = 0; i < stored.size(); ++i) c.inputs[i].type = stored[i];
      cases.push_back(
          {std::string(c.op->name()) + ", " + c.name, laid->op, c.inputs, c.sums, false});
    }
  }
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    add<Convolution>(cases), add<TransposedConvolution>(cases), add<ConvolutionWeightGrad>(cases);
    add<BatchNorm>(cases), add<BatchNormGrad>(cases), add<BatchNormEvaluate>(cases);
    add<MaxPool>(cases), add<MaxPoolGrad>(cases), add<AvgPool>(cases), add<AvgPoolGrad>(cases);
    add<AdaptiveAvgPool>(cases), add<AdaptiveAvgPoolGrad>(cases);
    add<Upsample>(cases), add<UpsampleGrad>(cases);
    return cases;
  }
};

}  // namespace metronome
