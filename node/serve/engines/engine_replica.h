// EngineReplica: one engine of a service: where it is, whether it is well (asked kProbeEvery, at
// /health, or /v1/models where there is no such), what it calls the model, what it has to do, and
// how full its KV cache is (/metrics, where it has that).
// Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/url.h"
#include "serve/engines/engine_link.h"
#include "serve/openai/engine_guess.h"
#include "serve/openai/engine_metrics.h"
#include "serve/openai/prefix_index.h"

namespace partita::serve {

class EngineCall;

inline constexpr std::int64_t kProbeEvery = 1'000'000'000, kProbePatience = 2'000'000'000;
inline constexpr std::int64_t kNamesEvery = 2'000'000'000;
inline constexpr std::int64_t kMetricsEvery = 1'000'000'000, kMetricsFresh = 3'000'000'000,
                              kMetricsAgain = 30'000'000'000;  // where there were none
inline constexpr std::int64_t kEngineDead = 10'000'000'000;    // silent for so long: its calls end
inline constexpr std::size_t kDefaultPrefixBlocks = 65'536;

// Where an engine is: `url`, and of one that is supervised its place in the assignment, and which
// one is planned there.
struct EngineAddress {
  std::string url;
  std::string device = {};
  int index = 0;
  std::int64_t pid = 0;
  int sequences = 0;  // requests at once, as planned; 0: not said
  double throughput_rps = 0;
  std::string profile = {};        // of the instance; of whole GPUs that of the largest
  int gpus = 1;                    // of the group
  std::string configuration = {};  // profile::EngineName's; empty: not said
  bool operator==(const EngineAddress&) const = default;
};

class EngineReplica {
 public:
  // What it tells: `changed`: ready or not any more; `dead`: for kEngineDead nothing was heard.
  struct Ears {
    std::function<void()> changed, dead;
  };
  // What is known of engines of its kind: what was measured before, of those that it may be, and
  // what since.
  struct Known {
    std::vector<const profile::TokenEngine*> engines = {};
    std::shared_ptr<EngineFactors> factors = {};
  };
  // bad_input for a URL that is none, environment for a host that is unknown.
  static Result<std::shared_ptr<EngineReplica>> make(Loop& loop, EngineAddress address,
                                                     const TlsWishes& tls, const Known& known);
  ~EngineReplica();
  EngineReplica(const EngineReplica&) = delete;
  EngineReplica& operator=(const EngineReplica&) = delete;

  void listen(Ears ears) { ears_ = std::move(ears); }
  void tick(std::int64_t now);  // often: asks when it is time, and gives up what takes too long
  void suspect();               // a connection of it broke: it is asked at once
  void ask_names();             // what it calls its models, anew, every kNamesEvery at most
  // Something of an answer came: a sign of life, whatever its probe says.
  void hear() { heard_ = flowed_ = lines.loop.awake_ns(); }
  bool flows() const { return lines.loop.awake_ns() - flowed_ < kProbePatience; }
  void note_answered(const std::string& path);
  // It has answered requests, and never one for this path.
  bool answers_others(const std::string& path) const;
  void leave();  // gets nothing more; what it has goes on
  bool ready() const { return ready_ && !leaving_; }
  // Nobody is there, or it says that it is not well, or it was silent for kEngineDead; one that is
  // only slow to say how it is may go on.
  bool gone() const { return !ready_ && (gone_ || dead_told_); }
  bool free() const { return ready() && guess.open() < guess.limit(); }
  const char* state() const;
  // Share of its KV cache in use, as it has said of late; nothing: it does not say.
  std::optional<double> kv_cache_usage(std::int64_t now) const;
  // Tokens of KV cache that are free, by what it said and what was sent there since.
  std::optional<double> kv_tokens_free(std::int64_t now) const;
  void sent(int tokens) { sent_since_ += tokens; }  // of a prompt
  std::int64_t heard_ago() const { return lines.loop.awake_ns() - heard_; }

  const EngineAddress address;
  const Url url;
  EngineLines lines;
  EngineGuess guess;
  PrefixIndex prefixes;
  std::vector<std::string> models = {};  // that it says it has
  std::vector<EngineCall*> calls = {};

 private:
  EngineReplica(EngineAddress where, Url parsed, EngineLines connections, const Known& known);
  enum class Asked : std::uint8_t { health, names, metrics };
  void ask(std::int64_t now);
  void answered(int status);
  void read_models();
  void read_metrics();
  void silent(bool gone);

  Ears ears_ = {};
  std::unique_ptr<EngineLink> probe_ = {};
  std::string probed_path_ = "/health";
  int probe_status_ = 0;
  std::string probe_body_ = {};
  std::vector<std::string> answered_ = {};  // paths, of the few that there are
  std::int64_t probe_began_ = 0, next_probe_ = 0, heard_ = 0, names_asked_ = 0;
  std::int64_t flowed_ = -kProbePatience;
  bool ready_ = false, gone_ = false, was_ready_ = false, leaving_ = false, asking_ = false,
       dead_told_ = false;
  bool names_old_ = false;
  Asked asked_ = Asked::health;
  bool has_metrics_ = true;  // as far as is known
  EngineMetrics metrics_ = {};
  std::int64_t metrics_asked_ = 0, metrics_read_ = 0;
  double sent_since_ = 0;  // tokens of prompts, since the metrics were read
};

}  // namespace partita::serve
