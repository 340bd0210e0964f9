// The header may come from anyone, so each of three steps checks all that the next one relies on:
//
//   parse_json     UTF-8, an object, at most 3 levels deep, no key twice, no zero byte
//   parse_tensor   a known dtype, a shape of whole numbers, and as many bytes as these need, inside
//                  of the data
//   check_cover    tensors, sorted by their first bytes, lie end to end over all of the data
//
// A step that refuses throws `Refusal`. Names come from the file, so messages quote them, escaped
// and cut to 100 bytes.
#include "executor/checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <vector>

namespace metronome::executor::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMostDimensions = 64;  // as NumPy; keeps messages short

// Names come from the file: quoted and escaped they stay on one line, cut they stay short.
std::string in_quotes(std::string_view name) {
  constexpr std::size_t kLongest = 100;  // bytes
  return name.size() <= kLongest ? fmt::format("{:?}", name)
                                 : fmt::format("{:?}...", name.substr(0, kLongest));
}

// "a number", "a list": what stands where something else should.
std::string_view kind_of(const Json& json) {
  if (json.is_object()) return "an object";
  if (json.is_array()) return "a list";
  if (json.is_string()) return "a string";
  if (json.is_boolean()) return "a boolean";
  return json.is_null() ? "null" : "a number";
}

// nlohmann's parser keeps the last of two equal keys and follows any depth; the format wants
// neither.
Json parse_json(std::string_view text) {
  if (text.empty() || text.front() != '{') {
    throw Refusal{"its header does not begin with {, as a JSON object does"};
  }
  const auto mistake = [&](std::size_t byte) {
    return Refusal{fmt::format("its header is not JSON in UTF-8: mistake at byte {} of {}", byte,
                               text.size())};
  };
  // nlohmann's parser takes a zero byte for the end of its input.
  if (const auto zero = text.find('\0'); zero != text.npos) throw mistake(zero + 1);
  constexpr int kDeepest = 3;  // header, tensor, shape
  std::vector<std::set<std::string>> keys;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const bool opens =
        event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kDeepest) {
      throw Refusal{fmt::format("its header nests deeper than {} levels", kDeepest)};
    }
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key &&
        !keys.back().insert(parsed.get<std::string>()).second) {
      throw Refusal{
          fmt::format("its header has the key {} twice", in_quotes(parsed.get<std::string>()))};
    }
    return true;
  };
  try {
    return Json::parse(text, watch);
  } catch (const Json::parse_error& error) {
    throw mistake(error.byte);
  } catch (const Json::out_of_range&) {
    throw Refusal{"its header has a number that is too large for any type"};
  }
}

Metadata parse_metadata(const Json& json) {
  if (!json.is_object()) {
    throw Refusal{
        fmt::format("its \"__metadata__\" must be an object of strings, but is {}", kind_of(json))};
  }
  Metadata metadata;
  for (const auto& [key, text] : json.items()) {
    if (!text.is_string()) {
      throw Refusal{fmt::format("its \"__metadata__\" must be an object of strings, but {} is {}",
                                in_quotes(key), kind_of(text))};
    }
    metadata.emplace(key, text.get<std::string>());
  }
  return metadata;
}

std::optional<Element> element_of(std::string_view dtype) {
  for (const Element element : {f32, f64, i32, i64, bool_, bf16, f16}) {
    if (dtype == dtype_of(element)) return element;
  }
  return std::nullopt;
}

// A whole number from 0 to the largest i64.
std::optional<std::int64_t> count_of(const Json& json) {
  constexpr auto kLargest = std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!json.is_number_unsigned() || json.get<std::uint64_t>() > kLargest) return std::nullopt;
  return json.get<std::int64_t>();
}

const Json& field(const std::string& name, const Json& tensor, const char* key) {
  const auto found = tensor.find(key);
  if (found == tensor.end())
    throw Refusal{fmt::format("tensor {} has no {}", in_quotes(name), key)};
  return *found;
}

// The bytes of the type, which fit an i64 as well.
std::uint64_t checked_bytes(const std::string& name, const Type& type) {
  auto bytes = static_cast<std::int64_t>(size_of(type.element));
  for (const std::int64_t size : type.shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) {
      throw Refusal{fmt::format("tensor {} is {}, more bytes than 63 bits can count",
                                in_quotes(name), to_string(type))};
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

SafetensorsFile::Entry parse_tensor(const std::string& name, const Json& json,
                                    std::uint64_t data_bytes) {
  if (!json.is_object()) {
    throw Refusal{
        fmt::format("tensor {} must be an object, but is {}", in_quotes(name), kind_of(json))};
  }
  SafetensorsFile::Entry entry;
  const Json& dtype = field(name, json, "dtype");
  const auto element =
      dtype.is_string() ? element_of(dtype.get<std::string>()) : std::optional<Element>();
  if (!element) {
    throw Refusal{fmt::format(
        "tensor {} has the dtype {}, but F32, F64, I32, I64, BOOL, BF16 and F16 are the ones read "
        "here",
        in_quotes(name), dtype.is_string() ? in_quotes(dtype.get<std::string>()) : dtype.dump())};
  }
  entry.type.element = *element;

  const Json& shape = field(name, json, "shape");
  if (!shape.is_array()) {
    throw Refusal{fmt::format("tensor {} must have a list as its shape, but has {}",
                              in_quotes(name), kind_of(shape))};
  }
  if (shape.size() > kMostDimensions) {
    throw Refusal{fmt::format("tensor {} has {} dimensions, but at most {} are read here",
                              in_quotes(name), shape.size(), kMostDimensions)};
  }
  for (const Json& size : shape) {
    const auto count = count_of(size);
    if (!count) {
      throw Refusal{fmt::format("tensor {} has {} in its shape, where whole numbers from 0 must be",
                                in_quotes(name), size.is_number() ? size.dump() : kind_of(size))};
    }
    entry.type.shape.push_back(*count);
  }

  const Json& offsets = field(name, json, "data_offsets");
  const auto offset = [&](std::size_t i) {
    return offsets.is_array() && offsets.size() == 2 ? count_of(offsets[i]) : std::nullopt;
  };
  if (!offset(0) || !offset(1)) {
    throw Refusal{
        fmt::format("tensor {} must have two whole numbers from 0 as its data_offsets, but has {}",
                    in_quotes(name), offsets.dump().substr(0, 100))};
  }
  entry.begin = static_cast<std::uint64_t>(*offset(0));
  entry.end = static_cast<std::uint64_t>(*offset(1));
  if (entry.begin > entry.end) {
    throw Refusal{fmt::format("tensor {} begins at byte {} and ends before it, at byte {}",
                              in_quotes(name), entry.begin, entry.end)};
  }
  const std::uint64_t needed = checked_bytes(name, entry.type);
  if (entry.bytes() != needed) {
    throw Refusal{fmt::format("tensor {} is {}, which takes {} bytes, but has {}", in_quotes(name),
                              to_string(entry.type), needed, entry.bytes())};
  }
  if (entry.end > data_bytes) {
    throw Refusal{fmt::format(
        "tensor {} ends at byte {} of the data, but only {} bytes follow the header: the file has "
        "been cut short",
        in_quotes(name), entry.end, data_bytes)};
  }
  return entry;
}

// The tensors lie end to end from the first byte of data to the last.
void check_cover(const SafetensorsFile::Entries& tensors, std::uint64_t data_bytes) {
  std::vector<const SafetensorsFile::Entries::value_type*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::ranges::stable_sort(order, {}, [](const auto* tensor) {
    return std::pair(tensor->second.begin, tensor->second.end);
  });
  std::uint64_t covered = 0;
  const std::string* last = nullptr;
  for (const auto* tensor : order) {
    if (tensor->second.begin < covered) {
      throw Refusal{
          fmt::format("tensors {} and {} overlap: one ends at byte {}, the other begins at {}",
                      in_quotes(*last), in_quotes(tensor->first), covered, tensor->second.begin)};
    }
    if (tensor->second.begin > covered) {
      throw Refusal{fmt::format("bytes {} to {} of the data belong to no tensor", covered,
                                tensor->second.begin)};
    }
    covered = tensor->second.end;
    last = &tensor->first;
  }
  if (covered != data_bytes) {
    throw Refusal{
        fmt::format("bytes {} to {} of the data belong to no tensor", covered, data_bytes)};
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes) {
  const Json parsed = parse_json(json);
  SafetensorsHeader header;
  for (const auto& [name, value] : parsed.items()) {
    if (name == "__metadata__") {
      header.metadata = parse_metadata(value);
    } else {
      header.tensors.emplace(name, parse_tensor(name, value, data_bytes));
    }
  }
  check_cover(header.tensors, data_bytes);
  return header;
}

}  // namespace metronome::executor::checkpoint
