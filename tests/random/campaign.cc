#include "tests/random/campaign.h"

#include <fmt/format.h>

#include <algorithm>

#include "tests/random/shrink.h"
#include "tests/random/vocabulary.h"

namespace metronome::random_programs {
namespace {

std::optional<Failure> check_program(const Program& program, std::uint32_t seed, Kind kind,
                                     Tally* tally) {
  if (kind == Kind::mistaken) return check_mistaken(program, tally);
  if (kind == Kind::on_device) return check_on_device(program, tally);
  if (kind == Kind::misfed) return check_misfed(program, tally);
  if (auto failure = check_valid(program, tally)) return failure;
  if (seed % kCornersEvery == 0) {
    if (auto failure = check_corners(program, tally)) return failure;
  }
  return seed % kGradientsEvery == 0 ? check_gradients(program, tally) : std::nullopt;
}

/// Checks a program with a mistake; counts the mistake if it is reached.
std::optional<Failure> check_planted(const Program& program, const std::string& mistake,
                                     Tally* tally) {
  if (tally == nullptr) return check_mistaken(program, nullptr);
  const std::int64_t unreached = tally->unreached;
  const auto failure = check_mistaken(program, tally);
  if (tally->unreached == unreached) ++tally->mistakes[mistake];
  return failure;
}

/// The property, the smallest program that `fails` in the same way, and how to run it again.
std::string described(const Program& whole, const Failure& failure, const std::string& which,
                      const std::string& again,
                      const std::function<std::optional<Failure>(const Program&)>& check) {
  fmt::print(stderr, "{} misses \"{}\"\n{}\nLooking for a smaller one ...\n", which,
             failure.property, failure.detail);
  // A smaller program that fails in another way tells of another mistake.
  std::optional<Failure> last = failure;
  const Program small = shrink(whole, [&](const Program& program) {
    const auto found = check(program);
    if (!found || found->property != failure.property) return false;
    last = found;
    return true;
  });
  return fmt::format(
      "{} misses \"{}\"\n{}\nThe smallest program that does ({} of {} statements, seed {}): "
      "{}\n{}To run it again: bazel run //tests:random_programs -- {}\n",
      which, failure.property, failure.detail, count_steps(small.steps), count_steps(whole.steps),
      small.seed, last->detail, text_of(small), again);
}

Program program_of(std::uint32_t seed, Kind kind) {
  if (kind == Kind::mistaken) return generate_mistaken(seed).program;
  if (kind == Kind::misfed) return generate_misfed(seed).program;
  return generate(seed);
}

/// At least one of so many programs reaches the mistake planted in it.
constexpr std::int64_t kMostVain = 100;

}  // namespace

std::optional<Failure> check_seed(std::uint32_t seed, Kind kind, Tally* tally) {
  if (kind != Kind::mistaken) return check_program(program_of(seed, kind), seed, kind, tally);
  const Mistaken mistaken = generate_mistaken(seed);
  return check_planted(mistaken.program, mistaken.mistake, tally);
}

std::optional<std::string> check_mistake(std::size_t index, std::uint32_t first, std::int64_t count,
                                         Tally* tally) {
  const std::string mistake(mistakes()[index].name);
  std::int64_t reached = 0;
  for (std::int64_t i = 0; reached < count && i < kMostVain * count; ++i) {
    const std::uint32_t seed = first + static_cast<std::uint32_t>(i);
    const Program program = generate_with(mistake, seed);
    const std::int64_t before = tally->mistakes[mistake];
    if (const auto failure = check_planted(program, mistake, tally)) {
      return described(
          program, *failure, fmt::format("The program of seed {} with mistake {}", seed, index),
          fmt::format("--programs 0 --each-mistake 1 --mistake {} --seed {}", index, seed),
          [](const Program& p) { return check_mistaken(p); });
    }
    reached += tally->mistakes[mistake] - before;
  }
  return std::nullopt;
}

std::pair<std::string, std::int64_t> least_tried(const Tally& tally) {
  std::pair<std::string, std::int64_t> least = {"", INT64_MAX};
  for (const Mistake& mistake : mistakes()) {
    const auto found = tally.mistakes.find(std::string(mistake.name));
    const std::int64_t count = found == tally.mistakes.end() ? 0 : found->second;
    if (count < least.second) least = {std::string(mistake.name), count};
  }
  return least;
}

std::string describe_failure(std::uint32_t seed, Kind kind, const Failure& failure) {
  const bool mistaken = kind == Kind::mistaken;
  const char* again = mistaken                  ? "--programs 0 --mistaken 1"
                      : kind == Kind::misfed    ? "--programs 0 --misfed 1"
                      : kind == Kind::on_device ? "--programs 0 --on-device 1"
                                                : "--programs 1 --mistaken 0";
  return described(program_of(seed, kind), failure,
                   fmt::format("The {}program of seed {}", mistaken ? "mistaken " : "", seed),
                   fmt::format("--seed {} {}", seed, again),
                   [&](const Program& p) { return check_program(p, seed, kind, nullptr); });
}

std::string to_string(const Tally& t) {
  std::string text;
  if (t.programs > 0) {
    text += fmt::format(
        "{} valid programs, {} nodes on average; {} with regions that data decide; {} of {} "
        "counted "
        "loops ran differently often; {} met a selector out of range; {} evaluated too\n"
        "largest difference from eager {:.1e}; {} not compared with it, as rounding decides a "
        "comparison in them, and {} as their training diverges\n"
        "gradients of {} programs: {} slopes agree, largest difference {:.1e}; {} left out at "
        "kinks\n",
        t.programs, t.nodes / t.programs, t.with_regions, t.varying_loops, t.loops, t.faults,
        t.evaluated, t.largest_difference, t.sensitive, t.diverged, t.gradient_programs,
        t.gradients, t.largest_slope_difference, t.kinks);
    text += fmt::format("{} programs were fed with corners\n", t.corner_programs);
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
        "them in a region that was skipped; {} more left out, whose own selectors leave their "
        "range, and {} that read it for nothing\n",
        misfed, t.misfed.size(), least->second, t.skipped, t.own_faults, t.unread);
  }
  std::int64_t mistaken = 0;
  for (const auto& [name, count] : t.mistakes) mistaken += count;
  if (mistaken > 0) {
    const auto [name, count] = least_tried(t);
    text += fmt::format(
        "{} mistaken programs of {} kinds, and {} whose mistake is in a layer that nothing calls\n"
        "least tried, {} times: {}\n",
        mistaken, t.mistakes.size(), t.unreached, count, name);
  }
  return text;
}

}  // namespace metronome::random_programs
