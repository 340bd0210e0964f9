// The tasks in each conditional node, as text: "0 if a {1 2} 3".
#include "executor/cuda/program/regions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <string>
#include <vector>

#include "executor/cuda/capture/captured.h"
#include "graph/builder/graph.h"
#include "graph/emit/scope.h"
#include "ops/expr/functions.h"
#include "tests/doctest.h"

namespace metronome::regions_test {
namespace {

/// Tasks made by hand: one byte each, written by it, at an address of its own.
struct Step {
  Graph g{"step"};
  std::vector<executor::program::Task> tasks;
  std::map<ValueId, const bool*> places;
  std::map<const bool*, std::string> names;

  Value decider(const char* name) { return g.input(name, bool_, {}); }

  /// A guard, and the task that computes it after those in `after`.
  Value guard(std::string name, Value decider, int when = 1, Value parent = {},
              std::vector<int> after = {}, int cases = 2) {
    const Value made = make_guard(decider, when, cases, parent, Line::here());
    add({}, std::move(after));
    tasks.back().computes = made.id();
    if (parent.present()) read(tasks.back(), places.at(parent.id()));
    places[made.id()] = static_cast<const bool*>(tasks.back().touched.writes[0].begin);
    names[places[made.id()]] = std::move(name);
    return made;
  }

  /// A task under a guard, or always, after those in `after`.
  int add(Value guard = {}, std::vector<int> after = {}) {
    executor::program::Task task{{.kernel = "task", .op = "task"}, {}, {}};
    task.touched.writes.push_back({address(tasks.size()), 1});
    for (const int before : after) task.touched.reads.push_back({address(before), 1});
    if (guard.present()) {
      task.guard = guard.id();
      task.guard_at = places.at(guard.id());
      read(task, task.guard_at);
    }
    tasks.push_back(std::move(task));
    return static_cast<int>(tasks.size()) - 1;
  }
  void read(executor::program::Task& task, const bool* guard) {
    task.touched.reads.push_back({guard, 1});
  }

  std::string regions(executor::program::Nesting nesting) {
    tasks.push_back({{.kernel = "store_reads", .op = "store_reads"}, {}, {}});  // comes after all
    const executor::program::RegionParts parts = executor::program::make_regions(
        tasks, executor::capture::order_of(tasks), control::Regions(g.data().nodes()), nesting);
    tasks.pop_back();
    return text(parts);
  }

 private:
  static const void* address(std::size_t task) {
    static const std::vector<std::byte> memory(64);
    return memory.data() + task;
  }
  std::string text(const executor::program::RegionParts& parts) const {
    const int count = static_cast<int>(tasks.size());
    std::vector<std::string> words;
    for (const executor::program::RegionPart& part : parts) {
      if (part.task >= 0) {
        if (part.task < count) words.push_back(fmt::format("{}", part.task));
        continue;
      }
      for (const executor::program::Body& body : part.bodies) {
        const bool first = &body == &part.bodies.front();
        const std::string name = body.guard.present() ? " " + names.at(body.guard_at) : "";
        words.push_back(fmt::format("{}{} {{{}{}{}}}", first ? "if" : "else", name,
                                    body.clears_first.empty() ? "" : "!", text(body.parts),
                                    body.clears_last.empty() ? "" : "!"));
      }
    }
    return fmt::format("{}", fmt::join(words, " "));
  }
};

/// Three iterations forward and back: the second and third under guards a and b.
Step loop_of_three() {
  Step s;
  const int first = s.add();                                      // 0
  const Value a = s.guard("a", s.decider("go"), 1, {}, {first});  // 1
  const int second = s.add(a, {first});                           // 2
  const Value b = s.guard("b", s.decider("on"), 1, a, {second});  // 3
  const int third = s.add(b, {second});                           // 4
  const int loss = s.add({}, {first, second, third});             // 5
  const int third_back = s.add(b, {loss});                        // 6
  const int second_back = s.add(a, {loss, third_back});           // 7
  s.add({}, {loss, second_back});                                 // 8
  return s;
}

TEST_CASE("a loop's iterations side by side, or each within the one before") {
  CHECK(loop_of_three().regions(executor::program::Nesting::flat) ==
        "0 1 if a {2} 3 if b {4} 5 if b {6} if a {7} 8");
  // b is computed within a, and read after it: else it is false.
  CHECK(loop_of_three().regions(executor::program::Nesting::nested) ==
        "0 1 if a {2 3 if b {4}} else {!} 5 if a {if b {6} 7} 8");
}

TEST_CASE("a branch clears what earlier ones compute before it runs") {
  Step s;
  const Value go = s.decider("go");
  const Value a = s.guard("a", go), b = s.guard("b", go, 0);  // 0 1
  const int first = s.add(a);                                 // 2
  s.guard("c", s.decider("on"), 1, a, {first});               // 3
  const int other = s.add(b, {first, 3});                     // 4: waits for c
  s.guard("d", s.decider("or"), 1, b, {other});               // 5
  s.add({}, {3, 5});                                          // 6
  CHECK(s.regions(executor::program::Nesting::nested) ==
        "0 1 if a {2 3!} else b {!4 5} else {!} 6");
}

TEST_CASE("a guard that nothing reads after its region is cleared nowhere") {
  Step s;
  const Value a = s.guard("a", s.decider("go"));                  // 0
  const int inside = s.add(a);                                    // 1
  const Value b = s.guard("b", s.decider("on"), 1, a, {inside});  // 2
  s.add(b, {inside});                                             // 3
  CHECK(s.regions(executor::program::Nesting::nested) == "0 if a {1 2 if b {3}}");
}

TEST_CASE("what runs only with what another guard implies takes no node of that one") {
  Step s;
  const Value a = s.guard("a", s.decider("go"));        // 0
  const Value b = s.guard("b", s.decider("on"), 1, a);  // 1
  s.add(b);                                             // 2
  CHECK(s.regions(executor::program::Nesting::nested) == "0 1 if b {2}");
}

TEST_CASE("branches of one choice are cases of one node") {
  Step s;
  const Value which = s.g.input("which", i32, {});
  std::vector<Value> guards;
  for (int i = 0; i < 3; ++i)
    guards.push_back(s.guard(fmt::format("is{}", i), which, i, {}, {}, 3));
  for (const Value& guard : guards) s.add(guard);  // 3 4 5
  const int again = s.add(guards[0], {3});         // 6
  s.add({}, {again});
  for (const executor::program::Nesting nesting :
       {executor::program::Nesting::flat, executor::program::Nesting::nested}) {
    CHECK(s.regions(nesting) == "0 1 2 if is0 {3 6} else is1 {4} else is2 {5} 7");
  }
}

TEST_CASE("a region and its opposite are an if with an else") {
  Step s;
  const Value go = s.decider("go");
  const Value a = s.guard("a", go), b = s.guard("b", go, 0);  // 0 1
  s.add(a);                                                   // 2
  s.add(b);                                                   // 3
  CHECK(s.regions(executor::program::Nesting::flat) == "0 1 if a {2} else b {3}");
}

TEST_CASE("guards that are always equal open no region in each other") {
  Step s;
  const Value go = s.decider("go");
  const Value a = s.guard("a", go), b = s.guard("b", go);  // 0 1
  const int first = s.add(a), second = s.add(b, {first});  // 2 3
  s.add(a, {second});                                      // 4
  for (const executor::program::Nesting nesting :
       {executor::program::Nesting::flat, executor::program::Nesting::nested}) {
    CHECK(s.regions(nesting) == "0 1 if a {2 3 4}");
  }
}

TEST_CASE("tasks wait for a region to come, so that it comes once") {
  Step s;
  const Value a = s.guard("a", s.decider("go"));  // 0
  s.add(a);                                       // 1
  const int always = s.add();                     // 2
  s.add(a, {always});                             // 3
  CHECK(s.regions(executor::program::Nesting::flat) == "0 2 if a {1 3}");
}

}  // namespace
}  // namespace metronome::regions_test
