#include "distributed/store/store.h"

#include <c10/util/Exception.h>
#include <c10/util/Flags.h>
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <exception>
#include <future>
#include <mutex>
#include <optional>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>

#include "distributed/store/addresses.h"
#include "distributed/store/first_line.h"
#include "graph/ir/error.h"

C10_DECLARE_int(caffe2_log_level);

namespace metronome::distributed {
namespace {

/// While it lives, libtorch does not print why it tries to connect once more: errors say it.
/// The level is the process's: of several at once the first sets it, and the last sets it back.
class SilencedLog {
 public:
  SilencedLog() {
    const std::lock_guard lock(mutex_);
    if (alive_++ == 0) before_ = std::exchange(FLAGS_caffe2_log_level, kNothing);
  }
  ~SilencedLog() {
    const std::lock_guard lock(mutex_);
    if (--alive_ == 0) FLAGS_caffe2_log_level = before_;
  }
  SilencedLog(const SilencedLog&) = delete;
  SilencedLog& operator=(const SilencedLog&) = delete;

 private:
  static constexpr int kNothing = 4;  // above fatal
  static inline std::mutex mutex_;
  static inline int alive_ = 0, before_ = 0;
};

/// libtorch and Gloo write to sockets whose other end may be gone: a write then fails, as each of
/// theirs expects, instead of ending the process. A handler of the program's own stays.
void ignore_broken_pipes() {
  struct sigaction now{};
  ::sigaction(SIGPIPE, nullptr, &now);
  if (now.sa_handler == SIG_DFL) std::signal(SIGPIPE, SIG_IGN);
}

using Client = c10::intrusive_ptr<c10d::TCPStore>;

c10d::TCPStoreOptions options_of(int port, Milliseconds limit) {
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(port);
  options.waitWorkers = false;
  // libtorch connects for whole seconds.
  options.timeout = std::max(limit, Milliseconds(1000));
  return options;
}

/// On a thread of its own, which libtorch may hold for long where something listens that is no
/// store. Nothing if it has not ended within the limit; the thread is then left to itself.
std::optional<Client> connect_client(const std::string& host, int port, Milliseconds limit) {
  std::promise<Client> promise;
  std::future<Client> client = promise.get_future();
  std::thread([host, port, limit, promise = std::move(promise)]() mutable {
    try {
      promise.set_value(c10::make_intrusive<c10d::TCPStore>(host, options_of(port, limit)));
    } catch (...) {
      promise.set_exception(std::current_exception());
    }
  }).detach();
  if (client.wait_for(limit) != std::future_status::ready) return std::nullopt;
  return client.get();
}

std::vector<std::uint8_t> bytes_of(const std::string& text) { return {text.begin(), text.end()}; }
std::string text_of(const std::vector<std::uint8_t>& bytes) { return {bytes.begin(), bytes.end()}; }

}  // namespace

std::string first_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

struct Store::Impl {
  std::string host;
  Client client;

  template <class Call>
  auto ask(Call call) const {
    const SilencedLog quiet;
    try {
      return call(*client);
    } catch (const std::exception& error) {
      throw RunError(fmt::format("the store at {} is gone: {}",
                                 address_text(host, client->getPort()), first_line(error)));
    }
  }
};

Store::Store(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Store Store::serve(const std::string& host, int port, Milliseconds limit) {
  ignore_broken_pipes();
  const SilencedLog quiet;
  c10d::TCPStoreOptions options = options_of(port, limit);
  options.isServer = true;
  try {
    return Store(
        std::make_shared<Impl>(Impl{host, c10::make_intrusive<c10d::TCPStore>(host, options)}));
  } catch (const std::exception& error) {
    throw RunError(
        fmt::format("no store can listen at {}: {}", address_text(host, port),
                    listens(host, port) ? "the port is taken; choose another" : first_line(error)));
  }
}

Store Store::connect(const std::string& host, int port, Milliseconds limit) {
  ignore_broken_pipes();
  const SilencedLog quiet;
  std::string why;
  try {
    if (const auto client = connect_client(host, port, limit)) {
      return Store(std::make_shared<Impl>(Impl{host, *client}));
    }
  } catch (const std::exception& error) {
    why = fmt::format(" ({})", first_line(error));
  }
  const std::string where = address_text(host, port);
  if (listens(host, port)) {
    throw RunError(fmt::format(
        "what listens at {} is no store of ranks: another program may have taken the port", where));
  }
  throw RunError(fmt::format("no store answers at {} within {} s{}", where,
                             std::chrono::duration<double>(limit).count(), why));
}

int Store::port() const { return impl_->client->getPort(); }

void Store::set(const std::string& key, const std::string& text) const {
  impl_->ask([&](c10d::TCPStore& store) { store.set(key, bytes_of(text)); });
}

std::string Store::set_if_absent(const std::string& key, const std::string& text) const {
  return impl_->ask(
      [&](c10d::TCPStore& store) { return text_of(store.compareSet(key, {}, bytes_of(text))); });
}

std::int64_t Store::add(const std::string& key, std::int64_t number) const {
  return impl_->ask([&](c10d::TCPStore& store) { return store.add(key, number); });
}

bool Store::has(const std::string& key) const {
  return impl_->ask([&](c10d::TCPStore& store) { return store.check({key}); });
}

bool Store::wait(const std::vector<std::string>& keys, Milliseconds limit) const {
  return impl_->ask([&](c10d::TCPStore& store) {
    try {
      store.wait(keys, limit);
      return true;
    } catch (const c10::DistStoreError&) {
      return false;  // it did not come in time
    }
  });
}

std::string Store::get(const std::string& key) const {
  return impl_->ask([&](c10d::TCPStore& store) { return text_of(store.get(key)); });
}

c10d::TCPStore& Store::client() const { return *impl_->client; }

}  // namespace metronome::distributed
