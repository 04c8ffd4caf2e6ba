// The inside of Core: services, requests, workers' seats. Internal to serve/gateway.
#pragma once

#include <array>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "serve/brain/fair_shares.h"
#include "serve/gateway/core.h"
#include "serve/gateway/joints.h"
#include "serve/gateway/keys.h"
#include "serve/gateway/metrics.h"
#include "serve/gateway/request_digest.h"
#include "serve/gateway/response_cache.h"
#include "serve/gateway/senders.h"
#include "serve/gateway/sequence_moves.h"
#include "serve/gateway/slot_pool.h"
#include "sim/histogram.h"

namespace partita::serve {

// Latencies of the last 15 to 30 seconds.
class RecentLatencies {
 public:
  void add(Nanos now, Nanos latency);
  Nanos percentile(double percent, Nanos now) const;  // 0: of no answer

 private:
  void turn(Nanos now);
  std::array<sim::LatencyHistogram, 2> halves_;
  Nanos turned_ = 0;
};

// A batch whose rows were taken back from a worker that hangs, which may still write to them.
struct Abandoned {
  WorkerId worker = 0;
  Nanos since = 0;
  std::vector<std::uint32_t> slots = {};
};

// A version on trial beside the service that it is one of.
struct Trial {
  Canary canary;
  CanaryWish wish;
  std::string service;      // what serves it
  bool given_back = false;  // the request that was given back last: it was with the new version
  bool by_flag = false;     // it was begun when the gateway was
};

// The answers of a service, and requests that wait for one of the same content.
struct AnswerCache {
  struct Flight {
    RequestId leader = 0;  // that runs
    std::set<RequestId> others = {};
  };
  plan::CacheTerms terms = {};
  const char* from = "";   // who says so
  std::string unfit = {};  // why answers of the model are not kept; empty: they may be
  // None: it takes nothing any more, and who waits in it still gets its answer.
  std::optional<ResponseCache> answers = {};
  std::map<CacheKey, Flight> flights = {};
  CacheTotals totals = {};
};

struct LiveService {
  LiveService(ServedService service, const ServiceSettings& settings)
      : wanted(std::move(service)), brain(settings) {}
  ServedService wanted;
  ServiceBrain brain;
  std::optional<ModelSpec> model = {};  // as its last worker said
  std::optional<SlotPool> slots = {};
  std::vector<std::shared_ptr<const JointPages>> joints = {};  // of its slots
  std::unique_ptr<Loop::Timer> timer = {};
  std::map<BatchId, Batch> batches = {};                    // that run
  std::map<BatchId, Abandoned> abandoned = {};              // and that nobody waits for any more
  std::map<std::string, int, std::less<>> held = {};        // rows with slots, by client
  std::map<std::string, SegmentTotals> segments = {};       // by device
  std::map<std::string, KeyUsage, std::less<>> usage = {};  // by key
  FairShares shares = {};
  Sequences sequences = {};
  SequenceMoves moves = {};
  std::unique_ptr<Trial> trial = {};
  std::unique_ptr<AnswerCache> cache = {};
  RecentLatencies recent = {};
  ServiceTotals totals = {};
  long offered_before = 0;  // at the last look
  double rate_rps = 0;
  bool stepping = false, step_again = false;
  bool removed = false;
  bool loaded = true;
  bool streams() const { return model && model->kind == ModelKind::openai; }
  // For so many rows more of a client: it leaves the others a part of what it finds, so that each
  // gets something, however many come.
  bool has_room(std::string_view client, std::size_t rows) const;
};

ServiceSettings settings_of(const ServedService& service, const CoreOptions& options,
                            bool predictable);

// Of a client's slots, how many times those that are free then: one alone gets 4 of 5.
inline constexpr std::size_t kClientShare = 4;
inline constexpr std::uint32_t kNoSlot = UINT32_MAX;

// How late a batch may be before its worker counts as hanging.
Nanos hang_after(const LiveService& service, const CoreOptions& options);

struct LiveRequest {
  enum class State : std::uint8_t { open, submitted, finished, released };
  RequestId id = 0;
  std::shared_ptr<LiveService> service;
  Wish wish;
  std::vector<std::uint32_t> slots;  // of its first rows, as many as are claimed
  std::string client = {}, trace_parent = {}, trace_state = {};
  std::optional<double> tag = {};  // of its key's share; none: it has no key
  bool waits = false;              // in its key's share
  std::optional<SequenceName> sequence = {};
  SlotStep step = {};
  // It is of a trial of this service, and with the new version. Its sender has no part in that.
  std::shared_ptr<LiveService> trial_of = {};
  bool watched = false;    // its sender is
  bool starved = false;    // there were no slots for its last rows
  bool suspect = false;    // a worker died or hung with it in flight
  std::string model = {};  // of its set
  bool cold = false;       // its model was loaded for it
  std::optional<CacheKey> key = {};  // by which its answer may be kept
  State state = State::open;
  Completion completion = {};
  std::string message = {};  // why a worker failed
};

// It does not wait in its key's share any more.
void begun(LiveRequest& request);

// Sequences (core_sequences.cc). The worker that a step has to run on: of a new sequence the one
// that has the fewest; or why there is none.
std::optional<Denial> find_worker(const std::shared_ptr<LiveService>& service,
                                  const RequestHead& head, Wish& wish);
// A step was let in.
void step_taken(LiveRequest& request, const RequestHead& head, const Wish& wish);
// A step has come whole: its worker is the one that has the state by now. Or there is none.
std::optional<Denial> where_it_is_now(LiveRequest& request);
// Its last step is over.
void end_sequence(LiveRequest& request, Outcome outcome, const SequenceMoves::Send& send);
void expire_sequences(LiveService& service, const SequenceMoves::Send& send, Nanos now);
SequenceMoves::Ground ground_of(LiveService& service, const SequenceMoves::Send& send);

inline Nanos nanos_of(Millis time) { return std::llround(time.value * 1e6); }

// Canaries (core_canary.cc).
using Services = std::map<std::string, std::shared_ptr<LiveService>, std::less<>>;
// Empty, or why it cannot be.
std::string begin_trial(LiveService& service, const CanaryWish& wish, Nanos watch);
// The new version, if this request (a shadow: its copy) goes there.
std::shared_ptr<LiveService> canary_for(LiveService& service, const Services& services,
                                        const RequestHead& head);
// What became of a request. A line to say, where that decided something.
std::string note_answer(const LiveRequest& request, bool well, Nanos latency);
std::string look_at_trial(LiveService& service, Nanos now);
std::string verdict(const LiveService& service);  // of its trial, a line to say

// Caches (core_cache.cc). Of a service or its workers that change: what was kept is forgotten.
void forget_answers(LiveService& service);
std::optional<CacheTotals> totals_of(const AnswerCache* cache);
// The cache that options, terms and the model's own configuration want now, in this order: another
// one than before has no answers yet. A line to say, where something is new.
std::string follow_cache(LiveService& service, const CoreOptions& options);

// Requests that are not released yet, or whose slots a worker may still write to.
struct LiveRequests {
  std::unordered_map<RequestId, LiveRequest> by_id;  // looked up and counted only
  RequestId next = 1;

  LiveRequest& at(RequestId id);
  // With its slots.
  void forget(LiveRequest& request);
  // Those that were released while they ran, now that they do not run any more.
  void forget_released(const std::vector<Item>& items);
};

// A request that comes whole joins the queue.
void enqueue(LiveRequest& request);

// What caches do for requests. Refers to the loop and the requests.
class CacheDesk {
 public:
  using Step = std::function<void(const std::shared_ptr<LiveService>&)>;
  CacheDesk(Loop& loop, LiveRequests& requests, Step step)
      : loop_(loop), requests_(requests), step_(std::move(step)) {}

  // Whether the request, of a service with a cache, has been answered, or waits for another one.
  bool takes(LiveRequest& request);
  // A request that has ended, and who waits for it.
  struct Landing {
    Outcome outcome = Outcome::done;
    std::string answer = {};  // done: what it gave
    std::set<RequestId> others = {};
  };
  // Keeps its answer, if it has one, before its door releases it.
  Landing land(const Finished& finished);
  void tell_others(const std::shared_ptr<LiveService>& service, const Landing& landing);
  // Its client has gone, or it has ended without an outcome.
  void leave(LiveRequest& request);

 private:
  Loop& loop_;
  LiveRequests& requests_;
  Step step_;
  RequestDigest digest_;
};

// What was decided while this gateway ran, and while the one before did (core_choices.cc).
class Choices {
 public:
  explicit Choices(const CoreOptions& options);
  // A service that has just come: as flags say, or as it was. A line to say where it was otherwise
  // than a new one is.
  std::string begin(LiveService& service);
  // The same of a pipeline.
  void begin_pipeline(const std::string& name);
  void load_pipeline(std::string_view name, bool load);
  bool loaded_pipeline(std::string_view name) const { return !unloaded_pipelines_.contains(name); }
  // Tells it where it is otherwise than what was told.
  void tell(const Services& services);

 private:
  const CoreOptions& options_;
  std::map<std::string, actuate::ServiceChoice, std::less<>> before_;  // of those that did not come
  std::set<std::string, std::less<>> unloaded_pipelines_;
  actuate::GatewayChoices told_;
};

class Pipelines;
class WorkerDesk;

struct Core::Impl {
  Impl(Loop& the_loop, CoreOptions the_options, std::function<void(const std::string&)> the_say);

  // ---- services
  void serve(const std::vector<ServedService>& wanted);
  void remove(LiveService& service);
  std::shared_ptr<LiveService> find(std::string_view name) const;
  void step(const std::shared_ptr<LiveService>& service);
  void finish(const Finished& finished);

  // ---- requests
  tl::expected<RequestId, Denial> admit(const RequestHead& head);
  void submit(RequestId id, Completion completion);
  void release(RequestId id);
  // `wanted`, by row: slots that are set apart for it. Where they are free, and of its service.
  bool claim(RequestId id, int rows, std::span<const PoolSlot> wanted = {});
  void copy_to_canary(const LiveRequest& asked);
  void doubt_senders(const std::vector<Item>& had);

  void look_after(Nanos now);

  Loop& loop;
  CoreOptions options;
  Choices choices;
  std::function<void(const std::string&)> say;
  bool closed = false;
  Services services;
  std::map<std::string, std::string, std::less<>> sets;  // whose set a model is of
  LiveRequests requests;
  Senders senders;
  Keys keys;
  CacheDesk desk;
  std::unique_ptr<WorkerDesk> workers;
  std::unique_ptr<Pipelines> pipelines;
  JointDoors joint_doors;
  std::vector<std::shared_ptr<Joints>> retired;  // some of its slots are in use still
  std::unique_ptr<Loop::Timer> housekeeping;
};

}  // namespace partita::serve
