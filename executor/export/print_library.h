// An exported library's own files as text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "executor/export/check_numbers.h"
#include "executor/export/library_tables.h"

namespace metronome::exported {

/// NAME.h: the functions, for C99 and C++.
std::string print_header(const LibraryTables& tables);
/// NAME.cc: the tables, and functions that call `Instance`.
std::string print_source(const LibraryTables& tables);
/// ops/rules/kept.h and ops/expr/kept_functions.h, in the places of those that keep all.
std::string print_kept(const LibraryTables& tables);
std::string print_kept_functions(const LibraryTables& tables);
/// CMakeLists.txt, for the sources of kernels by their names in the folder.
std::string print_cmake(const LibraryTables& tables, const std::vector<std::string>& sources);
/// check.c, which compares the library's numbers with these.
std::string print_check(const LibraryTables& tables, const CheckNumbers& numbers);
/// README.md.
std::string print_readme(const LibraryTables& tables);

/// The text with each `mark` replaced.
std::string replace_all(std::string text, std::string_view mark, const std::string& by);
/// The text with NAME and UPPER replaced by the library's name.
std::string fill_in(std::string text, const std::string& name);

}  // namespace metronome::exported
