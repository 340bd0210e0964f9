#include "tests/random/campaign.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/random/shrink.h"

namespace metronome::random_programs {
namespace {

std::optional<Failure> check_program(const Program& program, std::uint32_t seed, Kind kind,
                                     Tally* tally) {
  if (kind == Kind::mistaken) return check_mistaken(program, tally);
  if (kind == Kind::on_device) return check_on_device(program, tally);
  if (kind == Kind::misfed) return check_misfed(program, tally);
  if (auto failure = check_valid(program, tally)) return failure;
  return seed % kGradientsEvery == 0 ? check_gradients(program, tally) : std::nullopt;
}

}  // namespace

std::optional<Failure> check_seed(std::uint32_t seed, Kind kind, Tally* tally) {
  if (kind == Kind::misfed) return check_program(generate_misfed(seed).program, seed, kind, tally);
  if (kind != Kind::mistaken) return check_program(generate(seed), seed, kind, tally);
  const Mistaken mistaken = generate_mistaken(seed);
  if (tally != nullptr) ++tally->mistakes[mistaken.mistake];
  return check_program(mistaken.program, seed, kind, tally);
}

std::string describe_failure(std::uint32_t seed, Kind kind, const Failure& failure) {
  // A smaller program that fails in another way tells of another mistake.
  std::optional<Failure> last = failure;
  const bool mistaken = kind == Kind::mistaken;
  const Program whole = mistaken               ? generate_mistaken(seed).program
                        : kind == Kind::misfed ? generate_misfed(seed).program
                                               : generate(seed);
  const Program small = shrink(whole, [&](const Program& program) {
    const auto found = check_program(program, seed, kind, nullptr);
    if (!found || found->property != failure.property) return false;
    last = found;
    return true;
  });
  return fmt::format(
      "{} program of seed {} misses \"{}\"\n{}\nThe smallest program that does ({} of {} "
      "statements, seed {}): {}\n{}To run it again: bazel run //tests:random_programs -- --seed {} "
      "{}\n",
      mistaken ? "The mistaken" : "The", seed, failure.property, failure.detail,
      count_steps(small.steps), count_steps(whole.steps), small.seed, last->detail, text_of(small),
      seed,
      mistaken                  ? "--programs 0 --mistaken 1"
      : kind == Kind::misfed    ? "--programs 0 --misfed 1"
      : kind == Kind::on_device ? "--programs 0 --on-device 1"
                                : "--programs 1 --mistaken 0");
}

std::string to_string(const Tally& t) {
  std::string text;
  if (t.programs > 0) {
    text += fmt::format(
        "{} valid programs, {} nodes on average; {} with regions that data decide; {} of {} "
        "counted "
        "loops ran differently often; {} met a selector out of range; {} evaluated too\n"
        "largest difference from eager {:.1e}; {} not compared with it, as rounding decides a "
        "comparison in them\n"
        "gradients of {} programs: {} slopes agree, largest difference {:.1e}; {} left out at "
        "kinks\n",
        t.programs, t.nodes / t.programs, t.with_regions, t.varying_loops, t.loops, t.faults,
        t.evaluated, t.largest_difference, t.sensitive, t.gradient_programs, t.gradients,
        t.largest_slope_difference, t.kinks);
  }
  if (t.device_programs > 0) {
    text += fmt::format(
        "{} programs on a device: {} with conditional nodes, {} with such nodes in others; {} "
        "nodes skipped\n",
        t.device_programs, t.device_regions, t.device_nested, t.device_skipped);
  }
  std::int64_t misfed = 0;
  for (const auto& [name, count] : t.misfed) misfed += count;
  if (misfed > 0) {
    const auto least =
        std::ranges::min_element(t.misfed, {}, [](const auto& kind) { return kind.second; });
    text += fmt::format(
        "{} programs that something wrong was fed to, of {} kinds, each {} times or more; {} of "
        "them in a region that was skipped\n",
        misfed, t.misfed.size(), least->second, t.skipped);
  }
  std::int64_t mistaken = 0;
  for (const auto& [name, count] : t.mistakes) mistaken += count;
  if (mistaken > 0) {
    text +=
        fmt::format("{} mistaken programs of {} kinds, {} of them in layers that nothing calls\n",
                    mistaken, t.mistakes.size(), t.unreached);
  }
  return text;
}

}  // namespace metronome::random_programs
