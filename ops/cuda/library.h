// Calls of a device's libraries, as commands: what the executor and drivers know of each.
//
// A call is a plain struct (GemmCommand: a matrix product) with these members:
//
//   static constexpr std::string_view name      "gemm"
//   static constexpr Maker maker                whose library it is
//   std::string text() const                    what it computes: "f32 [2, 3] x [3, 4]"
//   std::vector<LibraryOperand> operands() const
//                                               the bytes that it reads, writes and works in
//   void check() const                          throws InternalError for what no library computes
//   std::optional<Algorithm> algorithm          the chosen candidate's; absent: the library's first
//
// and, where it may never stand in a conditional node of a graph:
//
//   static constexpr bool conditional = false
//
// To add one: its struct; what runs it on a device, in executor/cuda/libraries/libraries.cc; and on
// the host, for tests, in tests/cuda/host_libraries.h.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <typeindex>
#include <utility>
#include <vector>

#include "ops/rules/candidate.h"

namespace metronome {

/// Bytes of device memory that a call touches.
struct LibraryOperand {
  enum class Use { read, write, workspace };
  const void* data = nullptr;
  std::size_t bytes = 0;
  Use use = Use::read;
};

template <class T>
concept LibraryCall = std::copyable<T> && requires(const T& call) {
  { T::name } -> std::convertible_to<std::string_view>;
  { T::maker } -> std::convertible_to<Maker>;
  { call.text() } -> std::same_as<std::string>;
  { call.operands() } -> std::same_as<std::vector<LibraryOperand>>;
  { call.check() } -> std::same_as<void>;
  { call.algorithm } -> std::convertible_to<std::optional<Algorithm>>;
};

/// Any of them. Copies share the call, which does not change.
class LibraryCommand {
 public:
  // Itself first: clang would ask for its own copies to find out whether it is a call.
  template <class T>
    requires(!std::same_as<T, LibraryCommand>) && LibraryCall<T>
  LibraryCommand(T call) : call_(std::make_shared<const Model<T>>(std::move(call))) {}

  std::string_view name() const { return call_->name(); }
  Maker maker() const { return call_->maker(); }
  std::string text() const { return call_->text(); }
  std::vector<LibraryOperand> operands() const { return call_->operands(); }
  void check() const { call_->check(); }
  /// False where it may never stand in a conditional node of a graph.
  bool conditional() const { return call_->conditional(); }
  const std::optional<Algorithm>& algorithm() const { return call_->algorithm(); }

  /// Null for a call of another kind.
  template <LibraryCall T>
  const T* as() const {
    return call_->kind() == typeid(T) ? static_cast<const T*>(call_->self()) : nullptr;
  }

 private:
  struct Call {
    virtual ~Call() = default;
    virtual std::type_index kind() const = 0;
    virtual const void* self() const = 0;
    virtual std::string_view name() const = 0;
    virtual Maker maker() const = 0;
    virtual std::string text() const = 0;
    virtual std::vector<LibraryOperand> operands() const = 0;
    virtual void check() const = 0;
    virtual bool conditional() const = 0;
    virtual const std::optional<Algorithm>& algorithm() const = 0;
  };
  template <class T>
  struct Model final : Call {
    explicit Model(T of) : call(std::move(of)) {}
    std::type_index kind() const override { return typeid(T); }
    const void* self() const override { return &call; }
    std::string_view name() const override { return T::name; }
    Maker maker() const override { return T::maker; }
    std::string text() const override { return call.text(); }
    std::vector<LibraryOperand> operands() const override { return call.operands(); }
    void check() const override { call.check(); }
    bool conditional() const override {
      if constexpr (requires { T::conditional; }) {
        return T::conditional;
      } else {
        return true;
      }
    }
    const std::optional<Algorithm>& algorithm() const override { return call.algorithm; }
    T call;
  };

  std::shared_ptr<const Call> call_;
};

/// A device's libraries, as rules ask for candidates.
class Libraries {
 public:
  virtual ~Libraries() = default;
  /// Ways to make the call, the library's own first choice first; empty where it offers none (a
  /// bias in the epilogue of a layout that it does not know). The call needs no memory yet: its
  /// pointers may be null, and its algorithm is not looked at.
  virtual std::vector<Candidate> candidates(const LibraryCommand& call) const = 0;
};

}  // namespace metronome
