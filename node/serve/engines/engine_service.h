// EngineService: a language model: who is let in, who waits, where a request goes, and what came of
// all. Requests go where they use up least of what is promised: TTFT, behind what is to be computed
// there and with what of the prompt is cached there, and TPOT, beside those that decode there;
// among equals to who has fewest. One that would miss its TTFT is refused, but where an engine has
// nothing to do: what is expected there may be wrong, and nobody learns from a refusal. Where all
// engines have as many requests as they may, it waits by priority: in the order in which they would
// have come, had one of priority p come p promised TTFTs earlier, so that nobody waits for ever;
// where no TTFT is promised, keys take turns among those of one priority.
// Who is let in while more comes than is carried: EngineShares. Loop thread only. Limits:
// EngineOptions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "plan/terms.h"
#include "plan/token_room.h"
#include "serve/engines/engine_call.h"
#include "serve/engines/engine_set.h"
#include "serve/engines/engine_shares.h"
#include "serve/openai/token_metrics.h"
#include "serve/openai/token_recents.h"

namespace partita::serve {

struct TokenService : plan::Terms {
  std::vector<EngineAddress> engines = {};
  bool operator==(const TokenService&) const = default;
};

// What counts as much as a promise where none is given.
inline constexpr Millis kUsualTtft{1000}, kUsualTpot{50};
// Before the same engines are asked again, where all that there are have refused or dropped it;
// longer with each time.
inline constexpr std::int64_t kAgainPause = 100'000'000;
inline constexpr std::int64_t kLongestWait = 60'000'000'000;  // of one without a promise

Denial over_limit(std::int64_t wait);  // of a key

// Of the last answers; what is taken for it at first counts as one, or as all of them.
struct MeanOut {
  static constexpr int kAnswers = 20;
  double tokens = 100;
  int seen = 1;
  void add(double of_one) {
    seen = std::min(seen + 1, kAnswers);
    tokens += (of_one - tokens) / seen;
  }
};

class EngineService {
 public:
  EngineService(EngineDesk& desk, const TokenService& wanted);
  ~EngineService();
  EngineService(const EngineService&) = delete;
  EngineService& operator=(const EngineService&) = delete;

  // From now on; engines that stay are not disturbed.
  void serve(const TokenService& wanted);
  const plan::Terms& terms() const { return terms_; }
  bool idle() const { return calls_ == 0; }
  int waiting() const { return static_cast<int>(waiting_.size()); }
  const TokenCounters& counters() const { return counters_; }
  const EngineSet& engines() const { return engines_; }
  TokenSnapshot snapshot() const;

  // Lets it in or says why not; the body is one that parse_openai_request takes.
  // Refused: `ask` is what it was.
  tl::expected<std::shared_ptr<EngineCall>, Denial> begin(EngineAsk& ask);
  void uncount();                // the last that was refused here: another node counts it
  void start(EngineCall& call);  // its completion is set
  // Its client has it no more, whether or not it is over.
  void release(std::shared_ptr<EngineCall> call);
  void tick(std::int64_t now);

  // ---- of its calls
  double bytes_per_token(std::int64_t now) const;  // of text, as engines have counted
  void again(EngineCall& call, int tries);         // to another engine, else after a while
  std::int64_t expected_ttft(const EngineCall& call, const EngineReplica& replica,
                             std::int64_t now) const;
  void over(EngineCall& call, const EngineCame& came);
  TokenCounters& counted() { return counters_; }
  const bool sheds;  // else it lets in what comes
  TokenRecents recents = {};
  EngineShares shares = {};
  MeanOut mean_out = {};
  plan::TokenPatience patience = {};

 private:
  enum class Room : std::uint8_t { idle, some, any };  // of engines that are asked for
  std::shared_ptr<EngineReplica> choose(const EngineCall& call, Room room);
  double cost_at(const EngineCall& call, const EngineReplica& replica, std::int64_t now) const;
  std::int64_t expected_wait(const EngineCall& call, std::int64_t now) const;
  std::optional<Denial> refusal(EngineCall& call, std::int64_t now);
  bool has_share(EngineCall& call, std::int64_t expected, std::int64_t most, std::int64_t now);
  bool has_place(const EngineCall& call) const;  // among those that wait, if need be another's
  Denial refused(long TokenFates::*fate, Denial why);
  void enqueue(EngineCall& call);
  void pump();

  EngineDesk& desk_;
  plan::Terms terms_;
  EngineSet engines_;
  std::vector<EngineCall*> waiting_ = {};  // who goes first in front
  TokenCounters counters_ = {};
  MeasuredRatio bytes_per_token_ = {};  // over kFirstBytesPerToken
  std::size_t turn_ = 0;
  long calls_ = 0;
  long TokenFates::*last_refusal_ = &TokenFates::full;
  bool pumping_ = false;
};

// What an engine of it calls the model.
std::string model_at(const EngineService& service, const EngineReplica& replica);
// From an engine, if it went there now: a first token, or all of what is no stream.
std::int64_t expected_time(const EngineService& service, const EngineCall& call,
                           const EngineReplica& replica, std::int64_t now);
// Nothing that the service promises of it is missed yet: its client wants it sooner.
bool may_expire(const EngineService& service, const EngineCall& call, std::int64_t now);
// Calls under way that are on time by the TTFT that is promised.
int on_time(const EngineService& service, std::int64_t now);

}  // namespace partita::serve
