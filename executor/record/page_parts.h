// The page that shows a plan record, as text: the files in executor/record/page, inside the
// program.
#pragma once

#include <string_view>

namespace metronome::executor {

struct PageParts {
  std::string_view html;    ///< with the marks @STYLE@, @RECORD@, @BEFORE@ and @SCRIPT@
  std::string_view style;   ///< CSS
  std::string_view script;  ///< JavaScript
};
PageParts page_parts();

}  // namespace metronome::executor
