// RecentRequests: from counters that only grow to what became of the requests of the last seconds.
// The gateway keeps one per service and says in gateway.json what it knows (gateway_state.h), so
// that whoever reads that file once can tell how a service does now. Values, no clock; keeps what
// is needed for kLongestStretch and the objective, at most one entry per kFinest.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace partita::actuate {

inline constexpr double kShortStretch = 3, kMiddleStretch = 15, kLongStretch = 60;  // seconds

// Requests since somebody began to count.
struct RequestCounts {
  double asked = 0;      // answered or not, refused ones too
  double in_slo = 0;     // answered in time
  double missed = 0;     // not in time, whatever became of them, as far as is known
  double withdrawn = 0;  // by whoever asked, or asked wrongly, before they had to be answered
};

// What became of those of a stretch of time that ends now.
struct RequestStretch {
  double seconds = 0;  // so long it is; 0: nobody has counted yet
  double asked = 0;    // that came in it
  double due = 0;      // that were to be answered in it, or were refused
  double in_slo = 0;   // of them answered in time
  double missed() const { return due - in_slo; }
  bool operator==(const RequestStretch&) const = default;
};

// Requests of a set of models whose model had to be loaded first, since the gateway has the set.
struct ColdStarts {
  long requests = 0;  // that were answered
  long in_time = 0;   // of them, within what is promised
  double promised_ms = 0;
  double mean_ms = 0;  // from head to answer
  bool operator==(const ColdStarts&) const = default;
};

// A step of a pipeline that fans out: it was asked for so many rows by so many requests of the
// pipeline that came so far, since the gateway has the pipeline.
struct FanOutCounts {
  int step = 0;
  long requests = 0, rows = 0;
  bool operator==(const FanOutCounts&) const = default;
};

// What a language model did in the last kTrafficStretch, by the answers that ended in it.
inline constexpr double kTrafficStretch = 30;  // seconds
struct TokenTraffic {
  double in_per_s = 0, out_per_s = 0;  // tokens
  double mean_in = 0, mean_out = 0;    // of an answer
  std::optional<double> ttft_p50_ms = {}, ttft_p99_ms = {}, tpot_p50_ms = {}, tpot_p99_ms = {};
  std::optional<double> kv_cache_usage = {};  // now, of the fullest of the engines that say it
  bool operator==(const TokenTraffic&) const = default;
};

// What a key had of a service since its gateway began to count.
struct KeyCounts {
  std::string key;
  double answered = 0;  // requests
  double refused = 0;   // for its limits, or the shares of others
  double bytes = 0;     // of requests that were let in
  double tokens = 0;    // of a language model: of prompts and answers
  bool operator==(const KeyCounts&) const = default;
};
inline constexpr std::size_t kMostKeysTold = 64;  // of a service, the last of which is
inline constexpr const char* kOtherKeys = "others";
// Those that had most, by name; the others together.
std::vector<KeyCounts> told_keys(std::vector<KeyCounts> all);

class RecentRequests {
 public:
  // Counters at a time, which never goes back; between two times they grow evenly.
  void note(double time_s, const RequestCounts& counts);
  // A request is due `slo_s` after it came: one that waits for longer is missed, whether or not
  // anybody has said so.
  RequestStretch last(double seconds, double slo_s) const;
  // Bounded, however often and long it is noted.
  std::size_t entries() const { return entries_.size(); }

 private:
  struct Entry {
    double time_s = 0;
    RequestCounts counts;
  };
  RequestCounts at(double time_s) const;

  std::deque<Entry> entries_;  // by time
};

}  // namespace partita::actuate
