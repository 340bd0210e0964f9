// A TorchScript file in libtorch, for beside.py: libtorch_program FILE float32|int64 4x32
//
// It makes one evaluation of ones and ends; or, with a last argument, prints the seconds of one, in
// the median of nine rounds.
#include <ATen/Parallel.h>
#include <torch/script.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

namespace {

std::vector<std::int64_t> shape_of(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::istringstream in(text);
  for (std::string size; std::getline(in, size, 'x');) shape.push_back(std::stoll(size));
  return shape;
}

double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

}  // namespace

int main(int argc, char** argv) {
  constexpr int kRounds = 9;
  constexpr double kRound = 0.05;  // seconds
  if (argc < 4) {
    std::fputs("libtorch_program: takes a file, an element type and a shape\n", stderr);
    return 2;
  }
  at::set_num_threads(1);
  const c10::InferenceMode answers_only;
  torch::jit::Module module = torch::jit::load(argv[1]);
  const auto type = std::string(argv[2]) == "int64" ? at::kLong : at::kFloat;
  const std::vector<c10::IValue> x = {at::ones(shape_of(argv[3]), type)};
  float read = *module.forward(x).toTensor().const_data_ptr<float>();
  std::vector<double> rounds;
  for (int r = 0; argc > 4 && r < kRounds; ++r) {
    int steps = 0;
    const double begin = seconds();
    for (; seconds() - begin < kRound; ++steps) {
      read += *module.forward(x).toTensor().const_data_ptr<float>();
    }
    rounds.push_back((seconds() - begin) / steps);
  }
  if (rounds.empty()) return read == read ? 0 : 1;
  std::ranges::nth_element(rounds, rounds.begin() + kRounds / 2);
  std::printf("%.9f\n", rounds[kRounds / 2]);
}
