// parse_graph and graph_json of graph_forms.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>

#include "base/elements.h"
#include "base/fields.h"
#include "base/nearest.h"
#include "base/tell.h"
#include "base/unicode.h"
#include "forms/graph_forms.h"

namespace partita::forms {
namespace {

constexpr Range kUnits{.low = 1, .high = hw::kMaxUnits};
constexpr Range kOverlap{.low = 0, .high = hw::kMaxUnits};
// Of any GPU, in threads and bytes; the one that runs it may allow less.
constexpr int kMaxBlock = 1024;
constexpr int kMaxShared = 1 << 20;

// A word of the file, safe to print.
std::string shown_word(std::string_view word) {
  return utf8(printable(word.substr(0, kMaxWordBytes)));
}

class GraphReader {
 public:
  GraphReader(const Document& document, const std::vector<std::string>& policies)
      : document_(document), policies_(policies), fields_(document) {}

  Result<GraphProblem> read() {
    fields_.only({"api_version", "kind", "name", "policy", "overlap_limit", "buffers", "tasks"});
    fields_.exactly("kind", "TaskGraph");
    if (fields_.has("api_version")) fields_.exactly("api_version", "partita/v1");
    if (fields_.has("name")) problem_.name = fields_.name("name");
    if (fields_.has("policy")) problem_.policy = policy(fields_);
    if (fields_.has("overlap_limit"))
      problem_.overlap_limit = fields_.integer("overlap_limit", kOverlap);
    if (fields_.has("buffers"))
      for (const Node& item : fields_.list("buffers", kMaxGraphBuffers)) read_buffer(item);
    const std::vector<Node>& items = fields_.list("tasks", kMaxGraphTasks);
    if (items.empty()) fields_.refuse("tasks", "'tasks' is empty");
    for (const Node& item : items) {
      if (fields_.error()) break;
      read_task(item);
    }
    for (std::size_t task = 0; task < problem_.tasks.size() && !fields_.error(); ++task)
      read_after(items[task], problem_.tasks[task]);
    if (fields_.error()) return failed(*fields_.error());
    if (const auto cycle = find_cycle(); !cycle.empty()) return cycle_error(cycle);
    return std::move(problem_);
  }

 private:
  std::string policy(Fields& fields) {
    const std::string word = fields.text("policy");
    if (std::ranges::find(policies_, word) == policies_.end())
      fields.refuse("policy", fmt::format("no policy '{}'{}", shown_word(word),
                                          did_you_mean(word, policies_)));
    return word;
  }

  void read_task(const Node& item) {
    Fields fields(fields_, item);
    GraphTask task;
    task.line = item.line;
    task.name = fields.name("name");
    const std::string kind = fields.text("kind");
    if (kind == "cpu") {
      task.kind = GraphTaskKind::cpu;
      fields.only({"name", "kind", "after", "work_us"});
      task.work_us = fields.number("work_us", {.high = kMaxGraphWorkUs});
    } else if (kind == "copy") {
      task.kind = GraphTaskKind::copy;
      fields.only({"name", "kind", "after", "bytes"});
      task.bytes = fields.number("bytes", {.high = kMaxGraphBytes, .above = true});
    } else if (kind == "lane") {
      read_kernel(fields, task);
    } else {
      fields.refuse(
          "kind", fmt::format("'kind' of a task is cpu, lane or copy, not '{}'", shown_word(kind)));
    }
    const auto [at, fresh] = number_of_.emplace(task.name, static_cast<int>(problem_.tasks.size()));
    if (!fresh && !fields_.error())
      fields.refuse("name", fmt::format("task '{}' is already defined in line {}", task.name,
                                        problem_.tasks[static_cast<std::size_t>(at->second)].line));
    problem_.tasks.push_back(std::move(task));
  }

  // A number may be spelled as text, so that it is as exact as it is written.
  static std::string spelled(Fields& fields, std::string_view key) {
    const Node* node = fields.node().find(key);
    if (node->kind == Node::Kind::number && node->text.empty())
      return fmt::format("{}", node->number);
    return fields.text(key);
  }

  void read_buffer(const Node& item) {
    Fields fields(fields_, item);
    GraphBuffer buffer;
    buffer.line = item.line;
    fields.only({"name", "type", "count", "fill", "save"});
    buffer.name = fields.name("name");
    buffer.type = fields.text("type");
    const auto type = element_type(buffer.type);
    if (!type) return fields.refuse("type", type.error().message);
    const Range range{.low = 1, .high = kMaxGraphBufferBytes / static_cast<double>(type->bytes)};
    buffer.count = static_cast<std::uint64_t>(fields.whole("count", range));
    if (fields.has("fill")) buffer.fill = spelled(fields, "fill");
    if (!buffer.fill.starts_with('@') && !fields.error()) {
      if (const auto filled = fill_elements({}, *type, buffer.fill); !filled)
        fields.refuse("fill", "'fill' is zero, ramp, a number or @FILE: " + filled.error().message);
    }
    if (fields.has("save")) buffer.save = fields.text("save");
    if (!buffers_.insert(buffer.name).second)
      fields.refuse("name", fmt::format("there are two buffers '{}'", buffer.name));
    problem_.buffers.push_back(std::move(buffer));
  }

  // A number, or a list of up to three.
  static std::array<std::uint32_t, 3> extent(Fields& fields, const std::string& key, int most) {
    std::array<std::uint32_t, 3> sizes{1, 1, 1};
    if (!fields.has(key)) return sizes;
    const Range range{.low = 1, .high = static_cast<double>(most)};
    if (fields.node().find(key)->kind != Node::Kind::list) {
      sizes[0] = static_cast<std::uint32_t>(fields.whole(key, range));
      return sizes;
    }
    const std::vector<Node>& items = fields.list(key, sizes.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      const double value = items[i].kind == Node::Kind::number ? items[i].number : 0;
      if (value < 1 || value > most || value != std::floor(value))
        fields.refuse(items[i], fmt::format("'{}' is whole numbers from 1 to {}", key, most));
      sizes[i] = static_cast<std::uint32_t>(std::clamp(value, 1.0, range.high));
    }
    if (items.empty()) fields.refuse(key, fmt::format("'{}' has one to three numbers", key));
    std::uint64_t all = 1;
    for (const std::uint32_t size : sizes) all *= size;
    if (all > static_cast<std::uint64_t>(most))
      fields.refuse(key, fmt::format("'{}' is {} in all, at most {} are allowed", key, all, most));
    return sizes;
  }

  void read_argument(Fields& fields, const Node& item, GraphCode& code) {
    const std::string& text = item.text;
    code.arguments.push_back(text);
    if (buffers_.contains(text)) return;
    const std::size_t colon = text.find(':');
    if (item.kind != Node::Kind::string || colon == text.npos)
      return fields.refuse(item, fmt::format("argument '{}' is neither a buffer of this file nor "
                                             "TYPE:VALUE",
                                             shown_word(text)));
    const auto type = element_type(std::string_view(text).substr(0, colon));
    const auto bits =
        type ? element_bits(*type, std::string_view(text).substr(colon + 1)) : failed(type.error());
    if (!bits)
      fields.refuse(item, fmt::format("argument '{}': {}", shown_word(text), bits.error().message));
  }

  // What a kernel really runs.
  void read_code(Fields& fields, GraphTask& task) {
    GraphCode& code = task.code.emplace();
    const bool gpu = fields.has("ptx") || fields.has("hip");
    if (gpu && fields.has("library"))
      fields.refuse("library", "a task has either 'ptx' or 'hip', or 'library'");
    std::vector<std::string_view> keys{"name",  "kind",   "after",         "work_us", "units",
                                       "share", "policy", "overlap_limit", "kernel",  "arguments"};
    for (const std::string_view key :
         gpu ? std::vector<std::string_view>{"ptx", "hip", "grid", "block", "shared"}
             : std::vector<std::string_view>{"library", "groups"})
      keys.push_back(key);
    fields.only(keys);
    for (const auto& [key, file] :
         {std::pair("ptx", &code.ptx), {"hip", &code.hip}, {"library", &code.library}})
      if (fields.has(key)) *file = fields.text(key);
    code.kernel = fields.text("kernel");
    code.grid = extent(fields, "grid", kMaxGraphGroups);
    code.block = extent(fields, "block", kMaxBlock);
    if (fields.has("shared"))
      code.shared = static_cast<std::uint32_t>(fields.integer("shared", {.high = kMaxShared}));
    if (gpu) task.groups = static_cast<int>(code.grid[0] * code.grid[1] * code.grid[2]);
    if (!fields.has("arguments")) return;
    for (const Node& item : fields.list("arguments", kMaxGraphArguments))
      read_argument(fields, item, code);
  }

  void read_kernel(Fields& fields, GraphTask& task) {
    const bool real = fields.has("ptx") || fields.has("hip") || fields.has("library");
    if (real) {
      read_code(fields, task);
    } else {
      fields.only({"name", "kind", "after", "work_us", "groups", "units", "share", "policy",
                   "overlap_limit"});
    }
    if (!real || fields.has("work_us"))
      task.work_us = fields.number("work_us", {.high = kMaxGraphWorkUs, .above = true});
    if (fields.has("groups"))
      task.groups = fields.integer("groups", {.low = 1, .high = kMaxGraphGroups});
    if (fields.has("units")) task.units = fields.integer("units", kUnits);
    if (fields.has("share")) task.share = fields.number("share", {.high = 1, .above = true});
    if (fields.has("units") && fields.has("share"))
      fields.refuse("share", "a task has either 'units' or 'share'");
    if (fields.has("policy")) task.policy = policy(fields);
    if (fields.has("overlap_limit")) task.overlap_limit = fields.integer("overlap_limit", kOverlap);
  }

  void read_after(const Node& item, GraphTask& task) {
    Fields fields(fields_, item);
    if (!fields.has("after")) return;
    for (const Node& one : fields.list("after", kMaxGraphTasks)) {
      const std::string name = fields.name_of(one, "a name in 'after'");
      if (fields.error()) return;
      const auto found = number_of_.find(name);
      if (found == number_of_.end()) {
        fields.refuse(
            one, fmt::format("'after' of task '{}' names '{}', which is not a task of this file",
                             task.name, name));
        return;
      }
      task.after.push_back(found->second);
    }
    edges_ += task.after.size();
    std::vector<int> sorted = task.after;
    std::ranges::sort(sorted);
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
      fields.refuse("after", fmt::format("'after' of task '{}' names '{}' twice", task.name,
                                         problem_.tasks[static_cast<std::size_t>(*twice)].name));
    if (edges_ > kMaxGraphEdges)
      fields.refuse("after", fmt::format("more than {} dependencies", kMaxGraphEdges));
  }

  // Tasks each of which waits for the next and the last for the first, or none. Those that are left
  // when all have gone that wait for nobody wait for one that is left as well: any walk ends in a
  // circle.
  std::vector<int> find_cycle() const {
    const std::vector<GraphTask>& tasks = problem_.tasks;
    std::vector<int> missing(tasks.size()), gone;
    std::vector<std::vector<int>> later(tasks.size());
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      missing[task] = static_cast<int>(tasks[task].after.size());
      for (const int before : tasks[task].after)
        later[static_cast<std::size_t>(before)].push_back(static_cast<int>(task));
      if (missing[task] == 0) gone.push_back(static_cast<int>(task));
    }
    for (std::size_t i = 0; i < gone.size(); ++i) {
      const auto task = static_cast<std::size_t>(gone[i]);
      for (const int next : later[task])
        if (--missing[static_cast<std::size_t>(next)] == 0) gone.push_back(next);
    }
    if (gone.size() == tasks.size()) return {};
    const auto left = [&](int task) { return missing[static_cast<std::size_t>(task)] > 0; };
    int task = 0;
    while (!left(task)) ++task;
    std::vector<int> walk;
    std::vector<char> seen(tasks.size());
    for (; !seen[static_cast<std::size_t>(task)];
         task = *std::ranges::find_if(tasks[static_cast<std::size_t>(task)].after, left)) {
      seen[static_cast<std::size_t>(task)] = 1;
      walk.push_back(task);
    }
    walk.erase(walk.begin(), std::ranges::find(walk, task));
    std::ranges::rotate(walk, std::ranges::min_element(walk));
    return walk;
  }

  tl::unexpected<Error> cycle_error(const std::vector<int>& cycle) const {
    constexpr std::size_t kShown = 10;
    std::string text;
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      if (i >= kShown && i + 1 < cycle.size()) continue;
      if (i == kShown && cycle.size() > kShown + 1) text += "... ";
      text += problem_.tasks[static_cast<std::size_t>(cycle[i])].name + " after ";
    }
    if (cycle.size() > kShown + 1) text += fmt::format("({} in all) ", cycle.size());
    const GraphTask& first = problem_.tasks[static_cast<std::size_t>(cycle.front())];
    return bad_input(fmt::format("{}:{}", document_.file, first.line),
                     fmt::format("tasks wait for each other in a circle: {}{}", text, first.name));
  }

  const Document& document_;
  const std::vector<std::string>& policies_;
  Fields fields_;
  GraphProblem problem_;
  std::map<std::string, int> number_of_;
  std::set<std::string> buffers_;
  std::size_t edges_ = 0;
};

void tell_code(Form& f, const GraphCode& code) {
  const bool gpu = code.library.empty();
  const auto sizes = [](const std::array<std::uint32_t, 3>& all) {
    return std::vector<int>(all.begin(), all.end());
  };
  f.optional(!code.ptx.empty()).told("ptx", code.ptx);
  f.optional(!code.hip.empty()).told("hip", code.hip);
  f.optional(!gpu).told("library", code.library);
  f.told("kernel", code.kernel);
  f.optional(gpu).told("grid", sizes(code.grid));
  f.optional(gpu).told("block", sizes(code.block));
  f.optional(gpu).told("shared", static_cast<int>(code.shared));
  f.told("arguments", code.arguments);
}

void tell_buffer(Form& f, const GraphBuffer& buffer) {
  tell(f, "name", buffer.name, "type", buffer.type, "count", buffer.count, "fill", buffer.fill);
  f.optional(!buffer.save.empty()).told("save", buffer.save);
}

void tell_task(Form& f, const GraphProblem& problem, const GraphTask& task) {
  const bool copies = task.kind == GraphTaskKind::copy, lane = task.kind == GraphTaskKind::lane;
  std::vector<std::string> after;
  for (const int before : task.after)
    after.push_back(problem.tasks[static_cast<std::size_t>(before)].name);
  f.told("name", task.name);
  f.told("kind", to_string(task.kind));
  f.optional(copies).told("bytes", task.bytes);
  f.optional(!copies && (!task.code || task.work_us > 0)).told("work_us", task.work_us);
  if (task.code) tell_code(f, *task.code);
  f.optional(lane && (!task.code || !task.code->library.empty())).told("groups", task.groups);
  f.optional(lane && task.units > 0).told("units", task.units);
  f.optional(lane && task.units <= 0).told("share", task.share);
  f.optional(lane && !task.policy.empty()).told("policy", task.policy);
  f.optional(lane && task.overlap_limit).told("overlap_limit", task.overlap_limit);
  f.optional(!after.empty()).told("after", after);
}

}  // namespace

Result<GraphProblem> parse_graph(const std::string& file, std::string_view text,
                                 const std::vector<std::string>& policies) {
  const Document document = TRY(parse_document(file, text));
  return GraphReader(document, policies).read();
}

std::string graph_json(const GraphProblem& problem) {
  const auto task = [&](Form& f, std::size_t i) { tell_task(f, problem, problem.tasks[i]); };
  return write_form([&](Form& f) {
    f.document("TaskGraph");
    f.line("  ").optional(!problem.name.empty()).told("name", problem.name);
    if (problem.name.empty()) f.line("  ");
    f.told("policy", problem.policy);
    f.told("overlap_limit", problem.overlap_limit);
    f.line("  ")
        .optional(!problem.buffers.empty())
        .rows("buffers", problem.buffers, tell_buffer, {.indent = "    "});
    f.line("  ").rows("tasks", problem.tasks.size(), task, {.indent = "    "});
  });
}

}  // namespace partita::forms
