#include "distributed/launch/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <system_error>
#include <utility>

#include "executor/support/descriptor.h"
#include "graph/ir/error.h"

extern char** environ;

namespace metronome::distributed {
namespace {

std::vector<std::string> changed_environment(const std::map<std::string, std::string>& changed) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (!changed.contains(text.substr(0, text.find('=')))) variables.push_back(text);
  }
  for (const auto& [name, value] : changed) variables.push_back(name + "=" + value);
  return variables;
}

std::vector<char*> pointers_to(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// The child's side. Only calls that a signal handler may make: other threads may have held locks.
[[noreturn]] void become(char* const* command, char* const* variables, pid_t parent, int report) {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);  // the launcher, which keeps the store, ignores it
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(128 + SIGKILL);  // it died before
  ::execvpe(command[0], command, variables);
  const int error = errno;
  [[maybe_unused]] const ssize_t told = ::write(report, &error, sizeof error);
  ::_exit(127);
}

[[noreturn]] void refuse(const std::string& program, int error) {
  throw RunError(fmt::format("{} cannot be started: {}", program,
                             std::error_code(error, std::generic_category()).message()));
}

}  // namespace

Process::Process(const std::vector<std::string>& command,
                 const std::map<std::string, std::string>& changed) {
  const std::vector<std::string> environment = changed_environment(changed);
  const std::vector<char*> arguments = pointers_to(command), variables = pointers_to(environment);
  // Closed by exec; else it brings the error.
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) refuse(command[0], errno);
  const executor::Descriptor out(ends[0]);
  executor::Descriptor in(ends[1]);
  const pid_t parent = ::getpid();
  id_ = ::fork();
  if (id_ < 0) refuse(command[0], errno);
  if (id_ == 0) become(arguments.data(), variables.data(), parent, in.get());
  in = executor::Descriptor();  // the child holds the other
  int error = 0;
  ssize_t got = 0;
  do {
    got = ::read(out.get(), &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  if (got != sizeof error) return;
  wait();
  refuse(command[0], error);
}

Process::Process(Process&& other) noexcept
    : id_(other.id_), end_(std::exchange(other.end_, ProcessEnd{})) {}

Process::~Process() {
  if (!runs()) return;
  send(SIGKILL);
  wait();
}

bool Process::ends() { return runs() && take_end(WNOHANG); }

void Process::wait() {
  while (runs()) take_end(0);
}

void Process::send(int signal) const {
  if (runs()) ::kill(id_, signal);
}

bool Process::take_end(int flags) {
  int status = 0;
  const pid_t ended = ::waitpid(id_, &status, flags);
  if (ended == 0 || (ended < 0 && errno == EINTR)) return false;
  if (ended < 0) {
    end_ = ProcessEnd{1, 0};  // someone else waited for it
  } else if (WIFSIGNALED(status)) {
    end_ = ProcessEnd{128 + WTERMSIG(status), WTERMSIG(status)};
  } else {
    end_ = ProcessEnd{WEXITSTATUS(status), 0};
  }
  return true;
}

}  // namespace metronome::distributed
