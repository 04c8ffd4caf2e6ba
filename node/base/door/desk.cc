#include "base/door/desk.h"

#include <algorithm>

#include "base/door/loop.h"

namespace partita::serve {

std::int64_t answer_by(const DoorLimits& limits, std::uint64_t bytes) {
  return moved_by(limits, Loop::now_ns(), bytes);
}

std::int64_t moved_by(const DoorLimits& limits, std::int64_t began_ns, std::uint64_t moved) {
  const std::uint64_t ms = moved * 1000 / static_cast<std::uint64_t>(limits.bytes_per_second);
  return began_ns + limits.body_grace_ns + static_cast<std::int64_t>(ms) * 1'000'000;
}

void Backlog::is(std::size_t bytes) {
  if (bytes == bytes_) return;
  if (bytes_ == 0) {
    since_ = Loop::now_ns();
    fetched_ = 0;
    desk_.behind.emplace(since_, this);
  }
  if (bytes < bytes_) fetched_ += bytes_ - bytes;
  desk_.waiting += bytes - bytes_;
  bytes_ = bytes;
  if (bytes == 0) desk_.behind.erase({since_, this});
  const auto due = [&](const auto& one) {
    return moved_by(desk_.limits, one.first, one.second->fetched_);
  };
  while (desk_.waiting > desk_.limits.waiting_bytes) {
    Backlog* const last = std::ranges::min_element(desk_.behind, {}, due)->second;
    last->is(0);
    last->drop_();
  }
}

void log_answer(Desk& desk, const Peer& peer, const Exchange& exchange, const AnswerFacts& facts) {
  if (desk.log == nullptr) return;
  const std::int64_t now = Loop::now_ns();
  const bool queued = exchange.submitted_ns > 0;
  const std::int64_t until = exchange.ended_ns > 0 ? exchange.ended_ns : now;
  desk.log->add({.unix_ns = facts.began_unix_ns,
                 .client = peer.address,
                 .method = exchange.facts().method_name,
                 .path = exchange.facts().path,
                 .service = exchange.service,
                 .trace_parent = exchange.facts().trace.parent,
                 .status = facts.status,
                 .items = exchange.items,
                 .bytes_in = facts.bytes_in,
                 .bytes_out = facts.bytes_out,
                 .queue_ns = queued ? until - exchange.submitted_ns : 0,
                 .total_ns = now - facts.began_ns});
}

void count_answer(Desk& desk, Peer& peer, const Exchange& exchange) {
  const int status = exchange.status();
  const auto hundreds = static_cast<std::size_t>(status / 100);
  if (hundreds < desk.counts.answers.size()) ++desk.counts.answers[hundreds];
  if (exchange.submitted_ns == 0) return;
  if (status == 200 && peer.answered_ns == 0) peer.answered_ns = Loop::now_ns();
  peer.faulted = peer.faulted || status == 500 || status == 422;
}

}  // namespace partita::serve
