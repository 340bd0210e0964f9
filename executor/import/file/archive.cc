#include "executor/import/file/archive.h"

#include <fmt/format.h>
#include <zip.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace metronome::pt2 {
namespace {

/// So many times a file's bytes may its members claim together: weights are stored as they are, and
/// JSON that is packed stays below it.
constexpr std::uint64_t kMostExpanded = 4;

zip* open(const std::string& file) {
  int code = 0;
  zip* opened = zip_open(file.c_str(), ZIP_RDONLY | ZIP_CHECKCONS, &code);
  if (opened != nullptr) return opened;
  zip_error_t error;
  zip_error_init_with_code(&error, code);
  const std::string reason = zip_error_strerror(&error);
  zip_error_fini(&error);
  refuse(code == ZIP_ER_NOENT ? "there is no such file"
                              : fmt::format("it is no whole zip archive ({})", reason));
}

/// The folder that all names share: "net/".
std::string root_of(const std::vector<std::string>& names) {
  if (names.empty()) refuse("it is an empty archive");
  const std::string root = names[0].substr(0, names[0].find('/') + 1);
  for (const std::string& name : names) {
    if (root.empty() || !name.starts_with(root)) {
      refuse(
          fmt::format("its members do not lie in one folder: \"{}\" and \"{}\"", names[0], name));
    }
  }
  return root;
}

}  // namespace

void Archive::Close::operator()(zip* archive) const { zip_discard(archive); }

Archive::Archive(const std::string& file) {
  std::error_code error;
  if (std::filesystem::is_directory(file, error)) refuse("it is a directory");
  archive_.reset(open(file));
  file_bytes_ = std::filesystem::file_size(file, error);
  const zip_int64_t count = zip_get_num_entries(archive_.get(), 0);
  std::uint64_t claimed = 0;
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    if (zip_stat_index(archive_.get(), static_cast<zip_uint64_t>(i), 0, &stat) != 0) {
      refuse(fmt::format("its member {} cannot be read", i));
    }
    members_.emplace_back(stat.name);
    claimed += stat.size;
    if (claimed > kMostExpanded * file_bytes_) {
      refuse(fmt::format("its members claim more than {} times its {} bytes", kMostExpanded,
                         file_bytes_));
    }
  }
  root_ = root_of(members_);
  for (std::string& member : members_) member.erase(0, root_.size());
}

bool Archive::has(std::string_view member) const {
  return std::ranges::find(members_, member) != members_.end();
}

std::vector<std::string> Archive::in(std::string_view folder) const {
  std::vector<std::string> names;
  for (const std::string& member : members_) {
    if (member.starts_with(folder)) names.push_back(member.substr(folder.size()));
  }
  return names;
}

std::vector<std::byte> Archive::read(std::string_view member) const {
  const auto found = std::ranges::find(members_, member);
  if (found == members_.end()) refuse(fmt::format("it has no \"{}{}\"", root_, member));
  const auto index = static_cast<zip_uint64_t>(found - members_.begin());
  zip_stat_t stat;
  zip_stat_index(archive_.get(), index, 0, &stat);
  std::vector<std::byte> bytes(stat.size);
  zip_file_t* opened = zip_fopen_index(archive_.get(), index, 0);
  const zip_int64_t taken =
      opened != nullptr ? zip_fread(opened, bytes.data(), bytes.size()) : zip_int64_t{-1};
  // The end is read as well: there the CRC is checked.
  std::byte more{};
  const bool whole =
      taken == static_cast<zip_int64_t>(bytes.size()) && zip_fread(opened, &more, 1) == 0;
  const int closed = opened != nullptr ? zip_fclose(opened) : 0;
  if (!whole || closed != 0) refuse(fmt::format("\"{}{}\" is damaged", root_, member));
  return bytes;
}

std::string Archive::text(std::string_view member) const {
  const std::vector<std::byte> bytes = read(member);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace metronome::pt2
