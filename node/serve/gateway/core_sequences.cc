// Sequences: requests whose state a worker has.
#include <fmt/format.h>

#include <algorithm>

#include "serve/gateway/core_impl.h"

namespace partita::serve {
namespace {

SequenceName name_of(const RequestHead& head) {
  return {head.limits == nullptr ? std::string() : std::string(head.client), head.sequence};
}

}  // namespace

std::optional<Denial> find_worker(LiveService& service, const std::map<WorkerId, Seat>& seats,
                                  const RequestHead& head, Wish& wish) {
  const auto refused = [&](Denial::Kind kind, const std::string& message) {
    return Denial{.kind = kind, .message = message};
  };
  if (head.sequence == 0 || head.items != 1)
    return refused(Denial::Kind::bad_request,
                   fmt::format("'{}' has state: a request is one row, and has a sequence_id above "
                               "0",
                               head.service));
  wish.idempotent = false;
  const auto found = service.sequences.find(name_of(head));
  if (!head.sequence_begins) {
    if (found == service.sequences.end())
      return refused(Denial::Kind::bad_request,
                     fmt::format("there is no sequence {} of '{}': begin it with sequence_start",
                                 head.sequence, head.service));
    if (found->second.lost)
      return refused(Denial::Kind::lost,
                     fmt::format("the worker that had sequence {} is gone, and its state with it; "
                                 "begin it again with sequence_start",
                                 head.sequence));
    wish.worker = found->second.worker;
    wish.sequence = found->second.number;
    return std::nullopt;
  }
  if (service.sequences.size() >= kMostSequences && found == service.sequences.end())
    return refused(Denial::Kind::overloaded, "too many sequences are under way");
  std::map<WorkerId, int> load;
  for (const auto& [worker, seat] : seats)
    if (seat.service.get() == &service && seat.state == Seat::State::ready && !seat.silent &&
        !seat.hangs)
      load[worker] = 0;
  for (const auto& [name, sequence] : service.sequences)
    if (const auto has = load.find(sequence.worker); has != load.end()) ++has->second;
  const auto least = std::ranges::min_element(load, {}, [](const auto& one) { return one.second; });
  if (least == load.end())
    return refused(Denial::Kind::not_ready,
                   fmt::format("no worker of '{}' is ready", head.service));
  wish.worker = least->first;
  wish.sequence = service.next_sequence++;
  return std::nullopt;
}

void step_taken(LiveRequest& asked, const RequestHead& head, const Wish& wish) {
  asked.sequence = name_of(head);
  asked.step = {wish.sequence, head.sequence_begins, head.sequence_ends};
  asked.service->sequences[*asked.sequence] = {
      .worker = *wish.worker, .number = wish.sequence, .used = wish.arrived};
}

void lose_sequences(LiveService& service, WorkerId worker) {
  for (auto& [name, sequence] : service.sequences) {
    if (sequence.worker != worker || sequence.lost) continue;
    sequence.lost = true;
    ++service.totals.sequences_lost;
  }
}

void forget_sequences(LiveService& service, Nanos now) {
  std::erase_if(service.sequences,
                [&](const auto& entry) { return now - entry.second.used > kSequenceIdle; });
}

}  // namespace partita::serve
