// The table of elementwise functions, one row each. It is included several times, each time with
// another METRONOME_ROW, so it has no include guard:
//
//   METRONOME_ROW(function, operands, elements, numbers, (formula), (libtorch's call),
//                 gradient of each operand...)
//
// elements   what the operands may be: see enum class Elements; `compared`, `booleans` give bool
// numbers    attributes: 0, 1 (a) or 2 (a, b)
// formula    over the operands x, y, z and the attributes, written in functions that a back end
//            defines (ops/cpu/formulas.h, ops/kernel/formulas.h): compiled for the CPU's vectors,
//            and the text for CUDA
// call       the same by libtorch, over tensors x, y, z and the attributes: the eager form and the
//            oracle
// gradients  values over g (the gradient), x, y, z, out (the result), a and b; a row by its name
//            takes its operands in braces. `none` where no gradient flows; `undefined()` for the
//            rows that are gradients themselves.
//
// A gradient of 0 stays 0, whatever the slope is (unless_0): a choice leaves it to the branch that
// was not taken, where a slope may be infinite or no number.
// clang-format off

// Arithmetic.
METRONOME_ROW(add, 2, numbers, 0,                  (x + y), (x + y), g, g)
METRONOME_ROW(sub, 2, numbers, 0,                  (x - y), (x - y), g, neg({g}))
METRONOME_ROW(mul, 2, numbers, 0,                  (x * y), (x * y), times(g, y), times(g, x))
METRONOME_ROW(mul_grad, 2, floating, 0,            (unless_0(x, x * y)), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * y)), undefined())
METRONOME_ROW(div, 2, floating, 0,                 (x / y), (x / y), over(g, y), div_grad({g, out, y}))
METRONOME_ROW(quotient_grad, 2, floating, 0,       (unless_0(x, x / y)), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x / y)), undefined())
METRONOME_ROW(div_grad, 3, floating, 0,
              (unless_0(x, neg(x * (y / z)))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), -(x * (y / z)))), undefined())
METRONOME_ROW(neg, 1, numbers, 0,                  (neg(x)), (-x), neg({g}))
METRONOME_ROW(abs, 1, numbers, 0,                  (abs(x)), (at::abs(x)), abs_grad({g, x}))
METRONOME_ROW(abs_grad, 2, floating, 0,
              (select(y > V(0), x, select(y < V(0), neg(x), x * V(0)))), (x * at::sgn(y)), undefined())
METRONOME_ROW(sign, 1, numbers, 0,
              (select(x > V(0), V(1), V(0)) - select(x < V(0), V(1), V(0))), (at::sgn(x)), none)
METRONOME_ROW(minimum, 2, numbers, 0,
              (minimum(x, y)), (at::minimum(x, y)), minimum_grad({g, x, y}), minimum_grad({g, y, x}))
METRONOME_ROW(maximum, 2, numbers, 0,
              (maximum(x, y)), (at::maximum(x, y)), maximum_grad({g, x, y}), maximum_grad({g, y, x}))
METRONOME_ROW(minimum_grad, 3, floating, 0,
              (select(y > z, V(0), select(y == z, x * V(0.5), x))),
              (at::where(at::eq(y, z), x / 2, x).masked_fill(at::gt(y, z), 0)),
              undefined())
METRONOME_ROW(maximum_grad, 3, floating, 0,
              (select(y < z, V(0), select(y == z, x * V(0.5), x))),
              (at::where(at::eq(y, z), x / 2, x).masked_fill(at::lt(y, z), 0)),
              undefined())
METRONOME_ROW(clamp, 1, numbers, 2,
              (minimum(maximum(x, a), b)), (at::clamp(x, a, b).to(x.scalar_type())), clamp_grad({g, x}, a, b))
METRONOME_ROW(clamp_grad, 2, floating, 2,
              (select((y >= a) & (y <= b), x, V(0))),
              (at::where(at::logical_and(at::ge(y, a), at::le(y, b)), x, at::zeros_like(x))),
              undefined())
METRONOME_ROW(floor, 1, floating, 0,               (floor(x)), (at::floor(x)), none)
METRONOME_ROW(ceil, 1, floating, 0,                (ceil(x)), (at::ceil(x)), none)
METRONOME_ROW(round, 1, floating, 0,               (round(x)), (at::round(x)), none)
METRONOME_ROW(trunc, 1, floating, 0,               (trunc(x)), (at::trunc(x)), none)
METRONOME_ROW(fmod, 2, floating, 0,                (fmod(x, y)), (at::fmod(x, y)), g, neg({times(g, trunc({x / y}))}))

// Comparisons, logic, choice.
METRONOME_ROW(equal, 2, compared, 0,               (x == y), (at::eq(x, y)), none, none)
METRONOME_ROW(not_equal, 2, compared, 0,           (x != y), (at::ne(x, y)), none, none)
METRONOME_ROW(less, 2, compared, 0,                (x < y), (at::lt(x, y)), none, none)
METRONOME_ROW(less_equal, 2, compared, 0,          (x <= y), (at::le(x, y)), none, none)
METRONOME_ROW(greater, 2, compared, 0,             (x > y), (at::gt(x, y)), none, none)
METRONOME_ROW(greater_equal, 2, compared, 0,       (x >= y), (at::ge(x, y)), none, none)
METRONOME_ROW(logical_and, 2, booleans, 0,         (x & y), (at::logical_and(x, y)), none, none)
METRONOME_ROW(logical_or, 2, booleans, 0,          (x | y), (at::logical_or(x, y)), none, none)
METRONOME_ROW(logical_not, 1, booleans, 0,         (x == V(0)), (at::logical_not(x)), none)
METRONOME_ROW(where, 3, chosen, 0,
              (select(x, y, z)), (at::where(x, y, z)), none, where({x, g, zero(g)}), where({x, zero(g), g}))

// Powers, exponentials, logarithms, angles, the error function.
METRONOME_ROW(square, 1, numbers, 0,               (x * x), (at::square(x)), square_grad({g, x}))
METRONOME_ROW(square_grad, 2, floating, 0,         (unless_0(x, V(2) * (x * y))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), 2 * (x * y))), undefined())
// The slope of a norm is 0 where the norm is.
METRONOME_ROW(norm_grad, 3, floating, 0,
              (unless_0(x, x * select(z == V(0), V(0), y / z))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * at::where(at::eq(z, 0), at::zeros({}, x.options()), y / z))), undefined())
METRONOME_ROW(sqrt, 1, floating, 0,                (sqrt(x)), (at::sqrt(x)), sqrt_grad({g, out}))
METRONOME_ROW(sqrt_grad, 2, floating, 0,           (unless_0(x, x / (V(2) * y))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x / (2 * y))), undefined())
METRONOME_ROW(rsqrt, 1, floating, 0,               (V(1) / sqrt(x)), (at::rsqrt(x)), rsqrt_grad({g, out}))
METRONOME_ROW(rsqrt_grad, 2, floating, 0,          (unless_0(x, V(-0.5) * (x * y) * y * y)), (at::where(at::eq(x, 0), at::zeros({}, x.options()), -0.5 * x * at::pow(y, 3))), undefined())
METRONOME_ROW(reciprocal, 1, floating, 0,          (V(1) / x), (at::reciprocal(x)), reciprocal_grad({g, out}))
METRONOME_ROW(reciprocal_grad, 2, floating, 0,     (unless_0(x, neg(x) * y * y)), (at::where(at::eq(x, 0), at::zeros({}, x.options()), -x * (y * y))), undefined())
METRONOME_ROW(exp, 1, floating, 0,                 (exp(x)), (at::exp(x)), times(g, out))
METRONOME_ROW(log, 1, floating, 0,                 (log(x)), (at::log(x)), over(g, x))
METRONOME_ROW(expm1, 1, floating, 0,               (expm1(x)), (at::expm1(x)), times(g, exp({x})))
METRONOME_ROW(log1p, 1, floating, 0,               (log1p(x)), (at::log1p(x)), over(g, x + 1.0))
METRONOME_ROW(sin, 1, floating, 0,                 (sin(x)), (at::sin(x)), times(g, cos({x})))
METRONOME_ROW(cos, 1, floating, 0,                 (cos(x)), (at::cos(x)), neg({times(g, sin({x}))}))
METRONOME_ROW(asin, 1, floating, 0,                (asin(x)), (at::asin(x)), asin_grad({g, x}))
METRONOME_ROW(acos, 1, floating, 0,                (acos(x)), (at::acos(x)), neg({asin_grad({g, x})}))
METRONOME_ROW(asin_grad, 2, floating, 0,
              (unless_0(x, x / sqrt((V(1) - y) * (V(1) + y)))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x / at::sqrt((1 - y) * (1 + y)))), undefined())
METRONOME_ROW(atan, 1, floating, 0,                (atan(x)), (at::atan(x)), atan_grad({g, x}))
METRONOME_ROW(atan_grad, 2, floating, 0,           (unless_0(x, x / (y * y + V(1)))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x / (y * y + 1))), undefined())
METRONOME_ROW(atan2, 2, floating, 0,               (atan2(x, y)), (at::atan2(x, y)), atan2_grad({g, y, x}), neg({atan2_grad({g, x, y})}))
// The slope of an angle is 0 at the origin.
METRONOME_ROW(atan2_grad, 3, floating, 0,
              (unless_0(x, x * y * select(y * y + z * z == V(0), V(0), V(1) / (y * y + z * z)))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * y * at::where(at::eq(y * y + z * z, 0), at::zeros({}, x.options()), 1 / (y * y + z * z)))),
              undefined())
METRONOME_ROW(erf, 1, floating, 0,                 (erf(x)), (at::erf(x)), erf_grad({g, x}))
METRONOME_ROW(erfc, 1, floating, 0,                (erfc(x)), (at::erfc(x)), neg({erf_grad({g, x})}))
// 2 / sqrt(pi) exp(-y^2).
METRONOME_ROW(erf_grad, 2, floating, 0,
              (unless_0(x, x * (V(1.12837916709551257390) * exp(neg(y * y))))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * (1.12837916709551257390 * at::exp(-(y * y))))), undefined())
METRONOME_ROW(pow, 2, floating, 0,
              (pow(x, y)), (at::pow(x, y)), pow_grad_base({g, x, y}), pow_grad_exponent({g, x, out}))
METRONOME_ROW(pow_grad_base, 3, floating, 0,
              (select(z == V(0), V(0), unless_0(x, x * (z * pow(y, z - V(1)))))),
              (at::where(at::logical_or(at::eq(x, 0), at::eq(z, 0)), at::zeros({}, x.options()), x * (z * at::pow(y, z - 1)))),
              undefined())
METRONOME_ROW(pow_grad_exponent, 3, floating, 0,
              (unless_0(x, x * select(((z == V(0)) & (y > V(0))) | ((y == V(0)) & (abs(z) <= V(1))), V(0), z * log(y)))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * at::where(at::logical_or(at::logical_and(at::eq(z, 0), at::gt(y, 0)), at::logical_and(at::eq(y, 0), at::le(at::abs(z), 1))), at::zeros({}, x.options()), z * at::log(y)))),
              undefined())
METRONOME_ROW(pow_scalar, 1, floating, 1,          (pow(x, a)), (at::pow(x, a)), pow_scalar_grad({g, x}, a))
METRONOME_ROW(pow_scalar_grad, 2, floating, 1,
              (unless_0(x, select(a == V(0), V(0), x * (a * pow(y, a - V(1)))))),
              (a == 0 ? at::zeros_like(x + y) : at::where(at::eq(x, 0), at::zeros({}, x.options()), x * (a * at::pow(y, a - 1)))),
              undefined())

// Activations.
METRONOME_ROW(relu, 1, numbers, 0,                 (maximum(x, V(0))), (at::relu(x)), relu_grad({g, out}))
METRONOME_ROW(relu_grad, 2, floating, 0,
              (select(y <= V(0), V(0), x)),
              (at::where(at::le(y, 0), at::zeros({}, x.options()), x)),
              undefined())
METRONOME_ROW(tanh, 1, floating, 0,                (tanh(x)), (at::tanh(x)), tanh_grad({g, out}))
METRONOME_ROW(tanh_grad, 2, floating, 0,           (unless_0(x, x * (V(1) - y * y))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * (1 - y * y))), undefined())
METRONOME_ROW(sigmoid, 1, floating, 0,             (sigmoid(x)), (at::sigmoid(x)), sigmoid_grad({g, out}))
METRONOME_ROW(sigmoid_grad, 2, floating, 0,        (unless_0(x, x * (y * (V(1) - y)))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * (y * (1 - y)))), undefined())
METRONOME_ROW(gelu, 1, floating, 0,                (gelu(x)), (at::gelu(x)), gelu_grad({g, x}))
METRONOME_ROW(gelu_grad, 2, floating, 0,           (unless_0(x, x * gelu_slope(y))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), at::gelu_backward(x, y))), undefined())
METRONOME_ROW(silu, 1, floating, 0,                (silu(x)), (at::silu(x)), silu_grad({g, x}))
METRONOME_ROW(silu_grad, 2, floating, 0,           (unless_0(x, x * silu_slope(y))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), at::silu_backward(x, y))), undefined())
// Unlike libtorch's own, softplus is nowhere the identity: hence the threshold of 40.
METRONOME_ROW(softplus, 1, floating, 0,
              (maximum(x, V(0)) + log1p(exp(neg(abs(x))))), (at::softplus(x, 1, 40)), softplus_grad({g, x}))
METRONOME_ROW(softplus_grad, 2, floating, 0,       (unless_0(x, x * sigmoid(y))), (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * at::sigmoid(y))), undefined())
// Far out the 1 is lost in rounding, so infinities may be taken for 1e30.
METRONOME_ROW(softsign, 1, floating, 0,
              (minimum(maximum(x, V(-1e30)), V(1e30)) / (minimum(abs(x), V(1e30)) + V(1))),
              (at::clamp(x, -1e30, 1e30) / (at::clamp(at::abs(x), 0, 1e30) + 1)), softsign_grad({g, x}))
METRONOME_ROW(softsign_grad, 2, floating, 0,
              (unless_0(x, x / (abs(y) + V(1)) / (abs(y) + V(1)))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x / (at::abs(y) + 1) / (at::abs(y) + 1))), undefined())

// A logit x and a target y give (1 - y) softplus(x) + y softplus(-x), and the slope sigmoid(x) - y,
// each term with its digits in both tails. A target of 0 or 1 leaves the other term out, infinite as it
// may be.
METRONOME_ROW(bce_with_logits, 2, floating, 0,
              (select(y == V(1), V(0), (V(1) - y) * maximum(x, V(0))) +
               select(y == V(0), V(0), y * maximum(neg(x), V(0))) + log1p(exp(neg(abs(x))))),
              (at::where(at::eq(y, 1), at::zeros({}, x.options()), (1 - y) * at::relu(x)) +
               at::where(at::eq(y, 0), at::zeros({}, x.options()), y * at::relu(-x)) + at::log1p(at::exp(-at::abs(x)))),
              bce_with_logits_grad({g, x, y}), neg({times(g, x)}))
METRONOME_ROW(bce_with_logits_grad, 3, floating, 0,
              (unless_0(x, bce_gradient(x, y, z))),
              (at::where(at::eq(x, 0), at::zeros({}, x.options()), x * ((1 - z) * at::sigmoid(y) - z * at::sigmoid(-y)))), undefined())
