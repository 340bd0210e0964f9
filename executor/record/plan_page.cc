#include <string>
#include <string_view>

#include "executor/pages/pages.h"
#include "executor/record/plan_record.h"

namespace metronome {
namespace {

void replace(std::string& text, std::string_view mark, std::string_view by) {
  text.replace(text.find(mark), mark.size(), by);
}

/// JSON that no HTML parser takes for the end of its element: "<" stands in strings alone, where an
/// escape means the same.
std::string inside_html(const std::string& json) {
  std::string text;
  text.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      text += "\\u003c";
    } else {
      text += c;
    }
  }
  return text;
}

/// `before` is "null" where there is no earlier record.
std::string page_of(const std::string& record, const std::string& before) {
  std::string page(executor::plan_page());
  // The second mark first: records may hold marks.
  replace(page, "@BEFORE@", inside_html(before));
  replace(page, "@RECORD@", inside_html(record));
  return page;
}

}  // namespace

std::string to_html(const PlanRecord& record) { return page_of(to_json(record), "null"); }

std::string to_html(const PlanRecord& record, const PlanRecord& before) {
  return page_of(to_json(record), to_json(before));
}

}  // namespace metronome
