// The main of every test program. Kernel choices that were timed before, by other programs or by a
// user, decide nothing here: each program has a tuning file of its own. `./metronome test
// graph/plan` runs a few files of a program of many: METRONOME_TEST_FILES names them, as doctest's
// filter --source-file does. A program that has none of them runs whole.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

bool has_one_of(const std::string& files) {
  for (const doctest::detail::TestCase& test : doctest::detail::getRegisteredTests()) {
    const std::string file = test.m_file.c_str();
    const std::size_t begin = file.rfind("tests/");
    if (begin != std::string::npos && files.find(file.substr(begin)) != std::string::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "metronome-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "no temporary folder: %s\n", folder.c_str());
    return 1;
  }
  setenv("METRONOME_TUNING", (folder + "/tuning.json").c_str(), 1);
  doctest::Context context(argc, argv);
  const char* files = std::getenv("METRONOME_TEST_FILES");
  if (files != nullptr && has_one_of(files)) context.addFilter("source-file", files);
  const int result = context.run();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
