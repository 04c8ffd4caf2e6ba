// Backend: what the front doors (HTTP, gRPC) need from the gateway's core, and all they know of it.
// Every call is made on the gateway's loop thread and returns at once; a front door with threads of
// its own posts to that loop. Times are nanoseconds.
//
// A request: admit() when its head is there and its size is known, then claim() for the rows whose
// bytes are there or come next, their tensors are written into input(), and when all rows are there
// submit(); when the completion is called with `done`, output() may be read
// until release(). release() is called exactly once for whatever admit() let in, at any time:
// before submit() or before the completion it means that the client has gone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "plan/terms.h"
#include "serve/oip/bind.h"
#include "serve/openai/token_limits.h"
#include "serve/wire/tensor.h"

namespace partita::serve {

using RequestId = std::uint64_t;

struct RequestHead {
  std::string_view service;
  std::string_view model = {};                  // of its set; empty: it is no set
  int items = 1;                                // rows, >= 1
  std::optional<std::int64_t> timeout_ns = {};  // the client's own: an answer after it is useless
  // On the loop's clock: refused where it would be done later; nothing: by the SLO or its timeout.
  std::optional<std::int64_t> done_by = {};
  int priority = 0;                             // higher goes first
  bool idempotent = true;
  bool again = false;  // was let in and given back just now: not one more that was offered
  // Who sends it: its token or address; empty: nobody knows. trusted: its connection had answers,
  // the first of them when.
  std::string_view client = {};
  bool trusted = true;
  std::int64_t trusted_since = 0;
  const KeyLimits* limits = nullptr;  // of its key, for the call alone; null: it has none
  std::uint64_t bytes = 0;            // of its body, as far as that is known
  std::uint64_t sequence = 0;         // whose step it is; 0: of none
  bool sequence_begins = false, sequence_ends = false;
  // W3C trace context, checked, passed on to the worker; parent empty: none.
  std::string_view trace_parent = {}, trace_state = {};
};

// Why a request was not let in, or not answered: the same words for HTTP and gRPC.
struct Denial {
  enum class Kind : std::uint8_t {
    unknown_model,  // 404, NOT_FOUND
    bad_request,    // 400, INVALID_ARGUMENT
    too_large,      // 413, RESOURCE_EXHAUSTED: more items or bytes than could ever be served
    not_ready,      // 503: no worker is ready
    absent,         // 503: the fleet wants it, and no node that answers carries it
    overloaded,     // 503 and Retry-After: queue or memory full
    would_be_late,  // 503 and Retry-After: predicted to miss its deadline
    expired,        // 504, DEADLINE_EXCEEDED
    failed,         // 500: the worker failed, with its message
    no_answer,      // 502: what came from behind is none
    harmful,        // 422: workers died of it
    lost,           // 410, ABORTED: the worker that had its sequence's state is gone
    slowed,         // 429 and Retry-After: its sender did harm, or its key is over a limit
  };
  Kind kind = Kind::failed;
  std::string message;
  std::int64_t retry_after_ns = 0;  // 0: not said
  bool elsewhere = false;           // nothing of it was run, and another node may have room
};

// A piece of a streamed answer; `last` ends it. http_status and headers come with the first, empty
// where there is none. What it points to lives for the call.
struct StreamPiece {
  int http_status = 0;
  std::string_view content_type = {}, retry_after = {};
  std::string_view bytes = {};
  bool last = false;
};

// Called once with a Denial, or once without (done); before that, for openai models, any number of
// times with pieces.
struct Completion {
  std::function<void(std::optional<Denial>)> ended;
  std::function<void(const StreamPiece&)> piece = {};
};

// A sequence that nobody goes on with for so long ends.
inline constexpr std::int64_t kSequenceIdle = 60'000'000'000;

// A request under way of a key; letting go of it ends that.
using KeyHandle = std::shared_ptr<void>;

// Why one goes elsewhere that asks for what is not here, or has no worker here.
Denial unknown_model(const std::string& name);
Denial no_worker(const std::string& service);
// It was let in, and there are no slots for it.
Denial no_memory(const std::string& service);
// What a request of the Open Inference Protocol says of itself; of this model of a set.
RequestHead head_of(const InferRequest& wanted, std::string_view of_set);

// What a gateway keeps of a service's answers, for whoever asks the same again.
struct KeptAnswers {
  plan::CacheTerms terms = {};
  std::string from = {};   // who says so: "services", "--cache", "model"
  std::string unfit = {};  // why none are; empty: they may be
  std::size_t answers = 0, bytes = 0;
};

struct ServiceStatistics {  // as in Triton's statistics extension; nanoseconds, requests, batches
  std::uint64_t success_count = 0, success_ns = 0;
  std::uint64_t fail_count = 0, fail_ns = 0;
  std::uint64_t queue_count = 0, queue_ns = 0;
  std::uint64_t compute_count = 0, compute_ns = 0;
  std::uint64_t inference_count = 0, execution_count = 0, last_inference_ms = 0;
  std::uint64_t hit_count = 0, hit_ns = 0, miss_count = 0, miss_ns = 0;  // of its cache
  std::optional<KeptAnswers> kept = {};
  std::optional<plan::PipelineTerms> pipeline = {};  // its steps, where it is one
};

// A new version of a model beside the one that serves (brain/canary.h).
struct CanaryWish {
  std::string version;
  double share = 0;     // of the model's requests, 0 to 1; 0: no canary any more
  bool shadow = false;  // copies, whose answers are thrown away
};
struct CanaryView {
  CanaryWish wish;
  std::string state = {}, why = {};
  long answers = 0, bad = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::vector<std::string> services() const = 0;
  // Its model as its workers told, or null: no such service, or no worker has told yet.
  virtual const ModelSpec* model(std::string_view service) const = 0;
  virtual bool known(std::string_view service) const = 0;
  virtual bool ready(std::string_view service) const = 0;  // some worker is
  // The service of whose set this model is; empty: of none.
  virtual std::string set_of(std::string_view) const { return ""; }
  virtual bool ready() const = 0;  // all services are
  virtual tl::expected<RequestId, Denial> admit(const RequestHead& head) = 0;
  // The door has refused a request for this service by itself, for want of workers or room: it was
  // asked for all the same.
  virtual void turned_away(std::string_view service) = 0;
  // It was refused here for this reason and another node has it, which counts it, so that this one
  // counts neither the refusal nor that it was asked for.
  virtual void uncount(std::string_view /*service*/, Denial::Kind /*why*/) {}
  // What its key's limits say to a request that another node is to have; where they let it in it is
  // under way as long as the handle lives. `again`: they have let it in before.
  virtual tl::expected<KeyHandle, Denial> key_begun(const RequestHead& /*head*/) { return {}; }
  // Memory for its first `rows` rows; false: there is none now, and nothing has changed.
  virtual bool claim(RequestId request, int rows) = 0;
  virtual std::span<char> input(RequestId request, int item, int tensor) = 0;
  virtual void submit(RequestId request, Completion completion) = 0;
  virtual std::span<const char> output(RequestId request, int item, int tensor) = 0;
  virtual void release(RequestId request) = 0;
  virtual ServiceStatistics statistics(std::string_view service) const = 0;
  virtual std::string metrics() const = 0;  // Prometheus text
  // Whether it takes requests. It takes none once it was unloaded, until it is loaded again; its
  // workers stay. False: no such service.
  virtual bool set_loaded(std::string_view service, bool loaded) = 0;
  virtual bool loaded(std::string_view service) const = 0;
  // Begins anew with it, in place of the one that it had. Else why not.
  virtual std::string set_canary(std::string_view model, const CanaryWish& wish) = 0;
  virtual std::optional<CanaryView> canary(std::string_view model) const = 0;
};

// A model with buckets is one service for each, called "NAME~LENGTH" (profile/buckets.h); NAME is
// the longest of them, until it is known how long the rows of a request are. Then the shortest one
// that is ready and holds them; bad_input, in words for the client, beyond the longest.
bool any_bucket(std::string_view asked, const std::string& service);
Result<std::string> fitting_bucket(const Backend& backend, const std::string& longest,
                                   const ModelSpec& model, const BoundRequest& request);
// A model has the versions of the service that is called as it, and of those called "NAME@VERSION".
// The service that has this version, or where none is said of `name` itself, else of the highest;
// empty: none has.
std::string service_of(const Backend& backend, const std::string& name, std::string_view version);
// The same, and which model of a set is meant, where the service is one; its own name means none.
struct AskedModel {
  std::string service, of_set = {};
};
AskedModel asked_model(const Backend& backend, const std::string& name, std::string_view version);
// Ascending, as numbers where they are some.
std::vector<std::string> versions_of(const Backend& backend, std::string_view name);
struct NameAndVersion {
  std::string name, version;
};
NameAndVersion name_and_version(const Backend& backend, const std::string& service);

}  // namespace partita::serve
