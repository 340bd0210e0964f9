#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include "graph/ir/error.h"
#include "ops/elementwise/elementwise.h"

namespace metronome {

Tensors reference(const Elementwise& op, const Tensors& in) {
  const at::Tensor& x = in[0];
  const at::Tensor& y = in.size() > 1 ? in[1] : x;
  const at::Tensor& z = in.size() > 2 ? in[2] : x;
  switch (op.function) {
    case Function::add:
      return {x + y};
    case Function::sub:
      return {x - y};
    case Function::mul:
      return {x * y};
    case Function::div:
      return {x / y};
    case Function::div_grad:
      return {-(x * (y / z))};
    case Function::neg:
      return {-x};
    case Function::abs:
      return {at::abs(x)};
    case Function::abs_grad:
      return {x * at::sgn(y)};
    case Function::sign:
      return {at::sgn(x)};
    case Function::minimum:
      return {at::minimum(x, y)};
    case Function::maximum:
      return {at::maximum(x, y)};
    case Function::minimum_grad:
      return {at::where(at::eq(y, z), x / 2, x).masked_fill(at::gt(y, z), 0)};
    case Function::maximum_grad:
      return {at::where(at::eq(y, z), x / 2, x).masked_fill(at::lt(y, z), 0)};
    case Function::clamp:
      return {at::clamp(x, op.a, op.b).to(x.scalar_type())};
    case Function::clamp_grad:
      return {at::where(at::logical_and(at::ge(y, op.a), at::le(y, op.b)), x, at::zeros_like(x))};

    case Function::equal:
      return {at::eq(x, y)};
    case Function::not_equal:
      return {at::ne(x, y)};
    case Function::less:
      return {at::lt(x, y)};
    case Function::less_equal:
      return {at::le(x, y)};
    case Function::greater:
      return {at::gt(x, y)};
    case Function::greater_equal:
      return {at::ge(x, y)};
    case Function::logical_and:
      return {at::logical_and(x, y)};
    case Function::logical_or:
      return {at::logical_or(x, y)};
    case Function::logical_not:
      return {at::logical_not(x)};
    case Function::where:
      return {at::where(x, y, z)};

    case Function::square:
      return {at::square(x)};
    case Function::square_grad:
      return {2 * (x * y)};
    case Function::sqrt:
      return {at::sqrt(x)};
    case Function::sqrt_grad:
      return {x / (2 * y)};
    case Function::rsqrt:
      return {at::rsqrt(x)};
    case Function::rsqrt_grad:
      return {-0.5 * x * at::pow(y, 3)};
    case Function::reciprocal:
      return {at::reciprocal(x)};
    case Function::reciprocal_grad:
      return {-x * (y * y)};
    case Function::exp:
      return {at::exp(x)};
    case Function::log:
      return {at::log(x)};
    case Function::sin:
      return {at::sin(x)};
    case Function::cos:
      return {at::cos(x)};
    case Function::pow:
      return {at::pow(x, y)};
    case Function::pow_grad_base:
      return {at::where(at::eq(z, 0), at::zeros({}, x.options()), x * (z * at::pow(y, z - 1)))};
    case Function::pow_grad_exponent:
      return {x * at::where(at::logical_and(at::eq(y, 0), at::le(at::abs(z), 1)),
                            at::zeros({}, x.options()), z * at::log(y))};
    case Function::pow_scalar:
      return {at::pow(x, op.a)};
    case Function::pow_scalar_grad:
      return {op.a == 0 ? at::zeros_like(x + y) : x * (op.a * at::pow(y, op.a - 1))};

    case Function::relu:
      return {at::relu(x)};
    case Function::relu_grad:
      return {at::where(at::le(y, 0), at::zeros({}, x.options()), x)};
    case Function::tanh:
      return {at::tanh(x)};
    case Function::tanh_grad:
      return {x * (1 - y * y)};
    case Function::sigmoid:
      return {at::sigmoid(x)};
    case Function::sigmoid_grad:
      return {x * (y * (1 - y))};
    case Function::gelu:
      return {at::gelu(x)};
    case Function::gelu_grad: {
      const at::Tensor cdf = 0.5 * (1 + at::erf(y * 0.70710678118654752440));
      const at::Tensor pdf = 0.39894228040143267794 * at::exp(-0.5 * y * y);
      return {x * (cdf + y * pdf)};
    }
    case Function::silu:
      return {at::silu(x)};
    case Function::silu_grad: {
      const at::Tensor s = at::sigmoid(y);
      return {x * (s * (1 + y * (1 - s)))};
    }
    // Metronome's softplus has no threshold above which it is the identity.
    case Function::softplus:
      return {at::softplus(x, 1, 40)};
    case Function::softplus_grad:
      return {x * at::sigmoid(y)};
  }
  throw InternalError("an elementwise function out of range");
}

}  // namespace metronome
