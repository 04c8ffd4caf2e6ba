#include "queue/host/calls.h"

#include <cstdio>
#include <memory>
#include <utility>

namespace partita::queue {
namespace {

// The end of a file, at most kMaxLog bytes.
std::string tail_of(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rbe"),
                                                             &std::fclose);
  if (!file) return {};
  std::fseek(file.get(), 0, SEEK_END);
  const long size = std::ftell(file.get());
  const long from = size > static_cast<long>(kMaxLog) ? size - static_cast<long>(kMaxLog) : 0;
  std::fseek(file.get(), from, SEEK_SET);
  std::string text(static_cast<std::size_t>(size - from), '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  return text;
}

}  // namespace

Result<std::string> Calls::submit(const Call& call) {
  if (call.body.size() > kMaxSubmission)
    return bad_input("body", "a submission has at most a megabyte");
  auto spec = TRY(parse_submission("the submission", call.body));
  if (spec.user.empty()) spec.user = call.user;
  const auto tasks = doors_.host.submit(spec, doors_.now());
  doors_.changed();
  if (!tasks) return failed(tasks.error());
  TasksDocument document;
  for (const Task& task : *tasks) {
    if (auto shown = doors_.host.show(task.id, doors_.now()))
      document.tasks.push_back(*std::move(shown));
  }
  return tasks_json(document);
}

Result<std::string> Calls::show(long task) {
  const auto shown = TRY(doors_.host.show(task, doors_.now()));
  const auto runs = TRY(doors_.host.runs(task));
  return task_json(shown, runs);
}

Result<std::string> Calls::change(const Call& call) {
  using What = Asked::What;
  const What what = call.name == "queue_hold"      ? What::hold
                    : call.name == "queue_release" ? What::release
                                                   : What::cancel;
  const auto done = doors_.host.ask({what, call.task}, doors_.now());
  doors_.changed();
  if (!done) return failed(done.error());
  return show(call.task);
}

Result<std::string> Calls::answer(const Call& call) {
  if (call.name == "queue_submit") return submit(call);
  if (call.name == "queue_tasks") {
    const auto tasks = doors_.host.list(call.page, doors_.now());
    return tasks ? Result<std::string>(tasks_json({*tasks})) : failed(tasks.error());
  }
  if (call.name == "queue_task") return show(call.task);
  if (call.name != "queue_log") return change(call);
  if (!doors_.host.show(call.task, doors_.now())) return show(call.task);
  return tail_of(doors_.log_path(call.task));
}

}  // namespace partita::queue
