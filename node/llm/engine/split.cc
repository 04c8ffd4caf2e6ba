#include "llm/engine/split.h"

#include <algorithm>
#include <vector>

#include "base/index.h"
#include "base/rng.h"

namespace partita::llm {
namespace {

constexpr std::uint64_t kApartSeed = 0x5917;

// What one engine gets: requests, and which of all each of them is.
struct Share {
  std::vector<Request> requests;
  std::vector<std::size_t> places;

  void add(const Request& request, std::size_t place) {
    requests.push_back(request);
    places.push_back(place);
  }
};

void add_run(EngineRun& all, const EngineRun& one) {
  all.steps += one.steps;
  all.tokens_out += one.tokens_out;
  all.preemptions += one.preemptions;
  all.end = std::max(all.end, one.end);
}

// Prompts and first tokens; what each engine has of them goes on to `all`.
Result<void> prefill(const profile::TokenEngine& engine, std::span<const Request> requests,
                     const Door& door, EngineRun& all, Rng& rng) {
  std::vector<Share> shares(at(engine.prefills));
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request prompt = requests[i];
    prompt.out = 1;
    shares[rng.below(shares.size())].add(prompt, i);
  }
  for (const Share& share : shares) {
    const Result<EngineRun> run = simulate(engine.prompts_by(), share.requests, {.door = door});
    if (!run) return failed(run.error());
    for (std::size_t k = 0; k < share.places.size(); ++k)
      all.requests[share.places[k]] = run->requests[k];
    add_run(all, *run);
  }
  return {};
}

// In the order in which their caches come.
std::vector<std::size_t> moved(const profile::TokenEngine& engine,
                               std::span<const Request> requests, EngineRun& all) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Served& served = all.requests[i];
    if (!served.refused && requests[i].out > 1) order.push_back(i);
    // Until then it is at its prefill's engine; `end` is when it comes.
    served.end = served.first +
                 (requests[i].out > 1 ? Millis{engine.move_token_ms * requests[i].in} : Millis{});
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return all.requests[i].end; });
  return order;
}

}  // namespace

Result<EngineRun> simulate_group(const profile::TokenEngine& engine,
                                 std::span<const Request> requests, const Door& door) {
  if (engine.prefills == 0) return simulate(engine.spec, requests, {.door = door});
  Rng rng(kApartSeed);
  EngineRun all;
  all.requests.resize(requests.size());
  if (auto done = prefill(engine, requests, door, all, rng); !done) return failed(done.error());
  std::vector<Share> shares(at(engine.decodes));
  for (const std::size_t i : moved(engine, requests, all)) {
    const Request& asked = requests[i];
    shares[rng.below(shares.size())].add({.arrival = all.requests[i].end,
                                          .in = asked.in + 1,
                                          .out = asked.out - 1,
                                          .came = asked.in},
                                         i);
  }
  for (const Share& share : shares) {
    const Result<EngineRun> run = simulate(engine.spec, share.requests);
    if (!run) return failed(run.error());
    for (std::size_t k = 0; k < share.places.size(); ++k) {
      Served& served = all.requests[share.places[k]];
      served.end = run->requests[k].end;
      served.preemptions += run->requests[k].preemptions;
      served.refused = run->requests[k].refused;
    }
    add_run(all, *run);
    all.most_blocks = std::max(all.most_blocks, run->most_blocks);
    all.most_sequences = std::max(all.most_sequences, run->most_sequences);
  }
  return all;
}

}  // namespace partita::llm
