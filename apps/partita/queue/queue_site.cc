#include "queue/queue_site.h"

#include <fmt/format.h>
#include <pwd.h>

#include <string>
#include <utility>

#include "api/documents.h"
#include "api/site.h"

namespace partita::cli {
namespace {

using serve::Reply;
using serve::Step;

std::string user_of(const serve::Peer& peer) {
  if (!peer.user) return "nobody";
  const passwd* entry = ::getpwuid(peer.user->uid);
  return entry != nullptr ? entry->pw_name : fmt::format("{}", peer.user->uid);
}

Reply refused(const Error& error) {
  return {.status = api::status_of(error), .text = api::error_json(api::api_error(error))};
}

class QueueExchange final : public serve::Exchange {
 public:
  QueueExchange(queue::Calls& calls, serve::HeadFacts facts, const api::Operation& operation,
                queue::Call call)
      : calls_(calls), facts_(std::move(facts)), operation_(operation), call_(std::move(call)) {}
  const serve::HeadFacts& facts() const override { return facts_; }
  Step begin() override {
    if (facts_.content_length > queue::kMaxSubmission) {
      reply = refused({ErrorCode::bad_input, "a submission has at most a megabyte", "body"});
      return Step::answer;
    }
    if (facts_.content_length == 0 && !facts_.chunked) return on_text();
    text_open = facts_.chunked;
    text_wanted = text_open ? queue::kMaxSubmission : facts_.content_length;
    return Step::text;
  }
  Step on_text() override {
    call_.body = std::move(text);
    auto answer = calls_.answer(call_);
    reply = answer ? Reply{.status = operation_.status, .text = *std::move(answer)}
                   : refused(answer.error());
    if (answer && operation_.answer == "text/plain") reply.content_type = operation_.answer;
    return Step::answer;
  }

 private:
  queue::Calls& calls_;
  serve::HeadFacts facts_;
  const api::Operation& operation_;
  queue::Call call_;
};

}  // namespace

Reply QueueSite::refusal(int status, std::string_view message) {
  return {.status = status,
          .text = api::error_json({.code = "bad_request", .message = std::string(message)})};
}

std::shared_ptr<serve::Exchange> QueueSite::route(const serve::HttpHead& head,
                                                  const serve::Peer& peer) {
  serve::HeadFacts facts{.method = head.method, .method_name = std::string(head.method_name)};
  facts.content_length = head.content_length.value_or(0);
  facts.chunked = head.chunked;
  const std::size_t mark = std::min(head.target.find('?'), head.target.size());
  facts.path = head.target.substr(0, mark);
  const auto found = api::find_operation(facts.method_name, facts.path).found;
  const auto no = [&](Reply reply) {
    return std::make_shared<serve::AnsweredExchange>(facts, std::move(reply));
  };
  if (!found || !api::is_of_queue(found->operation->name))
    return no(refused({ErrorCode::not_found, "there is no such call", ""}));
  const auto query = api::read_query(*found->operation,
                                     head.target.substr(std::min(mark + 1, head.target.size())));
  if (!query) return no(refused(query.error()));
  queue::Call call =
      api::queue_call(found->operation->name, found->part, *query, user_of(peer), "");
  return std::make_shared<QueueExchange>(calls_, std::move(facts), *found->operation,
                                         std::move(call));
}

}  // namespace partita::cli
