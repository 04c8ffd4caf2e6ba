// Sequences: requests whose state a worker has.
#include <fmt/format.h>

#include <algorithm>

#include "serve/gateway/core_impl.h"

namespace partita::serve {
namespace {

SequenceName name_of(const RequestHead& head) { return {std::string(head.client), head.sequence}; }

Denial refused(Denial::Kind kind, std::string message) {
  return {.kind = kind, .message = std::move(message)};
}

// Why a step finds nothing to go on with.
std::optional<Denial> not_there(const RequestHead& head, const Sequences::Sequence* sequence) {
  if (sequence == nullptr)
    return refused(Denial::Kind::bad_request,
                   fmt::format("there is no sequence {} of '{}': begin it with sequence_start",
                               head.sequence, head.service));
  if (sequence->state == Sequences::State::lost)
    return refused(Denial::Kind::lost,
                   fmt::format("the worker that had sequence {} is gone, and its state with it; "
                               "begin it again with sequence_start",
                               head.sequence));
  if (sequence->state == Sequences::State::idle)
    return refused(Denial::Kind::lost,
                   fmt::format("nobody went on with sequence {} for {} s: it has ended; begin it "
                               "again with sequence_start",
                               head.sequence, kSequenceIdle / 1'000'000'000));
  return std::nullopt;
}

// Whether there is room for one more.
std::optional<Denial> no_room(const LiveService& service, const SequenceName& name) {
  switch (service.sequences.room(name)) {
    case Sequences::Room::enough:
      return std::nullopt;
    case Sequences::Room::client_has_most:
      return Denial{.kind = Denial::Kind::slowed,
                    .message = fmt::format("this client has as many sequences of '{}' as it may "
                                           "have; end some with sequence_end",
                                           service.wanted.name),
                    .retry_after_ns = kSequenceIdle};
    case Sequences::Room::full:
      return Denial{.kind = Denial::Kind::overloaded,
                    .message = "too many sequences are under way",
                    .retry_after_ns = kSequenceIdle};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Denial> find_worker(const std::shared_ptr<LiveService>& service,
                                  const RequestHead& head, Wish& wish) {
  if (head.sequence == 0 || head.items != 1)
    return refused(Denial::Kind::bad_request,
                   fmt::format("'{}' has state: a request is one row, and has a sequence_id above "
                               "0",
                               head.service));
  wish.idempotent = false;
  const SequenceName name = name_of(head);
  if (!head.sequence_begins) {
    const Sequences::Sequence* const found = service->sequences.find(name);
    if (auto denial = not_there(head, found)) return denial;
    wish.worker = found->holder();
    wish.sequence = found->number;
    return std::nullopt;
  }
  if (auto denial = no_room(*service, name)) return denial;
  wish.worker = fewest(service->sequences, service->brain);
  if (!wish.worker)
    return refused(Denial::Kind::not_ready,
                   fmt::format("no worker of '{}' is ready", head.service));
  wish.sequence = service->sequences.next_number();
  return std::nullopt;
}

void step_taken(LiveRequest& asked, const RequestHead& head, const Wish& wish) {
  asked.sequence = name_of(head);
  asked.step = {wish.sequence, head.sequence_begins, head.sequence_ends};
  asked.service->sequences.step(*asked.sequence, *wish.worker, wish.sequence, wish.arrived);
}

std::optional<Denial> where_it_is_now(LiveRequest& asked) {
  const Sequences::Sequence* const sequence = asked.service->sequences.find(*asked.sequence);
  if (sequence == nullptr || sequence->number != asked.step.sequence ||
      sequence->state != Sequences::State::live)
    return refused(Denial::Kind::lost, "its sequence ended while this step was on its way");
  asked.wish.worker = sequence->holder();
  return std::nullopt;
}

SequenceMoves::Ground ground_of(LiveService& service, const SequenceMoves::Send& send) {
  return {service.sequences, service.brain, send, Loop::now_ns()};
}

// Where its last step did not run, its worker still has the state.
void end_sequence(LiveRequest& asked, Outcome outcome, const SequenceMoves::Send& send) {
  LiveService& service = *asked.service;
  const Sequences::Sequence* const sequence = service.sequences.find(*asked.sequence);
  if (outcome != Outcome::done && sequence->state == Sequences::State::live)
    send(sequence->holder(), ForgetStates{{sequence->number}});
  service.sequences.end(*asked.sequence);
}

// Those that nobody went on with.
void expire_sequences(LiveService& service, const SequenceMoves::Send& send, Nanos now) {
  std::map<WorkerId, ForgetStates> forgotten;
  for (const auto& [worker, number] : service.sequences.expire(now)) {
    std::vector<std::uint64_t>& numbers = forgotten[worker].sequences;
    numbers.push_back(number);
    if (numbers.size() == kMaxLinkBatch) send(worker, std::exchange(forgotten[worker], {}));
  }
  for (const auto& [worker, frame] : forgotten)
    if (!frame.sequences.empty()) send(worker, frame);
}

}  // namespace partita::serve
