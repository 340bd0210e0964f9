// The command line's common parts: checks that name the right values, and options' usual texts.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace metronome::commands {

/// The work of a verb whose arguments are understood. Returns the exit status.
using Action = std::function<int()>;

/// The command line is wrong; the message names what would be right: exit status 2.
class UsageError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// This machine cannot do it: exit status 3. The program's only or last line says why.
class NoDeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// An address and a port to listen at.
struct Endpoint {
  std::string address = "127.0.0.1";
  int port = 0;
};
/// Reads "8080" or "0.0.0.0:8080"; absent where the text is neither.
std::optional<Endpoint> endpoint_of(const std::string& text);

/// Adds a verb. Its action is set in `chosen` when the command line names it.
CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& what, Action& chosen,
                   Action action);

/// "12" from low to high.
CLI::Validator whole_number(long long low, long long high);
/// Bytes, as 67108864, 64MiB or 64MB; the argument becomes the whole number.
CLI::Validator byte_count();
/// "0.001", above zero.
CLI::Validator positive_number();
/// "8080", "0.0.0.0:8080" or "[::1]:8080".
CLI::Validator endpoint();
/// One of the names, listed as "a, b or c".
CLI::Validator one_of(std::vector<std::string> names);

/// "a, b or c".
std::string list_choices(const std::vector<std::string>& names);

/// Reads the arguments: sets the chosen action and returns -1, or prints help or what is wrong and
/// returns the exit status: 0 for help, 2 for a wrong argument.
int parse(CLI::App& app, int argc, char** argv);

}  // namespace metronome::commands
