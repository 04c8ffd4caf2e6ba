#include "api/exchanges.h"

#include <utility>

namespace partita::api {

using serve::Step;

CallExchange::CallExchange(ApiSite& site, Asking asking) : site_(site), asking_(std::move(asking)) {
  service = asking_.caller.user;
}

CallExchange::~CallExchange() {
  site_.waiting_.erase(this);
  site_.bodies_ -= budget_;
}

Step CallExchange::begin() {
  if (asking_.call->verb == Verb::get && is_of_queue(asking_.call->name)) return queue();
  if (asking_.call->verb == Verb::get && is_of_fleet(asking_.call->name)) return fleet();
  if (asking_.call->verb == Verb::get) {
    reply = site_.answer_now(asking_);
    return Step::answer;
  }
  const std::size_t limit = site_.options_.limits.body_bytes;
  const std::size_t length = asking_.head.content_length;
  if (length > limit) {
    reply = site_.refusal(413, "a body of " + std::to_string(length) + " bytes; " +
                                   std::to_string(limit) + " are the limit");
    return Step::answer;
  }
  text_open = asking_.head.chunked;
  text_wanted = text_open ? limit : length;
  return Step::text;
}

// Of all bodies' memory only what has come is taken, not what was announced.
Step CallExchange::on_growth(std::size_t bytes) {
  if (bytes - budget_ > site_.options_.limits.bodies_bytes - site_.bodies_) {
    reply = site_.refusal(503, "too much is being sent at once");
    reply.headers += "Retry-After: 1\r\n";
    return Step::answer;
  }
  site_.bodies_ += bytes - budget_;
  budget_ = bytes;
  return Step::text;
}

Step CallExchange::on_text() {
  const std::string_view name = asking_.call->name;
  if (name == "preview") return preview();
  if (is_of_queue(name)) return queue();
  if (is_of_fleet(name)) return fleet();
  return name == "take_lease" || name == "return_lease" ? lease() : ask();
}

void CallExchange::wait() {
  submitted_ns = serve::Loop::now_ns();
  late_ns_ = submitted_ns + std::int64_t{site_.options_.limits.answer_s} * 1'000'000'000;
  site_.waiting_.insert(this);
}

Step CallExchange::ask() {
  auto request = request_of(asking_, std::move(text));
  if (!request) {
    site_.keep(asking_, history::Outcome::refused, to_string(request.error()));
    reply = site_.json(error_json(api_error(request.error())), asking_);
    reply.status = status_of(request.error());
    return Step::answer;
  }
  wait();
  // The answer is kept in the history even when the client has gone.
  const auto self = std::weak_ptr(std::static_pointer_cast<CallExchange>(shared_from_this()));
  ApiSite* site = &site_;
  site_.backend_.ask(
      {.request = std::move(*request), .user = asking_.caller.user},
      [self, site, asking = asking_, box = site_.postbox_](control::Reply given) {
        box->post([self, site, asking, given] {
          site->keep(asking, given ? history::Outcome::succeeded : history::Outcome::refused,
                     given ? given->sentence : to_string(given.error()));
          const auto exchange = self.lock();
          if (exchange == nullptr) return;
          serve::Reply answer = site->json(
              given ? receipt_json(*given) : error_json(api_error(given.error())), asking);
          answer.status = given ? asking.call->status : status_of(given.error());
          exchange->answered(std::move(answer));
        });
      });
  return Step::backend;
}

Step CallExchange::preview() {
  wait();
  const auto self = std::weak_ptr(std::static_pointer_cast<CallExchange>(shared_from_this()));
  ApiSite* site = &site_;
  site_.backend_.preview(std::move(text), [self, site, asking = asking_,
                                           box = site_.postbox_](Result<control::ChangeNow> given) {
    auto shared = std::make_shared<Result<control::ChangeNow>>(std::move(given));
    box->post([self, site, asking, shared] {
      const Result<control::ChangeNow>& change = *shared;
      site->keep(asking, change ? history::Outcome::succeeded : history::Outcome::refused,
                 change ? "a preview" : to_string(change.error()));
      const auto exchange = self.lock();
      if (exchange == nullptr) return;
      serve::Reply answer = site->json(
          change ? agent_change_json(*change) : error_json(api_error(change.error())), asking);
      if (!change) answer.status = status_of(change.error());
      exchange->answered(std::move(answer));
    });
  });
  return Step::backend;
}

// What only looks is not kept.
std::function<void(Result<std::string>)> CallExchange::told(const char* about) {
  wait();
  const auto self = std::weak_ptr(std::static_pointer_cast<CallExchange>(shared_from_this()));
  ApiSite* site = &site_;
  return [self, site, about, asking = asking_, box = site_.postbox_](Result<std::string> given) {
    box->post([self, site, about, asking, given = std::move(given)] {
      if (asking.call->verb != Verb::get)
        site->keep(asking, given ? history::Outcome::succeeded : history::Outcome::refused,
                   given ? about : to_string(given.error()));
      const auto exchange = self.lock();
      if (exchange == nullptr) return;
      serve::Reply answer = given ? site->json(*given, asking) : site->error(asking, given.error());
      if (given) answer.status = asking.call->status;
      if (given && asking.call->answer == "text/plain")
        answer.content_type = "text/plain; charset=utf-8";
      exchange->answered(std::move(answer));
    });
  };
}

Step CallExchange::lease() {
  Backend::LeaseCall call{.user = asking_.caller.user};
  if (asking_.call->name == "take_lease")
    call.wanted = text.empty() ? " " : std::move(text);
  else
    call.owner = asking_.query.find("owner")->second;
  site_.backend_.lease(std::move(call), told("a lease"));
  return Step::backend;
}

Step CallExchange::fleet() {
  if (const auto fine = has_body(asking_, text); !fine) {
    site_.keep(asking_, history::Outcome::refused, to_string(fine.error()));
    reply = site_.error(asking_, fine.error());
    return Step::answer;
  }
  site_.backend_.fleet(fleet_call(asking_, std::move(text)), told("the fleet"));
  return Step::backend;
}

Step CallExchange::queue() {
  site_.backend_.queue(queue_call(asking_.call->name, asking_.part, asking_.query,
                                  asking_.caller.user, std::move(text)),
                       told("a task"));
  return Step::backend;
}

void CallExchange::answered(serve::Reply with) {
  site_.waiting_.erase(this);
  if (ended()) return;
  reply = std::move(with);
  end();
}

void CallExchange::too_late() {
  answered(site_.refusal(504,
                         "the agent has not answered in time; the history will say what came"
                         " of it"));
}

// ---- the stream

EventStream::EventStream(ApiSite& site, Asking asking) : site_(site), asking_(std::move(asking)) {
  service = asking_.caller.user;
  const auto said = asking_.query.find("changes");
  changes_ = said != asking_.query.end() && said->second == "true";
  site_.streams_.insert(this);
}

EventStream::~EventStream() { site_.streams_.erase(this); }

Step EventStream::begin() {
  stream_begun = true;
  reply.content_type = "text/event-stream";
  reply.headers = "X-Content-Type-Options: nosniff\r\nX-Accel-Buffering: no\r\n";
  pieces = "retry: 2000\n\n";
  const ShownState::Shown& now = site_.shown_.show(site_.backend_.snapshot());
  if (asking_.last_event_id == now.id)
    sent_ = now.id;
  else
    offer(now.id, event_text("state", now.id, now.json));
  if (changes_) site_.shown_.begin_changes();
  return Step::stream;
}

void EventStream::offer(std::string_view id, std::string_view event) {
  if (id == sent_ || unsent > 0) return;
  sent_ = id;
  pieces += event;
  if (wake) wake();
}

void EventStream::beat(std::int64_t time_ms) {
  if (unsent > 0 || !pieces.empty()) return;
  pieces = changes_ ? event_text("changes", sent_, "{\"time_ms\":" + std::to_string(time_ms) + "}")
                    : ":\n\n";
  if (wake) wake();
}

void EventStream::on_fetched() {
  if (sent_ != site_.shown_.show(site_.backend_.snapshot()).id) site_.news();
}

std::string event_text(std::string_view name, std::string_view id, std::string_view data) {
  std::string out = "event: ";
  out += name;
  out += "\nid: ";
  out += id;
  out += '\n';
  while (!data.empty()) {
    const std::size_t length = std::min(data.find('\n'), data.size());
    out += "data: ";
    out += data.substr(0, length);
    out += '\n';
    data.remove_prefix(std::min(length + 1, data.size()));
  }
  out += '\n';
  return out;
}

}  // namespace partita::api
