// A zip archive that torch.export.save or torch.package wrote, read by libzip.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct zip;

namespace metronome::pt2 {

/// Why a file is not taken; who opened the file adds its name.
struct ImportRefusal {
  std::string reason;
};
[[noreturn]] inline void refuse(std::string reason) { throw ImportRefusal{std::move(reason)}; }

/// An archive whose members lie in one folder, which is left out of their names:
/// "models/model.json" of net/models/model.json. Members are checked by their CRC as they are read.
class Archive {
 public:
  /// Throws ImportRefusal.
  explicit Archive(const std::string& file);

  bool has(std::string_view member) const;
  /// The names of members in a folder, as "models/", without it.
  std::vector<std::string> in(std::string_view folder) const;
  /// All bytes of a member. Throws ImportRefusal if there is none, or if it is damaged.
  std::vector<std::byte> read(std::string_view member) const;
  std::string text(std::string_view member) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };

  std::unique_ptr<zip, Close> archive_;
  std::string root_;                  ///< "net/"
  std::vector<std::string> members_;  ///< [index]
  std::uint64_t file_bytes_ = 0;
};

}  // namespace metronome::pt2
