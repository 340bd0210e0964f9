// A peer as a process: it answers one line of JSON with another.
#pragma once

#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace metronome::benchmarks {

/// Makes a `Peer` of the JSON that is the program's one argument, and lets it answer requests from
/// standard input until they end. An exception is answered as {"error": text}. Answers alone go to
/// standard output. Returns the exit status.
template <class Peer>
int serve(const char* program, int argc, char** argv) {
  using Json = nlohmann::ordered_json;
  if (argc != 2) {
    fmt::print(stderr, "{}: takes one argument, as benchmarks/peers gives it\n", program);
    return 2;
  }
  const auto answer = [](const auto& call) {
    Json said;
    bool done = false;
    try {
      said = call();
      done = true;
    } catch (const c10::Error& error) {
      said = {{"error", error.what_without_backtrace()}};
    } catch (const std::exception& error) {
      said = {{"error", error.what()}};
    }
    std::cout << said.dump(-1, ' ', true, Json::error_handler_t::replace) << std::endl;
    return done;
  };
  std::optional<Peer> peer;
  const bool begun = answer([&] {
    peer.emplace(Json::parse(argv[1]));
    return Json::object();
  });
  if (!begun) return 1;
  for (std::string line; std::getline(std::cin, line);) {
    answer([&] { return peer->answer(Json::parse(line)); });
  }
  return 0;
}

}  // namespace metronome::benchmarks
