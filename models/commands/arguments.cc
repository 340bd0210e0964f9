#include "models/commands/arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace metronome::commands {
namespace {

std::vector<std::string> options_of(const CLI::App& verb) {
  std::vector<std::string> names;
  for (const CLI::Option* option : verb.get_options()) {
    if (!option->get_lnames().empty()) names.push_back("--" + option->get_lnames().front());
  }
  return names;
}

std::vector<std::string> verbs_of(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  names.emplace_back("--help");
  return names;
}

int wrong(const std::string& message) {
  fmt::print(stderr, "metronome: {}\n", message);
  return 2;
}

}  // namespace

CLI::App* add_verb(CLI::App& app, const std::string& name, const std::string& what, Action& chosen,
                   Action action) {
  CLI::App* verb = app.add_subcommand(name, what);
  verb->allow_extras();  // so that `parse` can say which options there are
  verb->callback([&chosen, action = std::move(action)] { chosen = action; });
  return verb;
}

CLI::Validator whole_number(long long low, long long high) {
  const auto check = [low, high](std::string& text) -> std::string {
    long long number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    if (whole && number >= low && number <= high) return "";
    return fmt::format("\"{}\" is no whole number from {} to {}", text, low, high);
  };
  return {check, ""};
}

CLI::Validator byte_count() {
  struct Unit {
    std::string_view name;
    unsigned long long bytes;
  };
  static constexpr Unit kUnits[] = {
      {"", 1},       {"B", 1},          {"KiB", 1ull << 10},  {"MiB", 1 << 20}, {"GiB", 1ull << 30},
      {"KB", 1'000}, {"MB", 1'000'000}, {"GB", 1'000'000'000}};
  const auto check = [](std::string& text) -> std::string {
    unsigned long long number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    const auto* unit = std::ranges::find(kUnits, std::string_view(end, last), &Unit::name);
    const bool fits = error == std::errc() && unit != std::end(kUnits) &&
                      number <= std::numeric_limits<std::int64_t>::max() / unit->bytes;
    if (!fits) return fmt::format("\"{}\" is no number of bytes, as 67108864, 64MiB or 64MB", text);
    text = std::to_string(number * unit->bytes);
    return "";
  };
  return {check, ""};
}

CLI::Validator positive_number() {
  const auto check = [](std::string& text) -> std::string {
    double number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    const bool fits = error == std::errc() && end == text.data() + text.size();
    if (fits && std::isfinite(number) && number > 0) return "";
    return fmt::format("\"{}\" is no number above zero", text);
  };
  return {check, ""};
}

std::optional<Endpoint> endpoint_of(const std::string& text) {
  Endpoint found;
  const std::size_t colon = text.rfind(':'), port = colon == text.npos ? 0 : colon + 1;
  if (port > 0) {
    found.address = text.substr(0, colon);
    const bool bracketed = found.address.starts_with('[') && found.address.ends_with(']');
    if (bracketed) found.address = found.address.substr(1, found.address.size() - 2);
    const bool has_colon = found.address.find(':') != text.npos;
    if (found.address.empty() || bracketed != has_colon) return std::nullopt;
  }
  const auto [end, error] =
      std::from_chars(text.data() + port, text.data() + text.size(), found.port);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (!whole || found.port < 0 || found.port > 65535) return std::nullopt;
  return found;
}

CLI::Validator endpoint() {
  const auto check = [](std::string& text) -> std::string {
    if (endpoint_of(text)) return "";
    return fmt::format("\"{}\" is no port from 0 to 65535, and no ADDRESS:PORT", text);
  };
  return {check, ""};
}

CLI::Validator one_of(std::vector<std::string> names) {
  const auto check = [names = std::move(names)](std::string& text) -> std::string {
    if (std::ranges::find(names, text) != names.end()) return "";
    return fmt::format("there is no \"{}\": say {}", text, list_choices(names));
  };
  return {check, ""};
}

std::string list_choices(const std::vector<std::string>& names) {
  if (names.size() < 2) return fmt::format("{}", fmt::join(names, ""));
  return fmt::format("{} or {}", fmt::join(names.begin(), names.end() - 1, ", "), names.back());
}

int parse(CLI::App& app, int argc, char** argv) {
  const std::vector<std::string> verbs = verbs_of(app);
  if (argc < 2) return wrong(fmt::format("say what to do: {}.", list_choices(verbs)));
  const std::string_view first = argv[1];
  if (std::ranges::find(verbs, first) == verbs.end() && first != "-h") {
    return wrong(fmt::format("there is no \"{}\": say {}.", first, list_choices(verbs)));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    return wrong(fmt::format("{}.", error.what()));
  }
  for (const CLI::App* verb : app.get_subcommands()) {
    if (verb->remaining().empty()) continue;
    return wrong(fmt::format("{} knows no \"{}\": it takes {}.", verb->get_name(),
                             verb->remaining().front(), list_choices(options_of(*verb))));
  }
  return -1;
}

}  // namespace metronome::commands
