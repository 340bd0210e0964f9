// The main of every test program. Kernel choices that were timed before, by other programs or by a
// user, decide nothing here: each program has a tuning file of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

int main(int argc, char** argv) {
  std::string folder = (std::filesystem::temp_directory_path() / "metronome-test-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    std::fprintf(stderr, "no temporary folder: %s\n", folder.c_str());
    return 1;
  }
  setenv("METRONOME_TUNING", (folder + "/tuning.json").c_str(), 1);
  const int result = doctest::Context(argc, argv).run();
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
  return result;
}
