// check.c: makes the steps of check_numbers.cc by the library, and compares.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <utility>

#include "executor/checkpoint/safetensors.h"
#include "executor/export/print_library.h"

namespace metronome::exported {
namespace {

constexpr std::string_view kCheckHead =
    R"(/* Makes steps of NAME, and compares their numbers with those of the program that exported it:
 *
 *   NAME_checkARGUMENT      C99; ends with 0 where all are the same */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "NAME.h"

enum check_element { CHECK_F32, CHECK_F64, CHECK_I32, CHECK_I64, CHECK_BOOL, CHECK_BF16, CHECK_F16 };
static const size_t kBytes[] = {4, 8, 4, 8, 1, 2, 2};

struct check_array {
  const char* name;
  enum check_element element;
  size_t count; /* of elements */
};
struct check_plan {
  const char* name;
  int (*step)(NAME*);
  int results;
  const int* outputs;
};

)";

constexpr std::string_view kCheckBody = R"(
static unsigned check_draw(void) {
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (unsigned)(state >> 54);
}

static void check_fill(const struct check_array* of, unsigned char* to) {
  for (size_t i = 0; i < of->count; ++i, to += kBytes[of->element]) {
    const unsigned drawn = check_draw();
    const double number = (2.0 * drawn + 1) / 2048;
    const float narrow = (float)number;
    const uint16_t half_of_bf16 = 0x3F00, half_of_f16 = 0x3800;
    memset(to, 0, kBytes[of->element]);
    if (of->element == CHECK_F32) memcpy(to, &narrow, 4);
    if (of->element == CHECK_F64) memcpy(to, &number, 8);
    if (of->element == CHECK_BOOL) *to = drawn % 2;
    if (of->element == CHECK_BF16) memcpy(to, &half_of_bf16, 2);
    if (of->element == CHECK_F16) memcpy(to, &half_of_f16, 2);
  }
}

static int check_is_nan(enum check_element element, const unsigned char* bytes) {
  float narrow = 0;
  double number = 0;
  if (element == CHECK_F32) memcpy(&narrow, bytes, 4);
  if (element == CHECK_F64) memcpy(&number, bytes, 8);
  return narrow != narrow || number != number;
}

static uint64_t check_hash(const struct check_array* of, const unsigned char* bytes) {
  uint64_t hash = 14695981039346656037u;
  for (size_t i = 0; i < of->count; ++i, bytes += kBytes[of->element]) {
    const int nan = check_is_nan(of->element, bytes); /* its other bits are the processor's */
    for (size_t k = 0; k < kBytes[of->element]; ++k) {
      hash = (hash ^ (nan ? 0xFF : bytes[k])) * 1099511628211u;
    }
  }
  return hash;
}

static void check_require(NAME* of, int code) {
  if (code == UPPER_OK) return;
  fprintf(stderr, "NAME_check: code %d: %s\n", code, NAME_error(of));
  exit(1);
}

static unsigned char* check_room(const struct check_array* of) {
  unsigned char* const bytes = malloc(of->count * kBytes[of->element] + 1);
  if (bytes != NULL) return bytes;
  fprintf(stderr, "NAME_check: no memory is left\n");
  exit(1);
}

int main(int check_count, char** check_arguments) {
  NAME* of = NULL;
  const int created = NAME_create(&of, NULL, 0);
  if (created != UPPER_OK) {
    fprintf(stderr, "NAME_check: NAME_create returns code %d\n", created);
    return 1;
  }
LOAD  int compared = 0, apart = 0, next = 0;
  for (int round = 0; round < ROUNDS; ++round) {
    for (int i = 0; i < INPUTS; ++i) {
      unsigned char* const bytes = check_room(&kInputs[i]);
      check_fill(&kInputs[i], bytes);
      check_require(of, NAME_feed(of, i, bytes, kInputs[i].count * kBytes[kInputs[i].element]));
      free(bytes);
    }
    for (int p = 0; p < PLANS; ++p) {
      check_require(of, kPlans[p].step(of));
      for (int i = 0; i < kPlans[p].results; ++i, ++compared) {
        const struct check_array* const output = &kOutputs[kPlans[p].outputs[i]];
        unsigned char* const bytes = check_room(output);
        check_require(of, NAME_read(of, kPlans[p].outputs[i], bytes,
                              output->count * kBytes[output->element]));
        if (check_hash(output, bytes) != kResults[next++]) {
          printf("round %d, NAME_%s: other numbers in \"%s\"\n", round, kPlans[p].name, output->name);
          ++apart;
        }
        free(bytes);
      }
    }
  }
  for (int i = 0; i < STORAGES; ++i, ++compared) {
    unsigned char* const bytes = check_room(&kStorages[i]);
    check_require(of, NAME_get(of, i, bytes, kStorages[i].count * kBytes[kStorages[i].element]));
    if (check_hash(&kStorages[i], bytes) != kKept[i]) {
      printf("behind all steps: other numbers in \"%s\"\n", kStorages[i].name);
      ++apart;
    }
    free(bytes);
  }
  NAME_destroy(of);
  printf("NAME_check: %d arrays compared, %d apart\n", compared, apart);
  return apart != 0;
}
)";

constexpr std::string_view kLoad = R"(  if (check_count != 2) {
    fprintf(stderr, "usage: NAME_check NAME.safetensors\n");
    return 2;
  }
  check_require(of, NAME_load(of, check_arguments[1]));
)";
constexpr std::string_view kNoLoad = R"(  if (check_count != 1) {
    fprintf(stderr, "usage: %s\n", check_arguments[0]);
    return 2;
  }
)";

/// Entries of a list of C, which must not be empty.
template <class Entries>
std::string list_of(const Entries& entries) {
  return entries.empty() ? "{0}" : fmt::format("{{{}}}", fmt::join(entries, ",\n    "));
}

template <class Arrays, class NameOf>
std::string print_arrays(std::string_view name, const Arrays& arrays, const NameOf& name_of) {
  std::vector<std::string> rows;
  for (const auto& array : arrays) {
    rows.push_back(fmt::format("{{{:?}, CHECK_{}, {}}}", name_of(array),
                               executor::checkpoint::dtype_of(array.type.element),
                               array.type.numel()));
  }
  return fmt::format("static const struct check_array {}[] = {};\n", name, list_of(rows));
}

std::string print_hashes(std::string_view name, const std::vector<std::uint64_t>& hashes) {
  std::vector<std::string> numbers;
  for (const std::uint64_t hash : hashes) numbers.push_back(fmt::format("0x{:x}u", hash));
  return fmt::format("static const uint64_t {}[] = {};\n", name, list_of(numbers));
}

std::string print_plans(const LibraryTables& tables) {
  std::string lists;
  std::vector<std::string> rows;
  for (std::size_t p = 0; p < tables.plans.size(); ++p) {
    const Range results = tables.plans[p].row.results;
    std::vector<std::uint32_t> outputs;
    for (std::uint32_t i = results.begin; i < results.end; ++i) {
      outputs.push_back(tables.results[i].output);
    }
    lists += fmt::format("static const int kOutputs{}[] = {};\n", p, list_of(outputs));
    rows.push_back(fmt::format("{{\"{0}\", {1}_{0}, {2}, kOutputs{3}}}", tables.plans[p].name,
                               tables.name, outputs.size(), p));
  }
  return fmt::format("{}static const struct check_plan kPlans[] = {};\n", lists, list_of(rows));
}

}  // namespace

std::string print_check(const LibraryTables& tables, const CheckNumbers& numbers) {
  const std::pair<std::string_view, std::string> parts[] = {
      {"LOAD", std::string(tables.weights_beside ? kLoad : kNoLoad)},
      {"ROUNDS", std::to_string(kCheckRounds)},
      {"INPUTS", std::to_string(tables.inputs.size())},
      {"PLANS", std::to_string(tables.plans.size())},
      {"STORAGES", std::to_string(tables.storages.size())}};
  std::string body(kCheckBody);
  for (const auto& [mark, by] : parts) body = replace_all(std::move(body), mark, by);
  const std::string head = replace_all(std::string(kCheckHead), "ARGUMENT",
                                       tables.weights_beside ? " NAME.safetensors" : "");
  const auto named = [](const auto& array) { return array.name; };
  std::string text = fill_in(head, tables.name);
  text += print_arrays("kInputs", tables.inputs, named);
  text += print_arrays("kOutputs", tables.outputs, named);
  text += print_arrays("kStorages", tables.storages, [](const auto& each) { return each.path; });
  text += print_plans(tables);
  text += print_hashes("kResults", numbers.results) + print_hashes("kKept", numbers.storages);
  return text + fill_in(body, tables.name);
}

}  // namespace metronome::exported
