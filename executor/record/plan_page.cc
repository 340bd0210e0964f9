#include <string>
#include <string_view>

#include "executor/record/page_parts.h"
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

}  // namespace

std::string to_html(const PlanRecord& record) {
  const executor::PageParts parts = executor::page_parts();
  std::string page(parts.html);
  // The record last: it may hold the other marks.
  replace(page, "@STYLE@", parts.style);
  replace(page, "@SCRIPT@", parts.script);
  replace(page, "@RECORD@", inside_html(to_json(record)));
  return page;
}

}  // namespace metronome
