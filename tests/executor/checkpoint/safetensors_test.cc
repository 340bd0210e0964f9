#include "executor/checkpoint/safetensors.h"

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstring>
#include <vector>

#include "executor/checkpoint/checkpoint.h"
#include "executor/support/hash64.h"
#include "graph/ir/error.h"
#include "tests/error_of.h"
#include "tests/executor/temporary_folder.h"

namespace safetensors_test {
using namespace metronome;

namespace {

template <class T>
std::span<const std::byte> bytes_of(const T& numbers) {
  return std::as_bytes(std::span(numbers));
}

template <class T>
std::vector<T> numbers_in(const executor::checkpoint::SafetensorsFile& file,
                          std::string_view name) {
  const auto& entry = file.tensors().find(name)->second;
  std::vector<T> numbers(entry.bytes() / sizeof(T));
  file.read(entry, std::as_writable_bytes(std::span(numbers)));
  return numbers;
}

// A file of a header as it stands and some data.
std::string with_header(std::string_view json, std::string_view data = "") {
  std::string file(8, '\0');
  const std::uint64_t length = json.size();
  std::memcpy(file.data(), &length, 8);
  return file.append(json).append(data);
}

std::string announcing(std::uint64_t length, std::string_view rest) {
  std::string file(8, '\0');
  std::memcpy(file.data(), &length, 8);
  return file.append(rest);
}

// "w" of eight bytes, with other fields than it should have.
std::string with_w(std::string_view fields) {
  return with_header(fmt::format(R"({{"w":{{{}}}}})", fields), "12345678");
}

const std::vector<float> kWeight = {1, -2, 3.5f, 0, 1e30f, -0.0f};
const std::vector<double> kWide = {1.0 / 3, -7};
const std::vector<std::int32_t> kSmall = {1, -2, 3};
const std::vector<std::int64_t> kStep = {1234567890123};
const std::array<bool, 3> kMask = {true, false, true};

std::vector<executor::checkpoint::TensorBytes> one_of_each() {
  return {
      {"mask", {bool_, {3}}, bytes_of(kMask)},        {"weight", {f32, {2, 3}}, bytes_of(kWeight)},
      {"wide", {f64, {2, 1}}, bytes_of(kWide)},       {"small", {i32, {3}}, bytes_of(kSmall)},
      {"step", {i64, {}}, bytes_of(kStep)},           {"nothing", {f32, {0, 4}}, {}},
      {"größe/\"x\"\n", {i32, {3}}, bytes_of(kSmall)}};
}

}  // namespace

TEST_CASE("what is written is read again, types, names, bytes and metadata") {
  const TemporaryFolder folder;
  const executor::checkpoint::Metadata metadata = {
      {"format", "test"}, {"note", "zwölf \"twelve\"\n"}, {"empty", ""}};
  executor::checkpoint::write_safetensors(folder.file("a"), one_of_each(), metadata);
  const executor::checkpoint::SafetensorsFile file(folder.file("a"));
  CHECK(file.metadata() == metadata);
  CHECK(file.tensors().size() == 7);
  for (const executor::checkpoint::TensorBytes& tensor : one_of_each()) {
    CAPTURE(tensor.name);
    CHECK(file.tensors().at(tensor.name).type == tensor.type);
  }
  CHECK(numbers_in<float>(file, "weight") == kWeight);
  CHECK(numbers_in<double>(file, "wide") == kWide);
  CHECK(numbers_in<std::int32_t>(file, "small") == kSmall);
  CHECK(numbers_in<std::int64_t>(file, "step") == kStep);
  CHECK(numbers_in<char>(file, "mask") == std::vector<char>{1, 0, 1});
  CHECK(numbers_in<float>(file, "nothing").empty());
}

TEST_CASE("a file without tensors and without metadata") {
  const TemporaryFolder folder;
  executor::checkpoint::write_safetensors(folder.file("a"), {}, {});
  const executor::checkpoint::SafetensorsFile file(folder.file("a"));
  CHECK(file.tensors().empty());
  CHECK(file.metadata().empty());
}

TEST_CASE("the data begins at a multiple of 64 bytes and each tensor at one of its element") {
  const TemporaryFolder folder;
  for (std::size_t name = 1; name < 70; ++name) {
    auto tensors = one_of_each();
    tensors.push_back({std::string(name, 'n'), {bool_, {1}}, bytes_of(kMask).first(1)});
    executor::checkpoint::write_safetensors(folder.file("a"), tensors, {});
    const executor::checkpoint::SafetensorsFile file(folder.file("a"));
    std::uint64_t data = 0;
    for (const auto& [_, entry] : file.tensors()) {
      CHECK(entry.begin % size_of(entry.type.element) == 0);
      data += entry.bytes();
    }
    CHECK((std::filesystem::file_size(folder.file("a")) - data) % 64 == 0);
  }
}

TEST_CASE("the same tensors in another order make the same file") {
  const TemporaryFolder folder;
  auto tensors = one_of_each();
  executor::checkpoint::write_safetensors(folder.file("a"), tensors, {{"k", "v"}});
  std::swap(tensors.front(), tensors.back());
  executor::checkpoint::write_safetensors(folder.file("b"), tensors, {{"k", "v"}});
  CHECK(read_file(folder.file("a")) == read_file(folder.file("b")));
}

TEST_CASE("a tensor larger than one piece is streamed whole") {
  const TemporaryFolder folder;
  std::vector<std::int32_t> numbers(1000001);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int32_t>(i * 7);
  executor::checkpoint::write_safetensors(folder.file("a"),
                                          {{{"n", {i32, {1000001}}, bytes_of(numbers)}}}, {});
  const executor::checkpoint::SafetensorsFile file(folder.file("a"));
  executor::Hash64 streamed, whole;
  std::size_t pieces = 0;
  file.stream(file.tensors().at("n"), [&](std::span<const std::byte> piece) {
    streamed.add(piece);
    ++pieces;
  });
  whole.add(bytes_of(numbers));
  CHECK(pieces == 4);
  CHECK(streamed.value() == whole.value());
}

TEST_CASE("the hash is XXH64, however its bytes are cut") {
  const auto hash = [](std::string_view text, std::size_t piece) {
    executor::Hash64 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      hash.add(std::as_bytes(std::span(text.substr(at, piece))));
    }
    return hash.value();
  };
  // From the reference implementation, seed 0.
  const std::string_view long_text = "Nobody inspects the spammish repetition";
  CHECK(hash("", 1) == 0xEF46DB3751D8E999u);
  CHECK(hash("abc", 1) == 0x44BC2CF5AD770999u);
  for (const std::size_t piece : {1, 3, 8, 31, 32, 33, 100}) {
    CHECK(hash(long_text, piece) == 0xFBCEA83C8A378BF1u);
  }
}

TEST_CASE("a damaged or foreign file is refused, and nothing is changed") {
  struct Bad {
    std::string bytes;
    std::string reason;
  };
  const std::string w = R"("w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string v = R"("v":{"dtype":"F32","shape":[1],"data_offsets":)";
  const std::string deep =
      with_header(R"({"w":{"dtype":"F32","shape":[[2]],"data_offsets":[0,8]}})");
  const std::vector<Bad> table = {
      // The length.
      {"", "it is empty"},
      {"12345", "it has 5 bytes, and a safetensors file at least 10"},
      {announcing(0, ""), "its header does not begin with {, as a JSON object does"},
      {announcing(57, "{}"), "its first 8 bytes announce a header of 57 bytes, but 2 follow"},
      {announcing(~0ull, "{}"),
       "its first 8 bytes announce a header of 18446744073709551615 bytes, but the format allows "
       "100000000"},
      // Other formats.
      {"\x89PNG\r\n\x1a\n....IHDR", "it is a PNG image, not a safetensors file"},
      {std::string("PK\x03\x04\x00\x00\x08\x08\x00\x00", 10),
       "it is a ZIP archive, as torch.save writes, not a safetensors file"},
      {std::string("\x80\x02}q\x00X\x01\x00\x00\x00", 10),
       "it is a Python pickle, not a safetensors file"},
      {std::string("\x80\x04\x95\x1c\x00\x00\x00\x00\x00\x00", 10),
       "it is a Python pickle, not a safetensors file"},
      {"\x89HDF\r\n\x1a\n\x00", "it is an HDF5 file, not a safetensors file"},
      {"GGUF\x03......", "it is a GGUF file, not a safetensors file"},
      // The JSON.
      {with_header("[1,2]"), "its header does not begin with {, as a JSON object does"},
      {with_header("\xEF\xBB\xBF{}"), "its header does not begin with {, as a JSON object does"},
      {with_header("{\"w\":}"), "its header is not JSON in UTF-8: mistake at byte 6 of 6"},
      {with_header("{\"w\xff\":1}"), "its header is not JSON in UTF-8: mistake at byte 4 of 8"},
      {with_header(std::string_view("{}\0\0", 4)),
       "its header is not JSON in UTF-8: mistake at byte 3 of 4"},
      {with_header("{}{}"), "its header is not JSON in UTF-8: mistake at byte 3 of 4"},
      {with_header("{\"w\":{\"shape\":[1e999]}}"),
       "its header has a number that is too large for any type"},
      {deep, "its header nests deeper than 3 levels"},
      {with_header(std::string(100000, '[').insert(0, "{\"w\":")),
       "its header nests deeper than 3 levels"},
      {with_header("{" + w + "," + w + "}", "12345678"), R"(its header has the key "w" twice)"},
      {with_header(R"({"__metadata__":{"a":"1","a":"2"}})"), R"(its header has the key "a" twice)"},
      // Metadata.
      {with_header(R"({"__metadata__":["a"]})"),
       R"(its "__metadata__" must be an object of strings, but is a list)"},
      {with_header(R"({"__metadata__":{"step":3}})"),
       R"(its "__metadata__" must be an object of strings, but "step" is a number)"},
      // One tensor.
      {with_header(R"({"w":"F32"})"), R"(tensor "w" must be an object, but is a string)"},
      {with_w(R"("shape":[2],"data_offsets":[0,8])"), R"(tensor "w" has no dtype)"},
      {with_w(R"("dtype":"F32","data_offsets":[0,8])"), R"(tensor "w" has no shape)"},
      {with_w(R"("dtype":"F32","shape":[2])"), R"(tensor "w" has no data_offsets)"},
      {with_w(R"("dtype":"F8_E4M3","shape":[8],"data_offsets":[0,8])"),
       R"(tensor "w" has the dtype "F8_E4M3", but F32, F64, I32, I64, BOOL, BF16 and F16 are the ones read here)"},
      {with_w(R"("dtype":7,"shape":[4],"data_offsets":[0,8])"),
       R"(tensor "w" has the dtype 7, but F32, F64, I32, I64, BOOL, BF16 and F16 are the ones read here)"},
      {with_w(R"("dtype":"F32","shape":2,"data_offsets":[0,8])"),
       R"(tensor "w" must have a list as its shape, but has a number)"},
      {with_w(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])"),
       R"(tensor "w" has -2 in its shape, where whole numbers from 0 must be)"},
      {with_w(R"("dtype":"F32","shape":[2.0],"data_offsets":[0,8])"),
       R"(tensor "w" has 2.0 in its shape, where whole numbers from 0 must be)"},
      {with_w(R"("dtype":"F32","shape":[true],"data_offsets":[0,8])"),
       R"(tensor "w" has a boolean in its shape, where whole numbers from 0 must be)"},
      {with_w(R"("dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8])"),
       R"(tensor "w" has 18446744073709551615 in its shape, where whole numbers from 0 must be)"},
      {with_w(R"("dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,8])"),
       R"(tensor "w" is f32[4294967296, 4294967296], more bytes than 63 bits can count)"},
      {with_w(fmt::format(R"("dtype":"F32","shape":[1{}],"data_offsets":[0,8])",
                          fmt::join(std::vector<std::string>(64, ",1"), ""))),
       R"(tensor "w" has 65 dimensions, but at most 64 are read here)"},
      {with_w(R"("dtype":"F32","shape":[2],"data_offsets":[0])"),
       R"(tensor "w" must have two whole numbers from 0 as its data_offsets, but has [0])"},
      {with_w(R"("dtype":"F32","shape":[2],"data_offsets":[-8,0])"),
       R"(tensor "w" must have two whole numbers from 0 as its data_offsets, but has [-8,0])"},
      {with_w(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])"),
       R"(tensor "w" begins at byte 8 and ends before it, at byte 0)"},
      {with_w(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])"),
       R"(tensor "w" is f32[3], which takes 12 bytes, but has 8)"},
      {with_w(R"("dtype":"F32","shape":[3],"data_offsets":[0,12])"),
       R"(tensor "w" ends at byte 12 of the data, but only 8 bytes follow the header: )"
       "the file has been cut short"},
      // All tensors together.
      {with_header("{" + w + "," + v + "[4,8]}}", "12345678"),
       R"(tensors "w" and "v" overlap: one ends at byte 8, the other begins at 4)"},
      {with_header("{" + w + "," + v + "[12,16]}}", "1234567890123456"),
       "bytes 8 to 12 of the data belong to no tensor"},
      {with_header("{" + w + "}", "12345678xyz"), "bytes 8 to 11 of the data belong to no tensor"},
      {with_header("{}", "x"), "bytes 0 to 1 of the data belong to no tensor"},
      {with_header("{\"" + std::string(1000, 'a') + "\":1}"),
       "tensor \"" + std::string(100, 'a') + "\"... must be an object, but is a number"},
  };

  const TemporaryFolder folder;
  const std::string file = folder.file("bad.safetensors");
  for (const Bad& bad : table) {
    write_file(file, bad.bytes);
    std::array<float, 2> weight = {3, 4};
    const std::vector<executor::checkpoint::StorageEntry> storages = {
        {"w", {f32, {2}}, StorageKind::parameter, reinterpret_cast<std::byte*>(weight.data()), {}}};
    CHECK_THROWS_WITH_AS(executor::checkpoint::load_checkpoint(file, storages, {}),
                         (file + ": cannot be loaded: " + bad.reason).c_str(), RunError);
    CHECK(weight == std::array<float, 2>{3, 4});
  }
}

TEST_CASE("a file that is cut anywhere is refused") {
  const TemporaryFolder folder;
  executor::checkpoint::write_safetensors(folder.file("a"), one_of_each(), {});
  const std::string whole = read_file(folder.file("a"));
  for (std::size_t length = 0; length < whole.size(); ++length) {
    write_file(folder.file("cut"), whole.substr(0, length));
    CHECK_THROWS_AS(executor::checkpoint::SafetensorsFile(folder.file("cut")), RunError);
  }
}

TEST_CASE("what is no file to read says the system's reason") {
  const TemporaryFolder folder;
  const auto refused = [](const std::string& file, const std::string& reason) {
    CHECK_THROWS_WITH_AS(executor::checkpoint::SafetensorsFile{file},
                         (file + ": cannot be loaded: " + reason).c_str(), RunError);
  };
  refused(folder.file("missing"), "No such file or directory");
  refused(folder.path(), "Is a directory");
  refused("", "No such file or directory");
  REQUIRE(mkfifo(folder.file("pipe").c_str(), 0600) == 0);
  refused(folder.file("pipe"), "it is a device, a pipe or a socket");
}

TEST_CASE("a file that shrinks while it is read is an error, not a crash") {
  const TemporaryFolder folder;
  executor::checkpoint::write_safetensors(folder.file("a"),
                                          {{{"n", {f32, {2, 3}}, bytes_of(kWeight)}}}, {});
  const executor::checkpoint::SafetensorsFile file(folder.file("a"));
  const auto size = std::filesystem::file_size(folder.file("a"));
  CHECK_FALSE(file.has_changed());
  std::filesystem::resize_file(folder.file("a"), size - 4);
  CHECK(file.has_changed());
  CHECK_THROWS_WITH_AS(
      numbers_in<float>(file, "n"),
      fmt::format(
          "{}: cannot be loaded: it had {} bytes when it was opened, but ends at byte {} now",
          folder.file("a"), size, size - 4)
          .c_str(),
      RunError);
}

TEST_CASE("a file that cannot be written leaves no traces and the old file whole") {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& file, const std::string& reason) {
    CHECK_THROWS_WITH_AS(executor::checkpoint::write_safetensors(file, one_of_each(), {}),
                         (file + ": cannot be saved: " + reason).c_str(), RunError);
  };
  std::filesystem::create_directory(folder.file("folder"));
  refused(folder.file("folder"), "Is a directory");
  refused(folder.file("folder/"), "Is a directory");
  refused(folder.file("missing/a"), "No such file or directory");
  refused("", "No such file or directory");
  refused("/dev/null", "it is a device, a pipe or a socket");
  write_file(folder.file("old"), "old");
  refused(folder.file("old/a"), "Not a directory");
  refused(folder.file(std::string(300, 'n')), "File name too long");  // found at the renaming
  CHECK(folder.files() == 2);

  SUBCASE("a disk that is full in the midst of it") {
    rlimit before = {};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {400, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    const std::string message = tests::error_of<RunError>(
        [&] { executor::checkpoint::write_safetensors(folder.file("old"), one_of_each(), {}); });
    setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    CHECK(message == folder.file("old") + ": cannot be saved: File too large");
    CHECK(read_file(folder.file("old")) == "old");
    CHECK(folder.files() == 2);
  }
}

TEST_CASE("a folder that may not be written to") {
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0555});
  // The superuser may write anywhere: step down for the call. Some sandboxes allow neither.
  if (geteuid() == 0 && seteuid(65534) != 0) {
    MESSAGE("not shown: this user may write everywhere, and cannot become another");
    return;
  }
  CHECK_THROWS_WITH_AS(executor::checkpoint::write_safetensors(folder.file("a"), one_of_each(), {}),
                       (folder.file("a") + ": cannot be saved: Permission denied").c_str(),
                       RunError);
  if (getuid() == 0) REQUIRE(seteuid(0) == 0);
  std::filesystem::permissions(folder.path(), std::filesystem::perms{0755});
  CHECK(folder.files() == 0);
}

TEST_CASE("a name that is not UTF-8 cannot be saved") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(executor::checkpoint::write_safetensors(
                           folder.file("a"), {{{"\xff", {f32, {2, 3}}, bytes_of(kWeight)}}}, {}),
                       (folder.file("a") + ": cannot be saved: a name in it is not UTF-8").c_str(),
                       RunError);
  CHECK(folder.files() == 0);
}

TEST_CASE("replacing follows a symbolic link and keeps the permissions") {
  const TemporaryFolder folder;
  write_file(folder.file("a"), "old");
  std::filesystem::permissions(folder.file("a"), std::filesystem::perms{0640});
  std::filesystem::create_symlink("a", folder.file("latest"));
  executor::checkpoint::write_safetensors(folder.file("latest"), one_of_each(), {});
  CHECK(std::filesystem::is_symlink(folder.file("latest")));
  CHECK(executor::checkpoint::SafetensorsFile(folder.file("a")).tensors().size() == 7);
  CHECK(std::filesystem::status(folder.file("a")).permissions() == std::filesystem::perms{0640});
  CHECK(folder.files() == 2);
}

}  // namespace safetensors_test
