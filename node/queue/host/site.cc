#include "queue/host/site.h"

#include <fmt/format.h>
#include <pwd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "base/door/http_head.h"
#include "base/parse_number.h"

namespace partita::queue {
namespace {

using serve::Reply;
using serve::Step;

constexpr std::string_view kTasks = "/v1/queue/tasks";

struct Refusal {
  std::string message, where;
};
void describe_refusal(Form& f, Refusal& refusal) {
  f.note("message", refusal.message, "what is wrong");
  f.note("where", refusal.where, "with what");
}

std::string user_of(const serve::Peer& peer) {
  if (!peer.user) return "nobody";
  const passwd* entry = ::getpwuid(peer.user->uid);
  return entry != nullptr ? entry->pw_name : fmt::format("{}", peer.user->uid);
}

int status_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::bad_input:
    case ErrorCode::invalid_argument:
    case ErrorCode::not_supported:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::limit:
      return 429;
    default:
      return 503;
  }
}

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

class QueueSite::Ask final : public serve::Exchange {
 public:
  Ask(QueueSite& site, serve::HeadFacts facts, std::string query, std::string user)
      : site_(site), facts_(std::move(facts)), query_(std::move(query)), user_(std::move(user)) {}
  const serve::HeadFacts& facts() const override { return facts_; }
  Step begin() override {
    if (facts_.content_length > kMaxSubmission) {
      reply = site_.refusal(413, "a submission has at most a megabyte");
      return Step::answer;
    }
    if (facts_.content_length == 0 && !facts_.chunked) return on_text();
    text_open = facts_.chunked;
    text_wanted = text_open ? kMaxSubmission : facts_.content_length;
    return Step::text;
  }
  Step on_text() override {
    reply = site_.answer(facts_, query_, user_, text);
    return Step::answer;
  }

 private:
  QueueSite& site_;
  serve::HeadFacts facts_;
  std::string query_, user_;
};

std::shared_ptr<serve::Exchange> QueueSite::route(const serve::HttpHead& head,
                                                  const serve::Peer& peer) {
  serve::HeadFacts facts;
  facts.method = head.method;
  facts.method_name = head.method_name;
  facts.chunked = head.chunked;
  facts.content_length = head.content_length.value_or(0);
  const std::size_t mark = head.target.find('?');
  facts.path = head.target.substr(0, mark);
  std::string query(mark == std::string_view::npos ? "" : head.target.substr(mark + 1));
  return std::make_shared<Ask>(*this, std::move(facts), std::move(query), user_of(peer));
}

Reply QueueSite::refusal(int status, std::string_view message) {
  Reply reply{.status = status};
  reply.text = write_form(Refusal{std::string(message), ""}, describe_refusal);
  return reply;
}

Reply QueueSite::refused(const Error& error) {
  Reply reply{.status = status_of(error)};
  reply.text = write_form(Refusal{error.message, error.context}, describe_refusal);
  return reply;
}

Reply QueueSite::submit(const std::string& user, const std::string& body) {
  auto spec = parse_submission("the submission", body);
  if (!spec) return refused(spec.error());
  if (spec->user.empty()) spec->user = user;
  const auto tasks = doors_.host.submit(*spec, doors_.now());
  doors_.changed();
  if (!tasks) return refused(tasks.error());
  TasksDocument document;
  for (const Task& task : *tasks) {
    if (auto shown = doors_.host.show(task.id, doors_.now()))
      document.tasks.push_back(*std::move(shown));
  }
  Reply reply{.status = 201};
  reply.text = tasks_json(document);
  return reply;
}

Reply QueueSite::log(long task) {
  if (!doors_.host.show(task, doors_.now())) return refusal(404, "there is no such task");
  Reply reply{.content_type = "text/plain; charset=utf-8"};
  reply.text = tail_of(doors_.log_path(task));
  return reply;
}

Reply QueueSite::one(long task, const std::string& verb, bool posted) {
  if (!posted && verb == "log") return log(task);
  if (!posted && verb.empty()) {
    const auto shown = doors_.host.show(task, doors_.now());
    if (!shown) return refusal(404, fmt::format("there is no task {}", task));
    const auto runs = doors_.host.runs(task);
    if (!runs) return refused(runs.error());
    Reply reply;
    reply.text = task_json(*shown, *runs);
    return reply;
  }
  using What = Asked::What;
  Asked asked{.task = task};
  if (verb == "hold") asked.what = What::hold;
  if (verb == "release") asked.what = What::release;
  if (!posted || (verb != "cancel" && verb != "hold" && verb != "release"))
    return refusal(404, "nothing is here");
  const auto done = doors_.host.ask(asked, doors_.now());
  doors_.changed();
  return done ? one(task, "", false) : refused(done.error());
}

Reply QueueSite::answer(const serve::HeadFacts& facts, const std::string& query,
                        const std::string& user, const std::string& body) {
  const bool posted = facts.method_name == "POST";
  if (!posted && facts.method_name != "GET") return refusal(405, "GET or POST");
  std::string_view path = facts.path;
  if (!path.starts_with(kTasks)) return refusal(404, "nothing is here");
  path.remove_prefix(kTasks.size());
  if (path.empty() && posted) return submit(user, body);
  if (path.empty()) {
    Reply reply;
    reply.text = tasks_json({doors_.host.list(query == "all=1", doors_.now())});
    return reply;
  }
  path.remove_prefix(1);
  const std::size_t slash = path.find('/');
  const auto task = parse_number<long>(path.substr(0, slash));
  if (!task) return refusal(404, "a task has a number");
  return one(*task, std::string(slash == std::string_view::npos ? "" : path.substr(slash + 1)),
             posted);
}

Error error_of_answer(int status, const std::string& body) {
  const auto refusal = read_form<Refusal>("the queue's answer", body, describe_refusal);
  Error error{ErrorCode::environment,
              refusal ? refusal->message : fmt::format("the queue answered with {}", status), ""};
  if (refusal) error.context = refusal->where;
  if (status == 400) error.code = ErrorCode::bad_input;
  if (status == 404) error.code = ErrorCode::not_found;
  if (status == 429) error.code = ErrorCode::limit;
  return error;
}

}  // namespace partita::queue
