// metronome: trains, compares and plans the shipped models.
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <exception>

#include "models/commands/commands.h"

int main(int argc, char** argv) {
  using namespace metronome::commands;
  CLI::App app(
      "Declare a model once, plan the whole training step ahead of time, replay it every step.",
      "metronome");
  Action chosen;
  add_verbs(app, chosen);
  if (const int status = parse(app, argc, argv); status >= 0) return status;
  const auto failed = [](const std::exception& error, int status) {
    std::fflush(stdout);
    const char* rank = std::getenv("RANK");
    fmt::print(stderr, "metronome: {}{}\n", rank == nullptr ? "" : fmt::format("rank {}: ", rank),
               error.what());
    return status;
  };
  try {
    return chosen();
  } catch (const UsageError& error) {
    return failed(error, 2);
  } catch (const NoDeviceError& error) {
    return failed(error, 3);
  } catch (const std::exception& error) {
    return failed(error, 1);
  }
}
