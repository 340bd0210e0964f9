// Calling what users give: a layer, a factory of layers, a join.
#include <fmt/format.h>

#include "graph/emit/emitter.h"
#include "graph/emit/scope.h"
#include "graph/ir/error.h"
#include "graph/ir/value.h"

namespace metronome {
namespace {

/// "layer", or where a verb called it "layer of "split/1"".
std::string layer_name(std::string_view what, Emitter* emitter) {
  const std::string path = current_path(emitter);
  return path.empty() ? std::string(what) : fmt::format("{} of \"{}\"", what, path);
}

Value cannot_call(Emitter* emitter, std::string_view what, std::span<const Value> operands,
                  Line line) {
  const Requirement requirement{fmt::format(
      "a {} that can be called, but it is a null pointer or an empty std::function", what)};
  if (emitter == nullptr) {
    throw GraphError({fmt::format("{}: a {} cannot be called\n  requires   {}", to_string(line),
                                  what, requirement.requires_)});
  }
  return mistake(emitter, line, fmt::format("{} cannot be called", layer_name(what, emitter)),
                 operands, requirement);
}

}  // namespace

std::optional<Requirement> wrong_result(const Emitter* emitter, const Value& result,
                                        std::string_view what) {
  if (!result.present()) {
    return Requirement{fmt::format(
        "a {} that returns a value, but it returned an absent one (a default-made Value)", what)};
  }
  if (result.identity() == emitter->identity.shared()) return std::nullopt;
  return Requirement{
      fmt::format("a {} that returns a value of \"{}\", but it returned one of \"{}\"", what,
                  emitter->graph.name(), result.identity()->name)};
}

Value Layer::at(Value x, int index, Line line) const {
  Emitter* const emitter = x.emitter(line);
  if (call_ == nullptr) {
    return x.poisoned() ? x : cannot_call(emitter, "layer", std::span(&x, x.present()), line);
  }
  const Value result = call_(x, index, line);
  if (emitter == nullptr) return result;
  const auto wrong = wrong_result(emitter, result, "layer");
  if (!wrong) return result;
  if (x.poisoned()) return x;  // which the layer may not have expected
  return mistake(emitter, line,
                 fmt::format("{} gives nothing to go on with", layer_name("layer", emitter)), {{x}},
                 *wrong);
}

Layer Layers::at(int index) const {
  if (!from_factory_) return list_[static_cast<std::size_t>(index)];
  if (factory_ == nullptr) return Layer(static_cast<Value (*)(Value)>(nullptr));
  return factory_(index);
}

Value Join::operator()(const Values& branches, Line line) const {
  Emitter* const emitter = branches.empty() ? nullptr : branches[0].emitter(line);
  if (call_ == nullptr) return cannot_call(emitter, "join", branches, line);
  const Value result = call_(branches, line);
  if (emitter == nullptr) return result;
  const auto wrong = wrong_result(emitter, result, "join");
  if (!wrong) return result;
  return mistake(emitter, line,
                 fmt::format("{} gives nothing to go on with", layer_name("join", emitter)),
                 branches, *wrong);
}

}  // namespace metronome
