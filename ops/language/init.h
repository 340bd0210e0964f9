// How storages begin: the named initialisers, and the numbers that they stand for.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "graph/ir/init.h"

namespace metronome {

struct Storage;

/// All elements equal: 0, 1, the number.
Init zeros();
Init ones();
Init constant(double number);
/// Row-major, one number per element.
Init values(InitialNumbers numbers);
/// U(low, high): at least `low`, below `high`.
Init uniform(double low, double high);
/// N(mean, deviation^2).
Init normal(double mean = 0, double deviation = 1);

/// N(mean, deviation^2) of numbers from `low` to `high` alone: torch.nn.init.trunc_normal_.
Init truncated_normal(double mean = 0, double deviation = 1, double low = -2, double high = 2);
/// `gain` times a matrix with orthogonal rows or columns, whichever are fewer, all such matrices
/// being equally likely: torch.nn.init.orthogonal_ (Saxe and others, "Exact solutions to the
/// nonlinear dynamics of learning in deep linear neural networks", 2014). All dimensions but the
/// first are the columns. A square one of n rows costs 4 n^3 operations.
Init orthogonal(double gain = 1);

/// All of `kaiming_*` and `xavier_*` need a fan of 1 or more and a gain of 0 or more, all finite:
/// else the storage is refused.
///
/// He et al., "Delving deep into rectifiers" (2015), for a leaky ReLU of slope `a`:
/// U(-b, b), b = sqrt(6 / ((1 + a^2) fan_in)). With a = sqrt(5), which is how PyTorch begins the
/// weights of its linear and convolution layers, b = 1 / sqrt(fan_in).
Init kaiming_uniform(std::int64_t fan_in, double a = 0);
/// N(0, 2 / ((1 + a^2) fan_in)).
Init kaiming_normal(std::int64_t fan_in, double a = 0);
/// Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
/// (2010): U(-b, b), b = gain sqrt(6 / (fan_in + fan_out)).
Init xavier_uniform(std::int64_t fan_in, std::int64_t fan_out, double gain = 1);
/// N(0, 2 gain^2 / (fan_in + fan_out)).
Init xavier_normal(std::int64_t fan_in, std::int64_t fan_out, double gain = 1);

/// Throws Requirement for a `bias_init` where a layer's options say that it has no bias.
void require_bias(bool bias, const std::optional<Init>& bias_init);

/// Writes the storage's initial value to `out`, which has room for `storage.type.bytes()` bytes.
///
/// Random numbers are drawn from Philox keyed by (seed, path), so they change neither with edits
/// elsewhere in the graph nor with the machine's threads; an f32 storage gets the rounded numbers
/// of the f64 one. Throws GraphError if the type cannot hold what is asked for.
void initialise(const Storage& storage, std::uint64_t seed, void* out);

}  // namespace metronome
