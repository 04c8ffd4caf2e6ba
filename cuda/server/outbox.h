// Outbox: what a session tells its client: answers, refusals, notices, and why it ends. Handlers of
// async operations answer whether they were refused (Done); those of sync ones give a reply, a
// refusal, or nothing when the answer follows later (Reply).
#pragma once

#include <map>
#include <optional>
#include <string>

#include "server/session.h"

namespace partita::remote::server {

using Done = Answered<void>;
template <class Op>
using Reply = std::optional<Answered<typename Op::Reply>>;

class Outbox {
 public:
  Outbox(Channel& channel, const SessionLimits& limits);

  template <class Op>
  void reply(std::uint32_t request, Status status, const typename Op::Reply& value,
             Bytes bulk = {});
  // The request at hand will be answered later, by settle().
  template <class Op>
  std::uint32_t owe();
  template <class Op>
  void settle(std::uint32_t request, Status status, const typename Op::Reply& value = {},
              Bytes bulk = {});
  bool owes(std::uint32_t to) const { return due_.contains(to); }
  std::size_t owed() const { return due_.size(); }
  // Answers what is owed: the context is destroyed.
  void cancel_all();
  template <class Op>
  void put(const Op& notice, Bytes bulk = {});
  void flush();
  void say(SaidTo where, std::string_view text);
  // Of an async operation: the client hears why, and of the first one with every answer.
  void refused(std::string_view operation, const Refused& why);

  void broken(const Error& error);        // the channel is
  void end(const std::string& why);       // the client hears why
  void ended_as(const std::string& why);  // silently
  bool ended() const { return ended_; }
  const std::string& reason() const { return reason_; }

  std::uint32_t request = 0;  // of the operation at hand
  Status sticky = 0;          // first failure of an async operation
  SessionCounts counts = {};

 private:
  const SessionLimits& limits_;
  FrameWriter writer_;
  bool ended_ = false;
  std::string reason_ = {};
  std::size_t said_ = 0;
  std::map<std::uint32_t, void (*)(Outbox&, std::uint32_t)> due_ = {};  // without answer
};

template <class Op>
void Outbox::reply(std::uint32_t to, Status status, const typename Op::Reply& value, Bytes bulk) {
  if (ended_) return;
  counts.bytes_out += bulk.size();
  if (const auto done = writer_.answer<Op>(to, Outcome{status, sticky}, value, bulk); !done)
    broken(done.error());
}

template <class Op>
std::uint32_t Outbox::owe() {
  due_.emplace(request,
               [](Outbox& of, std::uint32_t to) { of.reply<Op>(to, kContextIsDestroyed, {}); });
  return request;
}

template <class Op>
void Outbox::settle(std::uint32_t to, Status status, const typename Op::Reply& value, Bytes bulk) {
  if (due_.erase(to) > 0) reply<Op>(to, status, value, bulk);
}

template <class Op>
void Outbox::put(const Op& notice, Bytes bulk) {
  if (ended_) return;
  counts.bytes_out += bulk.size();
  if (const auto done = writer_.put(notice, 0, bulk); !done) broken(done.error());
}

}  // namespace partita::remote::server
