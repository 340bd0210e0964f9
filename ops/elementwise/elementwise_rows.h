// The table of elementwise functions, one row each. It is included several times, each time with
// another METRONOME_ROW, so it has no include guard:
//
//   METRONOME_ROW(function, operands, elements, numbers, (formula), gradient of each operand...)
//
// elements   what the operands may be: see enum class Elements; `compared`, `booleans` give bool
// numbers    attributes: 0, 1 (a) or 2 (a, b)
// formula    over the operands x, y, z and the attributes, written in functions that a back end
//            defines (ops/cpu/formulas.h): compiled for the CPU's vectors, and the text for CUDA
// gradients  values over g (the gradient), x, y, z, out (the result), a and b; a row by its name
//            takes its operands in braces. `none` where no gradient flows; `undefined()` for the
//            rows that are gradients themselves.
// clang-format off

// Arithmetic.
METRONOME_ROW(add,      2, numbers,  0, (x + y),         g, g)
METRONOME_ROW(sub,      2, numbers,  0, (x - y),         g, neg({g}))
METRONOME_ROW(mul,      2, numbers,  0, (x * y),         g * y, g * x)
METRONOME_ROW(div,      2, floating, 0, (x / y),         g / y, div_grad({g, out, y}))
METRONOME_ROW(div_grad, 3, floating, 0, (neg(x * (y / z))), undefined())
METRONOME_ROW(neg,      1, numbers,  0, (neg(x)),        neg({g}))
METRONOME_ROW(abs,      1, numbers,  0, (abs(x)),        abs_grad({g, x}))
METRONOME_ROW(abs_grad, 2, floating, 0,
              (select(y > V(0), x, select(y < V(0), neg(x), x * V(0)))), undefined())
METRONOME_ROW(sign,     1, numbers,  0,
              (select(x > V(0), V(1), V(0)) - select(x < V(0), V(1), V(0))), none)
METRONOME_ROW(minimum,  2, numbers,  0,
              (minimum(x, y)), minimum_grad({g, x, y}), minimum_grad({g, y, x}))
METRONOME_ROW(maximum,  2, numbers,  0,
              (maximum(x, y)), maximum_grad({g, x, y}), maximum_grad({g, y, x}))
METRONOME_ROW(minimum_grad, 3, floating, 0,
              (select(y > z, V(0), select(y == z, x * V(0.5), x))), undefined())
METRONOME_ROW(maximum_grad, 3, floating, 0,
              (select(y < z, V(0), select(y == z, x * V(0.5), x))), undefined())
METRONOME_ROW(clamp,      1, numbers,  2, (minimum(maximum(x, a), b)), clamp_grad({g, x}, a, b))
METRONOME_ROW(clamp_grad, 2, floating, 2, (select((y >= a) & (y <= b), x, V(0))), undefined())

// Comparisons, logic, choice.
METRONOME_ROW(equal,         2, compared, 0, (x == y), none, none)
METRONOME_ROW(not_equal,     2, compared, 0, (x != y), none, none)
METRONOME_ROW(less,          2, compared, 0, (x < y),  none, none)
METRONOME_ROW(less_equal,    2, compared, 0, (x <= y), none, none)
METRONOME_ROW(greater,       2, compared, 0, (x > y),  none, none)
METRONOME_ROW(greater_equal, 2, compared, 0, (x >= y), none, none)
METRONOME_ROW(logical_and,   2, booleans, 0, (x & y),  none, none)
METRONOME_ROW(logical_or,    2, booleans, 0, (x | y),  none, none)
METRONOME_ROW(logical_not,   1, booleans, 0, (x == V(0)), none)
METRONOME_ROW(where,         3, chosen,   0,
              (select(x, y, z)), none, where({x, g, zero(g)}), where({x, zero(g), g}))

// Powers, exponentials, logarithms.
METRONOME_ROW(square,          1, numbers,  0, (x * x),             square_grad({g, x}))
METRONOME_ROW(square_grad,     2, floating, 0, (V(2) * (x * y)),    undefined())
METRONOME_ROW(sqrt,            1, floating, 0, (sqrt(x)),           sqrt_grad({g, out}))
METRONOME_ROW(sqrt_grad,       2, floating, 0, (x / (V(2) * y)),    undefined())
METRONOME_ROW(rsqrt,           1, floating, 0, (V(1) / sqrt(x)),    rsqrt_grad({g, out}))
METRONOME_ROW(rsqrt_grad,      2, floating, 0, (V(-0.5) * (x * y) * y * y), undefined())
METRONOME_ROW(reciprocal,      1, floating, 0, (V(1) / x),          reciprocal_grad({g, out}))
METRONOME_ROW(reciprocal_grad, 2, floating, 0, (neg(x) * y * y),    undefined())
METRONOME_ROW(exp,             1, floating, 0, (exp(x)),            g * out)
METRONOME_ROW(log,             1, floating, 0, (log(x)),            g / x)
METRONOME_ROW(sin,             1, floating, 0, (sin(x)),            g * cos({x}))
METRONOME_ROW(cos,             1, floating, 0, (cos(x)),            neg({g * sin({x})}))
METRONOME_ROW(pow,             2, floating, 0,
              (pow(x, y)),         pow_grad_base({g, x, y}), pow_grad_exponent({g, x, out}))
METRONOME_ROW(pow_grad_base,   3, floating, 0,
              (select(z == V(0), V(0), x * (z * pow(y, z - V(1))))), undefined())
METRONOME_ROW(pow_grad_exponent, 3, floating, 0,
              (x * select((y == V(0)) & (abs(z) <= V(1)), V(0), z * log(y))), undefined())
METRONOME_ROW(pow_scalar,      1, floating, 1, (pow(x, a)),         pow_scalar_grad({g, x}, a))
METRONOME_ROW(pow_scalar_grad, 2, floating, 1,
              (select(a == V(0), V(0), x * (a * pow(y, a - V(1))))), undefined())

// Activations.
METRONOME_ROW(relu,          1, numbers,  0, (maximum(x, V(0))),       relu_grad({g, out}))
METRONOME_ROW(relu_grad,     2, floating, 0, (select(y <= V(0), V(0), x)), undefined())
METRONOME_ROW(tanh,          1, floating, 0, (tanh(x)),                tanh_grad({g, out}))
METRONOME_ROW(tanh_grad,     2, floating, 0, (x * (V(1) - y * y)),     undefined())
METRONOME_ROW(sigmoid,       1, floating, 0, (sigmoid(x)),             sigmoid_grad({g, out}))
METRONOME_ROW(sigmoid_grad,  2, floating, 0, (x * (y * (V(1) - y))),   undefined())
METRONOME_ROW(gelu,          1, floating, 0, (gelu(x)),                gelu_grad({g, x}))
METRONOME_ROW(gelu_grad,     2, floating, 0, (x * gelu_slope(y)),      undefined())
METRONOME_ROW(silu,          1, floating, 0, (silu(x)),                silu_grad({g, x}))
METRONOME_ROW(silu_grad,     2, floating, 0, (x * silu_slope(y)),      undefined())
METRONOME_ROW(softplus,      1, floating, 0,
              (maximum(x, V(0)) + log1p(exp(neg(abs(x))))), softplus_grad({g, x}))
METRONOME_ROW(softplus_grad, 2, floating, 0, (x * sigmoid(y)),         undefined())
