// The error that a call throws, as text.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>

namespace metronome::tests {

/// The text of the `Error` that a call throws, or "nothing"; other errors pass through. By default
/// those of the user are caught: GraphError and RunError are runtime errors, InternalError is not.
///   error_of<RunError>([&] { step.run(feeds); })
template <class Error = std::runtime_error>
std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

}  // namespace metronome::tests
