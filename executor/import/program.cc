// A program at work: its tensors become storages, then each node is translated in order.
//
//   check     operands have the file's types; else one mistake
//   storages  "layer1.0.conv1.weight" at layer1/0/conv1/weight, with the file's numbers
//   nodes     Translation: a node's values by the table of call.h; each is held to the file's type
//   writes    aten.add_ and its like: a buffer is assigned, another value is renamed
//   outputs   buffers that are outputs are assigned; the others are returned
//
// A write changes what a name stands for, and what the names of the same memory do (views.h).
#include "executor/import/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <new>
#include <set>
#include <stdexcept>
#include <utility>

#include "executor/import/aten/call.h"
#include "executor/import/control.h"
#include "executor/import/file/exported.h"
#include "executor/import/file/json.h"
#include "executor/import/views.h"
#include "graph/emit/emitter.h"
#include "graph/ir/error.h"
#include "graph/ir/structural.h"
#include "ops/language/init.h"

namespace metronome {
namespace pt2 {
namespace {

/// Nodes that make nothing: checks that export leaves behind.
bool is_check(const ExportedNode& node) {
  return node.target.starts_with("aten._assert") || node.target.starts_with("aten.sym_") ||
         node.target.starts_with("_operator.") || node.target == "aten._check.default";
}

std::string described(const ExportedNode& node) {
  return node.where.empty() ? node.target : fmt::format("{} ({})", node.target, node.where);
}

/// All ops that the table lacks, each with the lines that call it. Throws RunError if there are
/// any.
void require_translations(const ExportedProgram& program) {
  std::map<std::string, std::set<std::string>> missing;
  for (const ExportedNode& node : program.nodes) {
    const bool known = !node.regions.empty() || find_translation(computed(node.target)) != nullptr;
    if (is_check(node) || known) continue;
    missing[node.target].insert(node.where);
  }
  if (missing.empty()) return;
  std::string text = fmt::format("{}: cannot be imported: it calls {} without a counterpart here",
                                 program.file, missing.size() == 1 ? "an op" : "ops");
  for (const auto& [target, lines] : missing) {
    std::string all;
    for (const std::string& line : lines) {
      if (!line.empty()) all += (all.empty() ? "" : ", ") + line;
    }
    text += fmt::format("\n  {}{}{}", target, all.empty() ? "" : "  ", all);
  }
  throw RunError(text);
}

/// Each symbol is an axis of an operand. Throws RunError for one that is not: its size is not
/// known.
void require_bound_sizes(const ExportedProgram& program) {
  for (const auto& [symbol, example] : program.symbols) {
    if (std::ranges::find(program.open_sizes, symbol, &OpenSize::symbol) !=
        program.open_sizes.end())
      continue;
    throw RunError(fmt::format(
        "{}: cannot be imported: its size {} is no axis of an input: export it with such a number",
        program.file, symbol));
  }
}

/// Throws RunError for a loop that only numbers end, where the options do not bound it.
void require_bounds(const ExportedProgram& program, const ProgramOptions& options) {
  if (options.max_iterations < 0) {
    throw RunError(fmt::format("{}: cannot be imported: `max_iterations` is {}", program.file,
                               options.max_iterations));
  }
  for (const ExportedNode& node : program.nodes) {
    if (!needs_bound(node) || options.max_iterations > 0) continue;
    throw RunError(fmt::format(
        "{}: cannot be imported: {} runs as often as numbers say: give the most iterations as the "
        "option `max_iterations`",
        program.file, described(node)));
  }
}

std::string path_of(std::string name) {
  std::ranges::replace(name, '.', '/');
  return name;
}

}  // namespace

/// The sizes that operands give to the program's symbols; else why they give none. Operands that
/// do not fit otherwise give the example's sizes: the call tells what is wrong with them.
struct GivenSizes {
  SymbolValues sizes;
  std::string refusal = {};
};
GivenSizes given_sizes(const ExportedProgram& program, const Values& inputs) {
  GivenSizes given;
  std::map<std::string, std::string> first;  // [symbol]: the operand that gives it
  for (const OpenSize& open : program.open_sizes) {
    if (open.input >= inputs.size()) return {program.symbols};
    const Shape& shape = inputs[open.input].shape();
    if (open.axis >= shape.size()) return {program.symbols};
    const std::int64_t size = shape[open.axis];
    const std::string& input = program.inputs[open.input];
    if (!given.sizes.emplace(open.symbol, size).second) {
      const std::int64_t other = given.sizes.at(open.symbol);
      if (size == other) continue;
      return {{},
              fmt::format("\"{}\" of the size {} along axis {}, which \"{}\" has, but {}", input,
                          other, open.axis, first.at(open.symbol), size)};
    }
    first[open.symbol] = input;
    const auto found = program.ranges.find(open.symbol);
    const SizeRange range = found != program.ranges.end() ? found->second : SizeRange();
    if (size >= range.least && size <= range.most) continue;
    const std::string allowed = range.most == SizeRange().most
                                    ? fmt::format("{} or more", range.least)
                                    : fmt::format("{} to {}", range.least, range.most);
    return {{},
            fmt::format("\"{}\" of the size {} along axis {}, with which the file was exported, "
                        "but {}",
                        input, allowed, open.axis, size)};
  }
  return given;
}

/// One call of a program.
class ProgramCall {
 public:
  ProgramCall(const ExportedProgram& program, const Views& views, std::int64_t max_iterations,
              Emitter* emitter, Line line)
      : program_(program),
        views_(views),
        max_iterations_(max_iterations),
        at_{.emitter = emitter, .line = line} {}

  /// Empty after a mistake, which is recorded.
  Values operator()(const Values& inputs) {
    if (!check(inputs)) return {};
    const std::size_t before = at_.emitter->mistakes.size();
    for (const ExportedTensor& tensor : program_.tensors) make(tensor);
    if (at_.emitter->mistakes.size() > before) return {};
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      at_.values[program_.inputs[i]] = inputs[i];
      if (is_floating(inputs[i].type().element)) with_gradient_.insert(program_.inputs[i]);
    }
    return run_nodes(0, program_.nodes.size()) ? outputs() : Values();
  }

 private:
  bool refuse(const std::string& what, const Values& operands, const Requirement& requirement) {
    mistake(at_.emitter, at_.line, what, operands, requirement);
    return false;
  }

  bool check(const Values& inputs) {
    const std::string what = fmt::format("program \"{}\" cannot join the graph", program_.file);
    if (inputs.size() != program_.inputs.size()) {
      return refuse(what, inputs,
                    {fmt::format("{} operand{}, but {}", program_.inputs.size(),
                                 program_.inputs.size() == 1 ? "" : "s", inputs.size())});
    }
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].type() == program_.types.at(program_.inputs[i])) continue;
      return refuse(what, inputs,
                    {fmt::format("\"{}\" as {}, with which the file was exported, but {}",
                                 program_.inputs[i], type_of_input(i), to_string(inputs[i].type())),
                     "export it with such an operand"});
    }
    return true;
  }

  /// "f32[s77, 8]".
  std::string type_of_input(std::size_t i) const {
    const Type& type = program_.types.at(program_.inputs[i]);
    std::vector<std::string> sizes;
    for (const std::int64_t size : type.shape) sizes.push_back(std::to_string(size));
    for (const OpenSize& open : program_.open_sizes) {
      if (open.input == i) sizes[open.axis] = open.symbol;
    }
    return fmt::format("{}[{}]", name_of(type.element), fmt::join(sizes, ", "));
  }

  /// One that no state_dict has and that nothing writes: saved, it would be a name too many.
  bool is_constant_buffer(const ExportedTensor& tensor) const {
    return tensor.kind == ExportedTensor::Kind::buffer && !tensor.persistent &&
           !views_.may_be_written(tensor.value);
  }

  void make(const ExportedTensor& tensor) {
    Emitter* const emitter = at_.emitter;
    if (tensor.kind == ExportedTensor::Kind::constant || is_constant_buffer(tensor)) {
      std::vector<double> numbers;
      for (std::size_t i = 0; i < tensor.numbers.size(); ++i) numbers.push_back(tensor.numbers[i]);
      at_.values[tensor.value] = make_constant(emitter, numbers, tensor.type, at_.line);
      return;
    }
    if (const auto first = made_as_.find(tensor.same_as); first != made_as_.end()) {
      at_.values[tensor.value] = at_.values.at(first->second);
      const auto buffer = at_.buffers.find(first->second);
      if (buffer != at_.buffers.end()) at_.buffers[tensor.value] = ProgramBuffer(buffer->second);
      return;
    }
    made_as_[tensor.name] = tensor.value;
    if (tensor.kind == ExportedTensor::Kind::parameter && size_of(tensor.type.element) < 4) {
      refuse(fmt::format("program \"{}\" cannot join the graph", program_.file), {},
             {fmt::format("parameters of f32 or f64, which small updates change, but \"{}\" of {}",
                          tensor.name, name_of(tensor.type.element)),
              "export the module in f32: module.float()"});
      return;
    }
    const std::string path = path_of(tensor.name);
    if (tensor.kind == ExportedTensor::Kind::buffer) {
      const Buffer made = make_buffer(emitter, path, tensor.type, values(tensor.numbers), at_.line);
      at_.values[tensor.value] = made.value;
      at_.buffers[tensor.value] = {made, tensor.name};
      return;
    }
    at_.values[tensor.value] =
        make_parameter(emitter, path, tensor.type, values(tensor.numbers), at_.line);
    const auto id = emitter->graph.find_storage(join_path(emitter->scopes.back().storages, path));
    if (!tensor.trained && id) emitter->graph.set_trainable(*id, false);
    if (tensor.trained) with_gradient_.insert(tensor.value);
  }

  bool run_nodes(std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end;) {
      const ExportedNode& node = program_.nodes[i];
      if (!is_check(node) && !run(i)) return false;
      i = node.regions.empty() ? i + 1 : node.regions.back().end;
    }
    return true;
  }

  /// None after a mistake.
  Values run_region(const ExportedRegion& region, const Values& operands) {
    if (operands.size() != region.inputs.size()) {
      throw Unsupported{fmt::format("it gives a graph {} operands, and not {}", operands.size(),
                                    region.inputs.size())};
    }
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const Type& type = program_.types.at(region.inputs[i]);
      if (!operands[i].poisoned() && operands[i].type() != type) {
        throw Unsupported{fmt::format("it gives a graph {} as \"{}\", which is {}",
                                      to_string(operands[i].type()), region.inputs[i],
                                      to_string(type))};
      }
      at_.values[region.inputs[i]] = operands[i];
      if (is_floating(type.element)) with_gradient_.insert(region.inputs[i]);
    }
    const ExportedRegion* const outer = std::exchange(region_, &region);
    const bool whole = run_nodes(region.begin, region.end);
    region_ = outer;
    Values outputs;
    for (const std::string& output : region.outputs) {
      if (!whole) return {};
      const auto found = at_.values.find(output);
      if (found == at_.values.end()) {
        throw Unsupported{fmt::format("its graph gives \"{}\", which no node makes", output)};
      }
      outputs.push_back(found->second);
    }
    return outputs;
  }

  Values made_by(const Call& call) {
    const ExportedNode& node = call.node();
    if (node.regions.empty()) return (*find_translation(computed(node.target)))(call);
    const auto run = [&](std::size_t i, const Values& operands) {
      return run_region(node.regions[i], operands);
    };
    return run_control(call, run, max_iterations_);
  }

  bool run(std::size_t index) {
    const ExportedNode& node = program_.nodes[index];
    const std::string what =
        fmt::format("program \"{}\": {} cannot join the graph", program_.file, described(node));
    const std::size_t before = at_.emitter->mistakes.size();
    Values made;
    try {
      const Call call(program_, node, at_);
      made = made_by(call);
      if (writes(node.target)) write(call, index, made);
    } catch (const Unsupported& unsupported) {
      return refuse(what, {},
                    {fmt::format("an op that has a counterpart, but {}", unsupported.why)});
    } catch (const Json::exception& error) {
      return refuse(
          what, {},
          {fmt::format("arguments as torch.export writes them, but {}", reason_of(error))});
    } catch (const std::out_of_range&) {
      return refuse(what, {}, {"lists as long as torch.export writes them"});
    } catch (const std::bad_alloc&) {  // of sizes that the file claims
      return refuse(what, {}, {"sizes for which there is memory"});
    } catch (const std::length_error&) {
      return refuse(what, {}, {"sizes for which there is memory"});
    }
    if (at_.emitter->mistakes.size() > before) return name_node(node, before);
    for (std::size_t k = 0; k < node.outputs.size(); ++k) {
      if (node.outputs[k].empty()) continue;
      if (k >= made.size() || !made[k].present()) continue;  // nothing reads it
      const auto type = program_.types.find(node.outputs[k]);
      // torch 2.11 gives the states of an lstm a dimension too many in the file.
      const bool is_state = k > 0 && node.target == "aten.lstm.input";
      if (type != program_.types.end() && made[k].type() != type->second && !is_state) {
        return refuse(what, {made[k]},
                      {fmt::format("{}, which the file gives it, but {}", to_string(type->second),
                                   to_string(made[k].type()))});
      }
      at_.values[node.outputs[k]] = made[k];
      if (is_floating(made[k].type().element)) note_gradient(node, node.outputs[k]);
    }
    return true;
  }

  /// Mistakes that ops of ours told from number `first` on get the node's line; false.
  bool name_node(const ExportedNode& node, std::size_t first) {
    auto& mistakes = at_.emitter->mistakes;
    for (std::size_t i = first; i < mistakes.size(); ++i) {
      // One of a region's nodes has named its own.
      if (mistakes[i].find(fmt::format("program \"{}\"", program_.file)) != std::string::npos)
        continue;
      mistakes[i] +=
          fmt::format("\n  for        {} of program \"{}\"", described(node), program_.file);
    }
    return false;
  }

  /// Notes a value that a node makes, if a gradient flows through the node to one of its operands.
  void note_gradient(const ExportedNode& node, const std::string& value) {
    if (node.no_grad || computed(node.target) == "aten.detach") return;
    const bool flows = std::ranges::any_of(Views::read_by(node), [&](const std::string& read) {
      return with_gradient_.contains(read);
    });
    if (flows) with_gradient_.insert(value);
  }

  /// A write changes what a name stands for, and all views of the same memory.
  void write(const Call& call, std::size_t index, const Values& made) {
    std::string name = Views::self_of(call.node());
    const std::string root = views_.root(name);
    if (const std::string written = parameter_named(root); !written.empty()) {
      throw Unsupported{fmt::format("it writes to the parameter \"{}\"", written)};
    }
    if (region_ != nullptr && (!root.starts_with(region_->prefix) ||
                               std::ranges::find(region_->inputs, root) != region_->inputs.end())) {
      throw Unsupported{"it writes to an operand of the graph that it lies in"};
    }
    // Autograd does not see a write where it is off, or through a detached alias: what is written
    // gets no gradient, and what was there would keep its own.
    bool unseen = call.node().no_grad;
    for (const MemoryView* view = views_.find(name); view; view = views_.find(view->of)) {
      unseen = unseen || computed(program_.nodes[view->node].target) == "aten.detach";
    }
    if (unseen && with_gradient_.contains(root)) {
      throw Unsupported{
          "it writes where autograd is off, or through detach, to what has a gradient: write to a "
          "clone"};
    }
    Value value = unseen ? stop_gradient(made[0], at_.line) : made[0];
    if (!unseen) note_gradient(call.node(), root);
    while (const MemoryView* view = views_.find(name)) {
      const Call made_by(program_, program_.nodes[view->node], at_);
      value = write_back(made_by, *view, made_by.named(view->of), value);
      name = view->of;
    }
    if (const auto buffer = at_.buffers.find(root); buffer != at_.buffers.end()) {
      const Buffer written = buffer->second.buffer;
      assign(at_.emitter, written, value, at_.line);
      for (const auto& [other, its] : at_.buffers) {  // it may have several names
        if (its.buffer.storage == written.storage) show(other, value, index);
      }
    } else {
      show(root, value, index);
    }
  }

  /// The value of a root, and what its views show of it from now on.
  void show(const std::string& root, Value value, std::size_t index) {
    at_.values[root] = value;
    for (const std::string& name : views_.read_later(root, index)) {
      if (with_gradient_.contains(root)) with_gradient_.insert(name);
      const MemoryView& view = *views_.find(name);
      const ExportedNode& node = program_.nodes[view.node];
      require_view(node, view);
      if (view.same) {
        at_.values[name] = Call(program_, node, at_).named(view.of);
        continue;
      }
      const Values anew = (*find_translation(computed(node.target)))(Call(program_, node, at_));
      at_.values[name] = anew.at(view.output);
    }
  }

  /// The parameter or constant that is called so among values; "" for another value.
  std::string parameter_named(const std::string& value) const {
    for (const ExportedTensor& tensor : program_.tensors) {
      if (tensor.value == value && tensor.kind == ExportedTensor::Kind::parameter) {
        return tensor.name;
      }
    }
    return "";
  }

  Values outputs() {
    Values all;
    for (const ExportedOutput& output : program_.outputs) {
      const auto found = at_.values.find(output.value);
      if (found == at_.values.end()) {
        refuse(fmt::format("program \"{}\" cannot join the graph", program_.file), {},
               {fmt::format("an output that a node makes, but \"{}\"", output.value)});
        return {};
      }
      const Value made = found->second;
      if (output.buffer.empty()) {
        all.push_back(made);
        continue;
      }
      for (const auto& [value, buffer] : at_.buffers) {
        if (buffer.path == output.buffer) assign(at_.emitter, buffer.buffer, made, at_.line);
      }
    }
    return all;
  }

  const ExportedProgram& program_;
  const Views& views_;
  std::int64_t max_iterations_;
  ProgramValues at_;
  const ExportedRegion* region_ = nullptr;      ///< whose nodes run
  std::set<std::string> with_gradient_;         ///< values that a gradient may flow through
  std::map<std::string, std::string> made_as_;  ///< [tensor]: its value, for others of its memory
};

}  // namespace pt2

struct Program::Impl {
  pt2::ExportedProgram program;
  pt2::Views views;
  std::int64_t max_iterations;

  Impl(pt2::ExportedProgram read, const ProgramOptions& options)
      : program(std::move(read)), views(program), max_iterations(options.max_iterations) {}
  std::size_t outputs() const {
    return static_cast<std::size_t>(std::ranges::count_if(
        program.outputs, [](const auto& output) { return output.buffer.empty(); }));
  }
};

Program::Program(const std::string& file, ProgramOptions options)
    : impl_(std::make_shared<const Impl>(pt2::read_program(file, options.model), options)) {
  pt2::require_translations(impl_->program);
  pt2::require_bounds(impl_->program, options);
  pt2::require_bound_sizes(impl_->program);
}

Values Program::operator()(const Values& inputs, Line line) const {
  const auto usable = [&](const Value& input) { return input.usable(line); };
  Emitter* const emitter = inputs.empty() ? nullptr : inputs[0].emitter(line);
  if (emitter == nullptr) {
    throw GraphError({fmt::format("{}: program \"{}\" needs a value of a graph to begin with",
                                  to_string(line), impl_->program.file)});
  }
  Values made;
  if (std::ranges::all_of(inputs, usable)) {
    const LineScope line_scope(emitter, line);
    const pt2::ExportedProgram& program = impl_->program;
    const pt2::GivenSizes given = pt2::given_sizes(program, inputs);
    if (!given.refusal.empty()) {
      mistake(emitter, line, fmt::format("program \"{}\" cannot join the graph", program.file),
              inputs, {given.refusal});
    } else if (given.sizes == program.symbols) {
      made = pt2::ProgramCall(program, impl_->views, impl_->max_iterations, emitter, line)(inputs);
    } else {
      const pt2::ExportedProgram sized = pt2::with_sizes(program, given.sizes);
      made =
          pt2::ProgramCall(sized, pt2::Views(sized), impl_->max_iterations, emitter, line)(inputs);
    }
  }
  if (made.empty())
    made.assign(std::max<std::size_t>(impl_->outputs(), 1), Value(emitter, ValueId{}));
  return made;
}

Value Program::operator()(Value input, Line line) const { return (*this)(Values{input}, line)[0]; }

Program program(const std::string& file, ProgramOptions options) {
  return Program(file, std::move(options));
}

}  // namespace metronome
