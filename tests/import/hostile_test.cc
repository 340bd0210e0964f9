// Programs whose JSON someone has changed: each is refused with one error, or imports. The archive
// around it is sound, so that only the reader of the JSON and the ops can notice.
#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "metronome/import.h"
#include "metronome/metronome.h"
#include "tests/doctest.h"
#include "tests/executor/logged.h"
#include "tests/executor/temporary_folder.h"

namespace metronome {
namespace {

using Json = nlohmann::json;

struct Member {
  std::string name, bytes;
};

/// The members of a zip archive.
std::vector<Member> members_of(const std::string& file) {
  zip* const archive = zip_open(file.c_str(), ZIP_RDONLY, nullptr);
  REQUIRE(archive != nullptr);
  std::vector<Member> all;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t about;
    REQUIRE(zip_stat_index(archive, i, 0, &about) == 0);
    Member member{about.name, std::string(about.size, '\0')};
    zip_file_t* const stream = zip_fopen_index(archive, i, 0);
    REQUIRE(zip_fread(stream, member.bytes.data(), about.size) ==
            static_cast<zip_int64_t>(about.size));
    zip_fclose(stream);
    all.push_back(std::move(member));
  }
  zip_discard(archive);
  return all;
}

/// The JSON of an archive's model.
Member& model_in(std::vector<Member>& members) {
  const auto found = std::ranges::find_if(
      members, [](const Member& member) { return member.name.ends_with("/models/model.json"); });
  REQUIRE(found != members.end());
  return *found;
}

void write_zip(const std::string& file, const std::vector<Member>& members) {
  zip* const archive = zip_open(file.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
  REQUIRE(archive != nullptr);
  for (const Member& member : members) {
    zip_source_t* const source =
        zip_source_buffer(archive, member.bytes.data(), member.bytes.size(), 0);
    const zip_int64_t at = zip_file_add(archive, member.name.c_str(), source, ZIP_FL_OVERWRITE);
    REQUIRE(at >= 0);
    REQUIRE(zip_set_file_compression(archive, at, ZIP_CM_STORE, 0) == 0);
  }
  REQUIRE(zip_close(archive) == 0);
}

/// Changes one part of a program's JSON at a time.
class Changes {
 public:
  explicit Changes(std::uint64_t seed) : random_(seed) {}

  /// Walks to a part at random and changes it. Returns what was done.
  std::string change(Json& root) {
    // Most of a reader's work is in nodes and types.
    const char* const parts[] = {"signature", "graph", "graph", "graph"};
    const std::string part = parts[one_of(std::size(parts))];
    Json* at = &root[part];
    std::string path = part;
    while (at->is_structured() && !at->empty() && !(path.size() > 40 && one_of(8) == 0)) {
      auto child = at->begin();
      std::advance(child, one_of(at->size()));
      if (at->is_object() && child.key() == "metadata") continue;
      path += at->is_object() ? "/" + child.key() : fmt::format("/{}", child - at->begin());
      at = &*child;
    }
    const Json before = *at;
    *at = changed(before, root);
    return fmt::format("{}: {} -> {}", path, before.dump().substr(0, 80), at->dump().substr(0, 80));
  }
  std::size_t one_of(std::size_t n) { return random_() % n; }

 private:
  Json changed(const Json& part, const Json& root) {
    if (part.is_number_integer() && one_of(8) != 0) {
      const std::int64_t number = part.get<std::int64_t>();
      const std::int64_t others[] = {number + 1, number - 1, -number, 0,
                                     -1,         1,          7,       std::int64_t{1} << 31,
                                     1L << 62,   INT64_MIN,  100000,  -100000};
      return others[one_of(std::size(others))];
    }
    if (part.is_boolean()) return !part.get<bool>();
    if (part.is_string() && one_of(2) == 0) {
      // Another name of the program.
      const Json& types = root["graph"]["tensor_values"];
      if (types.empty()) return "";
      auto other = types.begin();
      std::advance(other, one_of(types.size()));
      return other.key();
    }
    if (part.is_array() && !part.empty()) {
      Json list = part;
      if (one_of(2) == 0) {
        list.erase(list.begin() + static_cast<std::ptrdiff_t>(one_of(list.size())));
      } else {
        list.push_back(list[one_of(list.size())]);
      }
      return list;
    }
    const Json others[] = {nullptr,
                           "",
                           "Infinity",
                           1e308,
                           3,
                           Json::array(),
                           Json::object(),
                           Json::array({1, 2, 3}),
                           Json{{"as_int", 3}},
                           Json{{"as_none", true}}};
    return others[one_of(std::size(others))];
  }

  std::mt19937_64 random_;
};

/// The types of a program's inputs, as its JSON has them; empty if it has none that are sensible.
std::vector<Type> inputs_of(const Json& json) {
  std::vector<Type> all;
  try {
    for (const Json& spec : json.at("graph_module").at("signature").at("input_specs")) {
      if (!spec.contains("user_input")) continue;
      const Json& argument = spec.at("user_input").at("arg");
      if (!argument.contains("as_tensor")) continue;
      const std::string name = argument.at("as_tensor").at("name");
      const Json& type = json.at("graph_module").at("graph").at("tensor_values").at(name);
      Shape shape;
      for (const Json& size : type.at("sizes")) shape.push_back(size.at("as_int"));
      const int element = type.at("dtype");
      all.push_back({element == 5 ? i64 : element == 12 ? bool_ : f32, shape});
    }
  } catch (const Json::exception&) {
    return {};
  }
  return all;
}

/// Imports a file and lets its nodes join a graph. Anything but a refusal in our words escapes.
void try_import(const std::string& file, const Json& json) {
  try {
    const Program imported = program(file, {.max_iterations = 6});
    Graph g("net");
    Values inputs;
    for (const Type& type : inputs_of(json)) {
      inputs.push_back(g.input(fmt::format("input_{}", inputs.size()), type.element, type.shape));
    }
    if (inputs.empty()) return;
    for (const Value& output : imported(inputs)) static_cast<void>(output);
    g.validate();
  } catch (const RunError& error) {
    CHECK(std::string_view(error.what()).starts_with(file + ": cannot be imported: "));
  } catch (const GraphError&) {
  }
}

/// All of the tests' programs of one model.
std::vector<std::string> all_programs() {
  std::vector<std::string> files;
  for (const char* folder : {"tests/import/programs", "tests/import/samples"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::string file = entry.path().string();
      const bool several = file.ends_with("/several.pt2") || file.ends_with("/refused.pt2");
      if (file.ends_with(".pt2") && !several) files.push_back(file);
    }
  }
  std::ranges::sort(files);
  return files;
}

}  // namespace

TEST_CASE("a schema that is newer in its minor number is read, with a warning") {
  std::vector<Member> members = members_of("tests/import/programs/mlp.pt2");
  Json json = Json::parse(model_in(members).bytes);
  const TemporaryFolder folder;
  const std::string file = folder.file("net.pt2");
  for (const auto& [minor, warned] : {std::pair(17, false), std::pair(18, true)}) {
    json["schema_version"]["minor"] = minor;
    model_in(members).bytes = json.dump();
    write_zip(file, members);
    const tests::Logged log;
    program(file);
    CHECK(log.text() == (warned ? fmt::format("warning: {}: its schema is 8.18, and this reads "
                                              "8.17: what is new in it is not seen\n",
                                              file)
                                : ""));
  }
}

TEST_CASE("a program whose JSON is changed anywhere is refused, or imports") {
  // METRONOME_DRAWS=2000 and METRONOME_SEED=7: more and others, by hand.
  const char* const asked = std::getenv("METRONOME_DRAWS");
  const char* const seed = std::getenv("METRONOME_SEED");
  const int tries = asked != nullptr ? std::atoi(asked) : 30;
  const TemporaryFolder folder;
  const std::string file = folder.file("net.pt2");
  for (const std::string& name : all_programs()) {
    std::vector<Member> members = members_of(name);
    Member& model = model_in(members);
    const Json whole = Json::parse(model.bytes);
    Changes changes(std::hash<std::string>()(name) + (seed != nullptr ? std::stoull(seed) : 0));
    for (int i = 0; i < tries; ++i) {
      Json json = whole;
      const std::string what = changes.change(json["graph_module"]);
      CAPTURE(name);
      CAPTURE(what);
      INFO(fmt::format("{} {}", name, what));
      model.bytes = json.dump();
      write_zip(file, members);
      try_import(file, json);
    }
  }
}

}  // namespace metronome
