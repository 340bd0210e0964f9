// Cases of convolutions: one table of windows, from which each of the three ops takes its operands.
#include <utility>

#include "graph/ir/op_model.h"
#include "ops/convolution/convolution.h"
#include "ops/rules/case.h"

namespace metronome {
namespace {

struct ConvolutionRow {
  std::string name;
  Shape x, weight;
  ConvolutionWindow window;
  bool bias = true;

  Shape output() const {
    return Convolution{window}.infer(Types{{f32, x}, {f32, weight}})[0].shape;
  }
  ConvolutionWindow tight() const { return tighten(window, x, weight, output()); }
};

/// A window with one number for all spatial dimensions.
ConvolutionWindow window(std::size_t dimensions, std::int64_t padding, std::int64_t stride = 1,
                         std::int64_t dilation = 1, std::int64_t groups = 1) {
  const Shape around(dimensions, padding);
  return {Shape(dimensions, stride), around, around, Shape(dimensions, dilation), groups};
}

std::vector<ConvolutionRow> convolution_rows() {
  return {
      {"1d", {2, 3, 9}, {4, 3, 3}, window(1, 0)},
      {"1d, all at once", {3, 4, 17}, {6, 2, 3}, {{2}, {1}, {2}, {2}, 2}},
      {"2d", {2, 3, 8, 8}, {4, 3, 3, 3}, window(2, 1)},
      {"2d, no bias", {2, 3, 6, 6}, {4, 3, 3, 3}, window(2, 1), false},
      {"2d, odd", {3, 5, 7, 9}, {7, 5, 3, 2}, {{2, 1}, {1, 0}, {0, 1}, {1, 1}}},
      {"stride 2 of 4", {2, 3, 8, 8}, {6, 3, 4, 4}, window(2, 1, 2)},
      {"stride leaves a rest", {2, 2, 9, 8}, {3, 2, 3, 3}, window(2, 0, 4), false},
      {"stride beyond the kernel", {2, 3, 7, 8}, {4, 3, 1, 2}, window(2, 0, 3)},
      {"dilation", {2, 3, 9, 10}, {4, 3, 3, 3}, {{1, 1}, {2, 1}, {2, 1}, {2, 3}}},
      {"groups", {2, 6, 6, 5}, {4, 3, 3, 3}, window(2, 1, 1, 1, 2)},
      {"depthwise", {2, 5, 7, 7}, {5, 1, 3, 3}, window(2, 1, 1, 1, 5)},
      {"depthwise, two outputs each", {2, 3, 8, 7}, {6, 1, 3, 3}, window(2, 1, 2, 1, 3), false},
      {"pointwise", {2, 7, 5, 5}, {9, 7, 1, 1}, window(2, 0)},
      {"pointwise, stride", {2, 7, 5, 6}, {9, 7, 1, 1}, window(2, 0, 2), false},
      {"one element", {1, 1, 1}, {1, 1, 1}, window(1, 0)},
      {"to one pixel", {4, 19, 2, 2}, {17, 19, 4, 4}, window(2, 1, 2)},
      {"as large as the input", {2, 3, 5, 5}, {4, 3, 5, 5}, window(2, 0)},
      {"padding beyond the kernel", {2, 2, 3, 3}, {2, 2, 2, 2}, window(2, 3), false},
      {"cut", {2, 2, 8, 8}, {3, 2, 3, 3}, {{1, 1}, {-1, 0}, {0, -2}, {1, 1}}},
      {"3d", {1, 2, 4, 5, 6}, {3, 2, 2, 3, 3}, window(3, 1)},
      {"3d, all at once",
       {2, 4, 5, 6, 7},
       {4, 2, 2, 3, 1},
       {{1, 2, 1}, {0, 1, 0}, {1, 0, 2}, {2, 1, 1}, 2},
       false},
      {"empty batch", {0, 3, 6, 6}, {4, 3, 3, 3}, window(2, 1)},
      {"many channels", {1, 35, 10, 11}, {37, 35, 3, 3}, window(2, 1)},
      {"many channels, stride", {2, 32, 10, 10}, {48, 32, 4, 4}, window(2, 1, 2)},
      {"many channels, tiny images", {70, 70, 2, 2}, {66, 70, 3, 3}, window(2, 1)},
      {"many channels, cut", {3, 17, 13, 9}, {16, 17, 3, 3}, {{1, 1}, {-1, 3}, {2, -1}, {1, 1}}},
      {"many channels, stride, odd",
       {3, 17, 13, 10},
       {19, 17, 4, 4},
       {{2, 2}, {0, 2}, {1, 1}, {1, 1}}},
      {"many channels, stride, cut",
       {2, 70, 9, 8},
       {16, 70, 4, 4},
       {{2, 2}, {-1, 3}, {2, 0}, {1, 1}}},
      {"many images, stride, odd", {24, 16, 13, 13}, {18, 16, 4, 4}, window(2, 1, 2)},
      {"large plane", {1, 3, 46, 45}, {20, 3, 3, 3}, window(2, 1)},
      {"large pointwise", {1, 70, 16, 15}, {66, 70, 1, 1}, window(2, 0)},
      {"large 1d", {2, 33, 86}, {40, 33, 5}, window(1, 1, 1), false},
      {"large 3d", {1, 8, 5, 8, 9}, {16, 8, 3, 3, 3}, window(3, 1)},
      {"large groups, odd", {2, 32, 14, 15}, {48, 8, 3, 3}, {{1, 1}, {2, 0}, {1, 2}, {1, 2}, 4}},
      {"large depthwise", {4, 40, 30, 30}, {40, 1, 3, 3}, window(2, 1, 1, 1, 40)},
      {"large, stride leaves a rest", {1, 33, 25, 22}, {35, 33, 3, 3}, window(2, 0, 2)},
  };
}

std::vector<CaseInput> operands(std::vector<Shape> shapes) {
  std::vector<CaseInput> inputs;
  for (Shape& shape : shapes) inputs.push_back({{f32, std::move(shape)}});
  return inputs;
}

}  // namespace

std::vector<Case> Convolution::cases() {
  std::vector<Case> cases;
  for (const ConvolutionRow& row : convolution_rows()) {
    std::vector<Shape> shapes = {row.x, row.weight};
    if (row.bias) shapes.push_back({row.weight[0]});
    cases.push_back({.name = row.name,
                     .op = make_op(Convolution{row.window}),
                     .inputs = operands(std::move(shapes)),
                     .sums = true});
  }
  return cases;
}

std::vector<Case> TransposedConvolution::cases() {
  std::vector<Case> cases;
  for (const ConvolutionRow& row : convolution_rows()) {
    std::vector<Shape> shapes = {row.output(), row.weight};
    if (row.bias) shapes.push_back({row.x[1]});
    cases.push_back({.name = row.name,
                     .op = make_op(TransposedConvolution{row.tight()}),
                     .inputs = operands(std::move(shapes)),
                     .sums = true});
  }
  return cases;
}

std::vector<Case> ConvolutionWeightGrad::cases() {
  std::vector<Case> cases;
  std::vector<ConvolutionRow> rows = convolution_rows();
  // Devices make parts of sums of so many products.
  rows.push_back(
      {"long sums, groups", {4, 2, 72, 72}, {2, 1, 2, 1}, {{1, 1}, {0, 0}, {0, 0}, {1, 1}, 2}});
  for (const ConvolutionRow& row : rows) {
    cases.push_back({.name = row.name,
                     .op = make_op(ConvolutionWeightGrad{row.tight()}),
                     .inputs = operands({row.x, row.output()}),
                     .sums = true});
  }
  return cases;
}

}  // namespace metronome
