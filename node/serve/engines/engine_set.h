// EngineSet: the engines of a service: which there are, which are ready, and what happens to
// requests of one that does not answer. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/http/http_stream.h"
#include "plan/admission.h"
#include "plan/terms.h"
#include "serve/engines/engine_call.h"
#include "serve/engines/engine_replica.h"
#include "serve/openai/token_metrics.h"

namespace partita::serve {

// tokens: by what of the promises is used up; the others are what it is measured against.
enum class Routing : std::uint8_t { tokens, round_robin, least_requests };

struct EngineOptions {
  Routing routing = Routing::tokens;
  bool shed = true;                              // refuse what would miss its TTFT
  int queue_limit = plan::kDefaultQueueLimit;    // requests of a service that wait
  std::int64_t stream_idle_ns = 60'000'000'000;  // between two events of a stream, at most
  // What was measured, by model. Of whole GPUs `mig_profile` is that of the largest instance.
  profile::TokenTable engines = {};
  TlsWishes tls = {};
};

// What services share.
struct EngineDesk {
  Loop& loop;
  const EngineOptions& options;
  std::map<std::string, KeyUse> keys = {};  // bounded by the tokens that there are
  std::function<void()> changed = {};       // an engine came or went
  std::function<void(const std::string&)> say = {};
  std::vector<std::shared_ptr<EngineCall>> buried = {};
  bool closed = false;
};

class EngineSet {
 public:
  using List = std::vector<std::shared_ptr<EngineReplica>>;

  // `changed`: one became ready, or is so no more. Both outlive it.
  EngineSet(EngineDesk& desk, std::function<void()> changed)
      : desk_(desk), changed_(std::move(changed)) {}
  EngineSet(const EngineSet&) = delete;
  EngineSet& operator=(const EngineSet&) = delete;

  // From now on; those that stay are not disturbed.
  void serve(const plan::Terms& terms, const std::vector<EngineAddress>& wanted);
  void tick(std::int64_t now);
  const List& here() const { return here_; }
  const List& leaving() const { return leaving_; }  // taken away, with requests still
  bool ready() const;
  bool gone() const;            // all are, and nobody is to be waited for
  int running() const;          // requests that they have
  double capacity_rps() const;  // as planned, of those that are ready
  std::optional<double> kv_cache_usage() const;  // of the fullest of those that say it
  std::vector<EngineSnapshot> shown() const;

 private:
  void add(const plan::Terms& terms, const EngineAddress& address);
  void lost(EngineReplica& replica, bool dead);
  EngineReplica::Known known(const std::string& model, const EngineAddress& address);

  EngineDesk& desk_;
  std::function<void()> changed_;
  List here_ = {}, leaving_ = {};
  // By profile, GPUs and configuration.
  std::map<std::tuple<std::string, int, std::string>, std::shared_ptr<EngineFactors>> factors_ = {};
};

}  // namespace partita::serve
