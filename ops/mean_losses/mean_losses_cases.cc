// Cases of the losses: one element, odd sizes, several dimensions, wide for threads.
#include "graph/ir/op_model.h"
#include "ops/mean_losses/mean_losses.h"

namespace metronome {

namespace {

constexpr Fillings kProbability{.low = 0, .high = 1};

CaseInput tensor(const Shape& shape, const Fillings& fill = {}) { return {Type{f32, shape}, fill}; }

template <class Loss>
std::vector<Case> regression(const Loss& loss, const Fillings& target = {}) {
  std::vector<Case> cases;
  const std::vector<std::pair<std::string, Shape>> sizes = {
      {"a scalar", {}},     {"one element", {1, 1}},         {"odd sizes", {7, 13}},
      {"one row", {1, 33}}, {"three dimensions", {2, 3, 5}}, {"wide", {64, 1031}}};
  for (const auto& [name, shape] : sizes) {
    cases.push_back({name, make_op(loss), {tensor(shape), tensor(shape, target)}, true, true});
  }
  return cases;
}

CaseInput classes(const Shape& rows, std::int64_t count) {
  return {Type{i64, rows},
          {.kind = Fillings::Kind::integers,
           .low = 0,
           .high = static_cast<double>(count),
           .differentiable = false}};
}

}  // namespace

std::vector<Case> MseLoss::cases() { return regression(MseLoss{}); }

std::vector<Case> L1Loss::cases() { return regression(L1Loss{}); }

std::vector<Case> SmoothL1Loss::cases() {
  std::vector<Case> cases = regression(SmoothL1Loss{});
  for (const double beta : {0.0, 0.3, 2.5}) {
    cases.push_back({"another beta",
                     make_op(SmoothL1Loss{beta}),
                     {tensor({7, 13}), tensor({7, 13})},
                     true,
                     true});
  }
  return cases;
}

std::vector<Case> CrossEntropyLoss::cases() {
  std::vector<Case> cases;
  const auto add = [&](std::string name, Shape rows, std::int64_t count, Fillings fill = {}) {
    Shape logits = rows;
    logits.push_back(count);
    cases.push_back({std::move(name),
                     make_op(CrossEntropyLoss{}),
                     {tensor(logits, fill), classes(rows, count)},
                     true,
                     true});
  };
  add("odd sizes", {7}, 13);
  add("one row", {1}, 5);
  add("no rows' dimension", {}, 5);
  add("one class", {4}, 1);
  add("a sequence", {3, 5}, 17);
  add("many classes", {9}, 1031);
  add("many rows", {513}, 10);
  add("large logits", {6}, 11, {.low = -80, .high = 80});
  const auto ignoring = [&](std::string name, std::int64_t ignored, double least, Shape rows) {
    Shape logits = rows;
    logits.push_back(5);
    CaseInput targets = classes(rows, 5);
    targets.fill.low = least;
    cases.push_back({std::move(name),
                     make_op(CrossEntropyLoss{ignored}),
                     {tensor(logits), targets},
                     true,
                     true});
  };
  ignoring("some rows ignored", -1, -1, {29});
  ignoring("a class ignored", 2, 0, {29});
  ignoring("some of a sequence ignored", -1, -1, {4, 7});
  ignoring("none of the ignored", -100, 0, {29});
  return cases;
}

std::vector<Case> BceWithLogitsLoss::cases() {
  std::vector<Case> cases = regression(BceWithLogitsLoss{}, kProbability);
  const Fillings large{.low = -60, .high = 60};
  cases.push_back({"large logits",
                   make_op(BceWithLogitsLoss{}),
                   {tensor({7, 13}, large), tensor({7, 13}, kProbability)},
                   true,
                   true});
  return cases;
}

}  // namespace metronome
