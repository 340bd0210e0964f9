// The cost of one call of a kernel: every candidate and instruction set, at the shapes of the
// shipped models. One line each: op and shape, instruction set, candidate, threads, ns a call,
// rate.
//
//   bazel run //benchmarks:kernels -- --threads 1 --only "matmul f32[4, 64]"
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <vector>

#include "graph/ir/op_model.h"
#include "ops/batch_norm/batch_norm.h"
#include "ops/cpu/table.h"
#include "ops/layer_norm/layer_norm.h"
#include "ops/matmul/matmul.h"
#include "ops/softmax/softmax.h"

namespace metronome::benchmarks {
namespace {

using Clock = std::chrono::steady_clock;

struct Subject {
  OpPtr op;
  Types inputs;
  double flops = 0;  ///< of one call; 0: the rate is given in bytes
};

/// Cache lines filled with ordinary numbers.
class OperandMemory {
 public:
  explicit OperandMemory(const Type& type) : OperandMemory(type.bytes()) {
    for (std::int64_t i = 0; i < type.numel(); ++i) {
      const double number = static_cast<double>(i * 37 % 101) / 101 + 0.5;
      if (type.element == f32) reinterpret_cast<float*>(data())[i] = static_cast<float>(number);
      if (type.element == f64) reinterpret_cast<double*>(data())[i] = number;
    }
  }
  explicit OperandMemory(std::size_t bytes) : lines_(bytes / sizeof(Line) + 1) {}
  void* data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
};

double round_ns(const CpuKernel& kernel, int calls) {
  const auto begin = Clock::now();
  for (int i = 0; i < calls; ++i) kernel();
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls;
}

/// The best of many short rounds: what the kernel costs where nothing else runs.
double best_ns(const CpuKernel& kernel) {
  constexpr double kRoundNs = 200e3;
  constexpr int kRounds = 40;
  round_ns(kernel, 2);
  const int calls = std::clamp(static_cast<int>(kRoundNs / round_ns(kernel, 1)), 1, 20000);
  double best = round_ns(kernel, calls);
  for (int i = 1; i < kRounds; ++i) best = std::min(best, round_ns(kernel, calls));
  return best;
}

void measure(const Subject& subject, const std::string& name, const CpuTable& table, int threads) {
  const Types outputs = subject.op->infer(subject.inputs);
  std::vector<OperandMemory> memory;
  std::vector<void*> input_data, output_data;
  double bytes = 0;
  for (const Type& type : subject.inputs) {
    memory.emplace_back(type);
    input_data.push_back(memory.back().data());
    bytes += static_cast<double>(type.bytes());
  }
  for (const Type& type : outputs) {
    memory.emplace_back(type);
    output_data.push_back(memory.back().data());
    bytes += static_cast<double>(type.bytes());
  }
  const CpuTable::Rules& rules = table.of(*subject.op);
  for (const Candidate& choice :
       rules.candidates(*subject.op, {subject.inputs, outputs, threads})) {
    OperandMemory scratch(choice.scratch_bytes);
    const CpuKernel kernel = rules.bind(
        *subject.op, {subject.inputs, outputs, input_data, output_data, scratch.data(), choice});
    const double ns = best_ns(kernel);
    const std::string rate = subject.flops > 0 ? fmt::format("{:7.1f} GFLOP/s", subject.flops / ns)
                                               : fmt::format("{:7.1f} GB/s", bytes / ns);
    fmt::print("{:<64} {:<6} {:<6} x{} {:12.1f} ns {}\n", name, table.isa(), name_of(choice),
               choice.threads, ns, rate);
  }
}

/// y = x W^T + b, dx = g W, dW = g^T x and its sum with an earlier one.
void add_linear(std::vector<Subject>& subjects, std::int64_t rows, std::int64_t in,
                std::int64_t out, Element element = f32) {
  const double flops = 2.0 * static_cast<double>(rows * in * out);
  const auto type = [element](Shape shape) { return Type{element, std::move(shape)}; };
  const Type x = type({rows, in}), w = type({out, in}), g = type({rows, out});
  subjects.push_back({make_op(Linear{}), {x, w, type({out})}, flops});
  subjects.push_back({make_op(Matmul{}), {g, w}, flops});
  subjects.push_back({make_op(Matmul{.transpose_a = true}), {g, x}, flops});
  subjects.push_back({make_op(Matmul{.transpose_a = true, .accumulate = true}), {g, x, w}, flops});
}

/// Scores q k^T of attention and their product with v, heads in the leading dimension.
void add_attention(std::vector<Subject>& subjects, std::int64_t heads, std::int64_t length,
                   std::int64_t width) {
  const double flops = 2.0 * static_cast<double>(heads * length * length * width);
  const Type q{f32, {heads, length, width}}, p{f32, {heads, length, length}};
  subjects.push_back({make_op(Matmul{.transpose_b = true}), {q, q}, flops});
  subjects.push_back({make_op(Matmul{}), {p, q}, flops});
  subjects.push_back({make_op(Softmax{}), {p}});
  subjects.push_back({make_op(SoftmaxGrad{}), {p, p}});
}

void add_layer_norm(std::vector<Subject>& subjects, std::int64_t rows, std::int64_t width) {
  const Type x{f32, {rows, width}}, row{f32, {rows}}, column{f32, {width}};
  subjects.push_back({make_op(LayerNorm{}), {x, column, column}});
  subjects.push_back({make_op(LayerNormGrad{}), {x, x, row, row, column}});
}

void add_batch_norm(std::vector<Subject>& subjects, Shape shape) {
  const Type x{f32, shape}, c{f32, {shape[1]}};
  subjects.push_back({make_op(BatchNorm{}), {x, c, c, c, c}});
  subjects.push_back({make_op(BatchNormGrad{}), {x, x, c, c, c}});
  subjects.push_back({make_op(BatchNormEvaluate{}), {x, c, c, c, c}});
}

std::vector<Subject> all_subjects() {
  std::vector<Subject> subjects;
  for (const std::int64_t width : {16, 32, 64}) add_linear(subjects, 4, width, width);
  add_linear(subjects, 4, 16, 8);
  add_linear(subjects, 64, 16, 64);
  add_linear(subjects, 64, 64, 16);
  add_linear(subjects, 64, 64, 128);
  add_linear(subjects, 128, 128, 128);
  add_linear(subjects, 128, 512, 512);
  add_linear(subjects, 256, 1024, 1024);
  add_linear(subjects, 256, 2048, 2048);
  add_linear(subjects, 4, 64, 64, f64);
  add_linear(subjects, 128, 128, 128, f64);
  add_attention(subjects, 32, 16, 2);
  add_attention(subjects, 256, 128, 64);
  for (const std::int64_t width : {16, 32, 64}) add_layer_norm(subjects, 4, width);
  add_layer_norm(subjects, 64, 16);
  add_layer_norm(subjects, 256, 1024);
  add_layer_norm(subjects, 256, 2048);
  add_batch_norm(subjects, {64, 128});
  add_batch_norm(subjects, {256, 2048});
  add_batch_norm(subjects, {4, 8, 16, 16});
  add_batch_norm(subjects, {4, 64, 2, 2});
  add_batch_norm(subjects, {128, 64, 64, 64});
  return subjects;
}

std::string name_of(const Subject& subject) {
  std::vector<std::string> operands;
  for (const Type& type : subject.inputs) operands.push_back(to_string(type));
  const std::string attributes = subject.op->attributes();
  return fmt::format(
      "{}{} {}", subject.op->name(), attributes.empty() ? "" : fmt::format("({})", attributes),
      fmt::join(operands.begin(), operands.begin() + 2 - (operands.size() == 1), " "));
}

int run(int argc, char** argv) {
  CLI::App app("What one call of a kernel costs, at the shapes of the shipped models.");
  int threads = 2;
  std::string only, isa;
  app.add_option("--threads", threads, "most threads a kernel may use")->check(CLI::Range(1, 1024));
  app.add_option("--only", only, "measure what has this in its name");
  app.add_option("--isa", isa, "portable, avx2 or avx512")
      ->check(CLI::IsMember({"portable", "avx2", "avx512"}));
  CLI11_PARSE(app, argc, argv);

  std::vector<CpuTable> tables;
  for (const std::string_view each : {"avx512", "avx2", "portable"}) {
    if (!isa.empty() && isa != each) continue;
    if (each == "avx512" && !cpu_features().avx512) continue;
    tables.push_back(cpu_table_of(each));
  }
  for (const Subject& subject : all_subjects()) {
    const std::string name = name_of(subject);
    if (name.find(only) == std::string::npos) continue;
    for (const CpuTable& table : tables) measure(subject, name, table, threads);
  }
  return 0;
}

}  // namespace
}  // namespace metronome::benchmarks

int main(int argc, char** argv) { return metronome::benchmarks::run(argc, argv); }
