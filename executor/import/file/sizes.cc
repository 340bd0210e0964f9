#include "executor/import/file/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <regex>
#include <utility>
#include <vector>

#include "executor/import/file/archive.h"

namespace metronome::pt2 {
namespace {

/// Thrown where an expression has a symbol without a value.
struct NoValue {};

/// Reads an expression as Python's repr of SymPy writes it: Name(argument, ..., option=value).
class SizeExpression {
 public:
  SizeExpression(std::string_view text, const SymbolValues& symbols)
      : text_(text), symbols_(symbols) {}

  double value() {
    const double found = term();
    skip_spaces();
    if (at_ != text_.size()) unreadable();
    return found;
  }

 private:
  static constexpr int kDeepest = 64;

  [[noreturn]] void unreadable() const {
    refuse(fmt::format("a size is {}, which is not understood",
                       readable_size(std::string(text_)).substr(0, 80)));
  }
  void skip_spaces() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char letter) {
    skip_spaces();
    if (at_ >= text_.size() || text_[at_] != letter) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    skip_spaces();
    const std::size_t begin = at_;
    const auto belongs = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '_' || c == '-' || c == '.';
    };
    while (at_ < text_.size() && belongs(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  double term() {
    if (++depth_ > kDeepest) unreadable();
    const std::string_view name = word();
    double found = 0;
    if (!take('(')) {
      found = number(name);
    } else if (name == "Symbol") {
      found = symbol();
    } else {
      found = call(name);
    }
    --depth_;
    return found;
  }

  double number(std::string_view digits) const {
    double found = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), found);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size())
      unreadable();
    return found;
  }

  /// Behind "Symbol(": 's77', option=True, ...)
  double symbol() {
    if (!take('\'')) unreadable();
    const std::string name(word());
    if (!take('\'')) unreadable();
    while (take(',')) {
      word();
      if (!take('=')) unreadable();
      word();
    }
    if (!take(')')) unreadable();
    const auto found = symbols_.find(name);
    if (found == symbols_.end()) throw NoValue{};
    return static_cast<double>(found->second);
  }

  double call(std::string_view name) {
    std::vector<double> of;
    if (!take(')')) {
      do {
        of.push_back(term());
      } while (take(','));
      if (!take(')')) unreadable();
    }
    const auto joined = [&](auto join) {
      if (of.empty()) unreadable();
      double all = of[0];
      for (std::size_t i = 1; i < of.size(); ++i) all = join(all, of[i]);
      return all;
    };
    if (name == "Integer" || name == "Float") return of.size() == 1 ? of[0] : joined_two(name, of);
    if (name == "Add") return joined([](double a, double b) { return a + b; });
    if (name == "Mul") return joined([](double a, double b) { return a * b; });
    if (name == "Max") return joined([](double a, double b) { return std::max(a, b); });
    if (name == "Min") return joined([](double a, double b) { return std::min(a, b); });
    return joined_two(name, of);
  }

  double joined_two(std::string_view name, const std::vector<double>& of) const {
    if (of.size() != 2) unreadable();
    const double a = of[0], b = of[1];
    if (name == "Pow") return std::pow(a, b);
    const bool divides = name == "FloorDiv" || name == "CleanDiv" || name == "CeilDiv" ||
                         name == "Mod" || name == "PythonMod" || name == "Rational" ||
                         name == "IntTrueDiv";
    if (!divides || b == 0) unreadable();
    if (name == "FloorDiv" || name == "CleanDiv") return std::floor(a / b);
    if (name == "CeilDiv") return std::ceil(a / b);
    if (name == "Rational" || name == "IntTrueDiv") return a / b;
    return a - std::floor(a / b) * b;
  }

  std::string_view text_;
  const SymbolValues& symbols_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// The expression of a part as {"as_expr": {"expr_str": ...}}; null for another part.
const Json* expression_in(const Json& part) {
  if (!part.is_object() || part.size() != 1 || !part.contains("as_expr")) return nullptr;
  const Json& expression = part["as_expr"];
  const bool known = expression.is_object() && expression.contains("expr_str") &&
                     expression["expr_str"].is_string();
  return known ? &expression : nullptr;
}

/// Each part of a JSON value, and each part of those.
template <class F>
void visit(Json& part, const F& see) {
  see(part);
  if (!part.is_structured()) return;
  for (Json& each : part) visit(each, see);
}

}  // namespace

std::int64_t evaluate_size(std::string_view expression, const SymbolValues& symbols) {
  constexpr double kMost = 1e15;  // where a double holds whole numbers alone
  const double value = SizeExpression(expression, symbols).value();
  if (!(std::abs(value) <= kMost) || value != std::floor(value)) {
    refuse(fmt::format("a size is {}, from {}", value,
                       readable_size(std::string(expression)).substr(0, 80)));
  }
  return static_cast<std::int64_t>(value);
}

std::string readable_size(std::string expression) {
  static const std::regex symbol(R"(Symbol\('([^']*)'[^()]*\))"), integer(R"(Integer\((-?\d+)\))");
  expression = std::regex_replace(expression.substr(0, 400), symbol, "$1");
  return std::regex_replace(expression, integer, "$1");
}

SymbolValues example_sizes(const Json& graph) {
  constexpr std::string_view kSymbol = "Symbol('";
  SymbolValues symbols;
  Json parts = graph;
  visit(parts, [&](Json& part) {
    const Json* const expression = expression_in(part);
    if (expression == nullptr) return;
    const std::string text = (*expression)["expr_str"];
    const std::size_t end = text.find('\'', kSymbol.size());
    const Json hint = expression->value("hint", Json());
    if (!text.starts_with(kSymbol) || end == text.npos || !hint.is_object()) return;
    if (hint.contains("as_int") && hint["as_int"].is_number_integer()) {
      symbols[text.substr(kSymbol.size(), end - kSymbol.size())] = hint["as_int"];
    }
  });
  return symbols;
}

Json with_numbers(Json graph, const SymbolValues& symbols) {
  if (symbols.empty()) return graph;
  const auto number = [&](const Json& part) -> std::optional<std::int64_t> {
    const Json* const expression = expression_in(part);
    if (expression == nullptr) return {};
    try {
      return evaluate_size((*expression)["expr_str"].get<std::string>(), symbols);
    } catch (const NoValue&) {
      return {};
    }
  };
  visit(graph, [&](Json& part) {
    if (!part.is_object()) return;
    // A graph, and its names for sizes.
    if (part.contains("sym_int_values") && part["sym_int_values"].is_object()) {
      std::map<std::string, std::int64_t> named;
      for (const auto& [name, size] : part["sym_int_values"].items()) {
        if (const auto value = number(size)) named[name] = *value;
      }
      visit(part, [&](Json& use) {
        if (!use.is_object() || use.size() != 1 || !use.contains("as_name")) return;
        if (!use["as_name"].is_string()) return;
        const auto found = named.find(use["as_name"].get<std::string>());
        if (found != named.end()) use = Json{{"as_int", found->second}};
      });
    }
    if (const auto value = number(part)) part = Json{{"as_int", *value}};
  });
  return graph;
}

}  // namespace metronome::pt2
