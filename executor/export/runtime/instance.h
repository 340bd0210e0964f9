// An exported library at work: its memory, and its kernels bound to it. The functions of the
// generated header call these, one each; the header says what they do.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "executor/export/runtime/tables.h"
#include "ops/rules/fault.h"

namespace metronome::exported {

/// The answer of each function. The generated header has the same numbers under its own names.
enum class Code : int {
  ok = 0,
  null = 1,         ///< a pointer is NULL that must not be
  wrong_bytes = 2,  ///< an array, or the memory that was given, is of another size
  wrong_value = 3,  ///< a number out of range
  too_early = 4,    ///< a step before its inputs are fed, a result before its step
  no_memory = 5,
  wrong_file = 6,
  wrong_processor = 7,  ///< told before there is an instance
};

class Instance {
 public:
  /// Binds all kernels over the memory, or over memory of its own where that is null. Sets `*made`
  /// where it returns `ok`.
  static Code create(const Tables& tables, void* memory, std::size_t bytes, Instance** made);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  Code feed(std::size_t input, const void* data, std::size_t bytes);
  Code run(std::size_t plan);
  Code read(std::size_t output, void* data, std::size_t bytes);
  Code get(std::size_t storage, void* data, std::size_t bytes);
  Code set(std::size_t storage, const void* data, std::size_t bytes);
  /// States at their initial values.
  void reset();
  Code save(const char* file);
  Code load(const char* file);

  /// For a number that is none of an enum's.
  Code refuse_entry(int entry, std::size_t entries);
  /// The first fault of a step since this was asked last, or "".
  const char* fault();
  /// The words of the last call that returned another code than `ok`; "" before.
  const char* error() const { return error_; }

 private:
  struct Step {
    CpuKernel::Function function;
    const void* arguments;
    const bool* guard;  ///< null: always
  };

  Instance(const Tables& tables, std::byte* block, bool owned);
  void fill();
  void bind();
  CpuKernel bind(const KernelRow& row);
  Type type(std::uint32_t index) const;
  std::size_t bytes_of(std::uint32_t type) const { return exported::bytes_of(tables_, type); }
  std::byte* at(std::int64_t place) const { return place < 0 ? nullptr : block_ + place; }
  /// Keeps the words, and returns the code.
  Code refuse(Code code, const char* format, ...) __attribute__((format(printf, 3, 4)));
  Code check(const char* what, const ArrayRow& array, const void* data, std::size_t bytes);
  /// Refuses to go on from weights that nothing has loaded.
  Code require_weights(const char* what);

  const Tables& tables_;
  std::byte* block_;
  bool owned_;
  FaultSlot faults_;
  std::vector<CpuKernel> kernels_;
  std::vector<Step> steps_;
  std::vector<std::uint64_t> versions_;      // [storage]
  std::vector<std::uint64_t> file_offsets_;  // [storage]: of `load`, which allocates nothing
  std::vector<bool> fed_;                    // [input]
  std::vector<std::int64_t> output_places_;  // [output]
  bool has_weights_ = false;
  char error_[320] = "";
  char fault_[320] = "";
};

}  // namespace metronome::exported
