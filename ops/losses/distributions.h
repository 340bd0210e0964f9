// Distributions, as values of a graph: draws, logarithms of densities, entropies, divergences.
// Names are those of torch.distributions.
//
//   const mt::distributions::Categorical policy{logits, legal};
//   const mt::Value action = policy.sample("action");
//   const mt::Value gain = policy.log_prob(action) * advantage + 0.01 * policy.entropy();
//
// Parameters are f32 or f64. A shape [..., n] holds independent distributions, or, of those that
// say so, one over the last axis. `sample` lets no gradient through, `rsample` lets it flow to the
// parameters. Names of draws are as in ops/language/draws.h.
#pragma once

#include <string>

#include "graph/ir/line.h"
#include "graph/ir/value.h"
#include "ops/language/draws.h"

namespace metronome {
namespace distributions {

/// Each element by itself; scale > 0.
struct Normal {
  Value loc, scale;
  Value sample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  Value rsample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  Value log_prob(Value value, Line line = Line::here()) const;
  Value entropy(Line line = Line::here()) const;
};

/// A vector along the last axis, whose elements are independent: densities, entropies and
/// divergences have no last axis.
struct DiagonalNormal {
  Value loc, scale;
  Value sample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  Value rsample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  Value log_prob(Value value, Line line = Line::here()) const;
  Value entropy(Line line = Line::here()) const;
};

/// A draw and the logarithm of its density.
struct Draw {
  Value value, log_prob;
};

/// tanh of a DiagonalNormal, in (-1, 1) but for rounding: Haarnoja and others, "Soft actor-critic",
/// 2018, appendix C. Its density is taken of the number before tanh, which keeps its digits.
struct SquashedNormal {
  Value loc, scale;
  /// Gradients flow through both.
  Draw rsample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  /// A value of -1 or 1, to which tanh rounds, counts as its neighbour.
  Value log_prob(Value value, Line line = Line::here()) const;
};

/// A class along the last axis, with the probabilities softmax(logits); samples are i64 without
/// that axis. `mask`: bool, of the logits' shape or broadcast to it; where it is false the class is
/// illegal: its probability is 0, its log_prob -inf, and no NaN comes of it. One class or more must
/// be legal: `sample` reports a row without one (`Executable::fault`).
struct Categorical {
  Value logits;
  Value mask = {};
  Value sample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  Value probs(Line line = Line::here()) const;  ///< [..., classes]
  Value log_prob(Value index, Line line = Line::here()) const;
  Value entropy(Line line = Line::here()) const;
};

/// 1 with probability sigmoid(logits), else 0, each element by itself.
struct Bernoulli {
  Value logits;
  Value sample(const std::string& name, DrawOptions options = {}, Line line = Line::here()) const;
  Value log_prob(Value value, Line line = Line::here()) const;
  Value entropy(Line line = Line::here()) const;
};

/// The Kullback-Leibler divergence, the mean of log p - log q over draws of p: infinite where q
/// never draws what p does. Shapes are those of `entropy`.
Value kl_divergence(const Normal& p, const Normal& q, Line line = Line::here());
Value kl_divergence(const DiagonalNormal& p, const DiagonalNormal& q, Line line = Line::here());
Value kl_divergence(const Categorical& p, const Categorical& q, Line line = Line::here());
Value kl_divergence(const Bernoulli& p, const Bernoulli& q, Line line = Line::here());

}  // namespace distributions
}  // namespace metronome
