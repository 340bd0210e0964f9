// ONNX Runtime among the peers, asked through its C API: a process that onnx_evaluators.py drives.
//
//   onnx_peer LIBRARY MODEL THREADS QUESTIONS float32|int64 4x32 4x16
//
// QUESTIONS holds the inputs x one after the other, as plain numbers. The shapes are those of x and
// of the answer y. It says "ready" and then answers each line of standard input:
//
//   time run|bound FIRST COUNT   milliseconds a step, for so many steps
//   write run|bound COUNT FILE   "done", once FILE holds the first answers
//
// or says "error" and why, and ends.
#include <dlfcn.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// ONNX Runtime's Python package has the library and no header. Its API is a table of functions, to
// which versions only append (see the rules in its onnxruntime_c_api.cc), so this declares what it
// calls by place and type.
constexpr std::uint32_t kApiVersion = 5;  // the first with all of the places below

struct ApiBase {
  const void* const* (*api)(std::uint32_t version);
  const char* (*version)();
};

struct Env;
struct SessionOptions;
struct Session;
struct RunOptions;
struct MemoryInfo;
struct OrtValue;
struct Binding;
struct Status;

enum ApiFunction {
  kGetErrorMessage = 2,
  kCreateEnv = 3,
  kCreateSession = 7,
  kRun = 9,
  kCreateSessionOptions = 10,
  kSetSessionGraphOptimizationLevel = 23,
  kSetIntraOpNumThreads = 24,
  kSetInterOpNumThreads = 25,
  kCreateTensorWithDataAsOrtValue = 49,
  kCreateCpuMemoryInfo = 69,
  kRunWithBinding = 133,
  kCreateIoBinding = 134,
  kBindInput = 136,
  kBindOutput = 137,
};

constexpr int kLogErrors = 3;
constexpr int kAllOptimizations = 99;
constexpr int kArenaAllocator = 1, kDefaultMemory = 0;
constexpr int kFloat = 1, kInt64 = 7;

class Api {
 public:
  explicit Api(const char* library) {
    void* opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) throw std::runtime_error(dlerror());
    void* found = dlsym(opened, "OrtGetApiBase");
    if (found == nullptr) throw std::runtime_error(dlerror());
    const ApiBase* base = reinterpret_cast<const ApiBase* (*)()>(found)();
    table_ = base->api(kApiVersion);
    if (table_ == nullptr) {
      throw std::runtime_error(std::string("ONNX Runtime ") + base->version() + " has another API");
    }
  }

  // Calls the function in this place, which takes these types and returns a status.
  template <typename... Types, typename... Arguments>
  void call(ApiFunction place, Arguments... arguments) const {
    const auto function = reinterpret_cast<Status* (*)(Types...)>(table_[place]);
    if (Status* status = function(arguments...)) {
      const auto message =
          reinterpret_cast<const char* (*)(const Status*)>(table_[kGetErrorMessage]);
      throw std::runtime_error(message(status));
    }
  }

  Env* env() const {
    Env* env = nullptr;
    call<int, const char*, Env**>(kCreateEnv, kLogErrors, "peer", &env);
    return env;
  }
  Session* session(Env* env, const char* model, int threads) const {
    SessionOptions* options = nullptr;
    Session* session = nullptr;
    call<SessionOptions**>(kCreateSessionOptions, &options);
    call<SessionOptions*, int>(kSetSessionGraphOptimizationLevel, options, kAllOptimizations);
    call<SessionOptions*, int>(kSetIntraOpNumThreads, options, threads);
    call<SessionOptions*, int>(kSetInterOpNumThreads, options, 1);
    call<const Env*, const char*, const SessionOptions*, Session**>(kCreateSession, env, model,
                                                                    options, &session);
    return session;
  }
  MemoryInfo* cpu() const {
    MemoryInfo* info = nullptr;
    call<int, int, MemoryInfo**>(kCreateCpuMemoryInfo, kArenaAllocator, kDefaultMemory, &info);
    return info;
  }
  OrtValue* tensor(const MemoryInfo* info, void* data, std::size_t bytes,
                   const std::vector<std::int64_t>& shape, int type) const {
    OrtValue* value = nullptr;
    call<const MemoryInfo*, void*, std::size_t, const std::int64_t*, std::size_t, int, OrtValue**>(
        kCreateTensorWithDataAsOrtValue, info, data, bytes, shape.data(), shape.size(), type,
        &value);
    return value;
  }
  Binding* binding(Session* session, const OrtValue* x, const OrtValue* y) const {
    Binding* binding = nullptr;
    call<Session*, Binding**>(kCreateIoBinding, session, &binding);
    call<Binding*, const char*, const OrtValue*>(kBindInput, binding, "x", x);
    call<Binding*, const char*, const OrtValue*>(kBindOutput, binding, "y", y);
    return binding;
  }
  void run(Session* session, const OrtValue* x, OrtValue* y) const {
    const char* const names[] = {"x", "y"};
    call<Session*, const RunOptions*, const char* const*, const OrtValue* const*, std::size_t,
         const char* const*, std::size_t, OrtValue**>(kRun, session, nullptr, names, &x, 1,
                                                      names + 1, 1, &y);
  }
  void run(Session* session, const Binding* binding) const {
    call<Session*, const RunOptions*, const Binding*>(kRunWithBinding, session, nullptr, binding);
  }

 private:
  const void* const* table_;
};

struct Freed {
  void operator()(void* memory) const { std::free(memory); }
};
using Memory = std::unique_ptr<void, Freed>;

Memory memory(std::size_t bytes) {
  constexpr std::size_t kLine = 64;  // bytes, a line of the cache
  return Memory(std::aligned_alloc(kLine, (bytes + kLine - 1) / kLine * kLine));
}

std::vector<std::int64_t> shape_of(const std::string& text) {
  std::vector<std::int64_t> shape;
  std::istringstream in(text);
  for (std::string size; std::getline(in, size, 'x');) shape.push_back(std::stoll(size));
  return shape;
}

std::size_t bytes_of(const std::vector<std::int64_t>& shape, std::size_t each) {
  for (const std::int64_t size : shape) each *= static_cast<std::size_t>(size);
  return each;
}

struct Question {
  Memory data;
  OrtValue* x;
  Binding* binding;
};

// Whatever ONNX Runtime makes here lives until the process ends.
class Peer {
 public:
  explicit Peer(char** argv) : api_(argv[1]) {
    session_ = api_.session(api_.env(), argv[2], std::stoi(argv[3]));
    const bool whole = std::string(argv[5]) == "int64";
    const std::vector<std::int64_t> asked = shape_of(argv[6]), answered = shape_of(argv[7]);
    const std::size_t bytes = bytes_of(asked, whole ? sizeof(std::int64_t) : sizeof(float));
    answer_bytes_ = bytes_of(answered, sizeof(float));
    answer_ = memory(answer_bytes_);
    const MemoryInfo* cpu = api_.cpu();
    y_ = api_.tensor(cpu, answer_.get(), answer_bytes_, answered, kFloat);
    std::ifstream in(argv[4], std::ios::binary);
    while (in.peek() != EOF) {
      Question question{memory(bytes), nullptr, nullptr};
      in.read(static_cast<char*>(question.data.get()), static_cast<std::streamsize>(bytes));
      if (!in) throw std::runtime_error(std::string(argv[4]) + " ends within a question");
      question.x = api_.tensor(cpu, question.data.get(), bytes, asked, whole ? kInt64 : kFloat);
      question.binding = api_.binding(session_, question.x, y_);
      questions_.push_back(std::move(question));
    }
    if (questions_.empty()) throw std::runtime_error(std::string(argv[4]) + " has no question");
  }

  std::string answer(std::istream& words) {
    std::string what, way, into;
    std::size_t first = 0, count = 0;
    words >> what >> way;
    const bool bound = way == "bound";
    if (what == "time" && words >> first >> count) {
      const auto start = std::chrono::steady_clock::now();
      for (std::size_t i = first; i < first + count; ++i) read_ = *answer_of(i, bound);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      return std::to_string(taken.count() / static_cast<double>(count));
    }
    if (what == "write" && words >> count && std::getline(words >> std::ws, into)) {
      std::ofstream out(into, std::ios::binary);
      for (std::size_t i = 0; i < count; ++i) {
        out.write(reinterpret_cast<const char*>(answer_of(i, bound)),
                  static_cast<std::streamsize>(answer_bytes_));
      }
      if (!out.flush()) throw std::runtime_error(into + " cannot be written");
      return "done";
    }
    throw std::runtime_error("it knows no \"" + what + "\"");
  }

 private:
  const float* answer_of(std::size_t index, bool bound) const {
    const Question& question = questions_[index % questions_.size()];
    if (bound) {
      api_.run(session_, question.binding);
    } else {
      api_.run(session_, question.x, y_);
    }
    return static_cast<const float*>(answer_.get());
  }

  Api api_;
  Session* session_ = nullptr;
  std::size_t answer_bytes_ = 0;
  Memory answer_;  // to all questions in turn
  OrtValue* y_ = nullptr;
  std::vector<Question> questions_;
  volatile float read_ = 0;  // one number of each answer, so that it is read
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 8) {
    std::fputs("onnx_peer: takes seven arguments, as onnx_evaluators.py gives them\n", stderr);
    return 2;
  }
  try {
    Peer peer(argv);
    std::cout << "ready" << std::endl;
    for (std::string line; std::getline(std::cin, line);) {
      std::istringstream words(line);
      std::cout << peer.answer(words) << std::endl;
    }
  } catch (const std::exception& error) {
    std::cout << "error " << error.what() << std::endl;
    return 1;
  }
}
