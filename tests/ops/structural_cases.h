// Cases of the ops that graph/ has: there they are without kernels, so their cases are here.
#pragma once

#include <vector>

#include "graph/op_model.h"
#include "graph/structural.h"
#include "ops/case.h"

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
Case on_tensors(const Op& op, const Shape& shape, std::size_t operands) {
  return {to_string(shape), make_op(op), std::vector<CaseInput>(operands, {Type{f32, shape}}),
          false, false};
}

}  // namespace structural

template <>
struct CasesOf<Fill> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Element element : {f32, f64, i32, i64, bool_}) {
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
    for (const Element element : {f32, f64, i32, i64, bool_}) {
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
    for (const Shape& shape : structural::shapes()) {
      cases.push_back(structural::on_tensors(Accumulate{}, shape, 2));
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
struct CasesOf<Copy> {
  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const Shape& shape : structural::shapes()) {
      cases.push_back(structural::on_tensors(Copy{}, shape, 1));
    }
    return cases;
  }
};

template <>
struct CasesOf<StopGradient> {
  static std::vector<Case> cases() { return {structural::on_tensors(StopGradient{}, {7, 13}, 1)}; }
};

}  // namespace metronome
