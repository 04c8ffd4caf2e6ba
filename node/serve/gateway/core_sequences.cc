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

// Of those that get batches the one that has the fewest.
std::optional<WorkerId> fewest(const LiveService& service) {
  for (const auto& [load, worker] : service.sequences.workers())
    if (service.brain.usable(worker)) return worker;
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
  wish.worker = fewest(*service);
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

void lose_sequences(LiveService& service, WorkerId worker, Nanos now) {
  service.sequences.leave(worker);
  for (const SequenceName& name : service.sequences.held_by(worker)) {
    service.sequences.lose(name, now);
    ++service.totals.sequences_lost;
  }
}

}  // namespace partita::serve
