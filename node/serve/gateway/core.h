// The gateway's core: what lies between the front doors and the workers. Owns the brains of the
// services, the slots in which tensors lie, and the connections of the workers; lives on one Loop
// and does everything on its thread. Which services there are comes from outside (serve()); their
// shapes come from the workers. Limits: CoreOptions; a service's memory is bounded by its slots,
// which are claimed as rows come; with none free a request is refused, and one client never has
// all of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "act/gateway_choices.h"
#include "act/gateway_state.h"
#include "act/recent_requests.h"
#include "base/door/loop.h"
#include "plan/terms.h"
#include "serve/brain/canary.h"
#include "serve/brain/service_brain.h"
#include "serve/front/backend.h"

namespace partita::serve {

// In place of a service's name: of those whose model's own configuration asks for a cache.
inline constexpr std::string_view kCachesAsked = "*";

struct CoreOptions {
  std::string link_path;                            // where workers connect
  int queue_limit = kDefaultQueueLimit;             // waiting items of a service
  std::size_t memory_bytes = std::size_t{1} << 30;  // of a service's slots
  bool shed = true;                                 // refuse what would be late
  Nanos hang_after = 200'000'000;      // a batch late by so much, or by its SLO if that is more:
                                       // its worker hangs, and what it has is taken back
  Nanos silent_after = 3'000'000'000;  // without a beat a worker is silent,
  Nanos dead_after = 10'000'000'000;   // then ended, so that its requests may move on
  std::map<std::string, CanaryWish, std::less<>> canaries = {};  // from the start on, by model
  Nanos canary_watch = kCanaryWatch;
  // By service, in place of what its terms say; without memory it has none. Or by kCachesAsked.
  std::map<std::string, plan::CacheTerms, std::less<>> caches = {};
  // What was decided while the gateway before ran, and who keeps what is decided now.
  actuate::GatewayChoices choices = {};
  std::function<void(const actuate::GatewayChoices&)> chosen = {};
};

inline constexpr std::size_t kMostWorkerLosses = 64;

// What a service is to be, from the assignment.
struct ServedSegment {
  std::string device;
  int batch = 0;  // the largest; 0: what the worker offers
  int processes = 0;
  bool operator==(const ServedSegment&) const = default;
};
struct ServedService : plan::Terms {
  std::vector<ServedSegment> segments = {};
  bool operator==(const ServedService&) const = default;
};
// Of a service whose assignment does not say its SLO (written by an earlier version).
inline constexpr Millis kUnsaidSlo{1000};
// What its requests are held to.
Millis slo_of(const plan::Terms& terms);

// What is, for the state file, metrics and people.
struct WorkerView {
  std::string device, service, state;  // state: warming, ready, leaving, silent
  int index = 0;
  std::int64_t pid = 0;
  Nanos heard_ago = 0;
};
struct WorkerLoss {  // one that ended with requests in flight
  std::string device;
  int index = 0;
  std::int64_t pid = 0;
};
struct ServiceView {
  plan::Terms terms;
  int ready_workers = 0, queued = 0;
  double rate_rps = 0;              // that comes, over the last seconds
  double capacity_rps = 0;          // full batches on the ready workers
  Nanos p50 = 0, p99 = 0;           // of the last half minute
  ServiceCounters counters = {};
  long by_pipelines = 0;                         // of offered: requests that pipelines made
  std::optional<actuate::ColdStarts> cold = {};  // of a set
  long withdrawn = 0, given_up = 0;  // by their clients; see ServiceTotals
  long limited = 0;                  // of withdrawn: refused for their keys' own limits
  std::vector<actuate::KeyCounts> keys = {};
  std::vector<actuate::FanOutCounts> fan_outs = {};  // of a pipeline
};

class Core final : public Backend {
 public:
  // in_use where another gateway listens. `loop` must outlive it. `say` hears what happens, a line
  // each.
  static Result<std::unique_ptr<Core>> open(Loop& loop, const CoreOptions& options,
                                            std::function<void(const std::string&)> say);
  ~Core() override;

  // These services from now on, of which pipelines use others. What stays is not disturbed;
  // requests of one that is gone fail.
  void serve(const std::vector<ServedService>& services);
  // Lets nothing in any more.
  void close_doors();
  // No request is under way.
  bool idle() const;
  std::vector<WorkerView> worker_views() const;
  std::vector<ServiceView> service_views() const;
  const std::deque<WorkerLoss>& losses() const;  // the last kMostWorkerLosses
  // Called when a worker came, went or changed its state, at most once per loop turn.
  void on_change(std::function<void()> function);

  std::vector<std::string> services() const override;
  const ModelSpec* model(std::string_view service) const override;
  bool known(std::string_view service) const override;
  bool ready(std::string_view service) const override;
  std::string set_of(std::string_view model) const override;
  bool ready() const override;
  tl::expected<RequestId, Denial> admit(const RequestHead& head) override;
  void turned_away(std::string_view service) override;
  void uncount(std::string_view service, Denial::Kind why) override;
  tl::expected<KeyHandle, Denial> key_begun(const RequestHead& head) override;
  bool claim(RequestId request, int rows) override;
  std::span<char> input(RequestId request, int item, int tensor) override;
  void submit(RequestId request, Completion completion) override;
  std::span<const char> output(RequestId request, int item, int tensor) override;
  void release(RequestId request) override;
  ServiceStatistics statistics(std::string_view service) const override;
  std::string metrics() const override;
  bool set_loaded(std::string_view service, bool loaded) override;
  bool loaded(std::string_view service) const override;
  std::string set_canary(std::string_view model, const CanaryWish& wish) override;
  std::optional<CanaryView> canary(std::string_view model) const override;

 private:
  struct Impl;
  explicit Core(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::serve
