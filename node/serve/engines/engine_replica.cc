#include "serve/engines/engine_replica.h"

#include <algorithm>
#include <utility>

#include "serve/oip/json_scan.h"

namespace partita::serve {
namespace {

constexpr const char *kModelsPath = "/v1/models", *kMetricsPath = "/metrics";
constexpr std::size_t kMostModels = 64;
constexpr std::size_t kMostProbeBody = 1u << 20;

std::size_t prefix_blocks(const std::vector<const profile::TokenEngine*>& known) {
  if (known.empty()) return kDefaultPrefixBlocks;
  std::int64_t blocks = 0;
  for (const profile::TokenEngine* one : known) blocks = std::max(blocks, one->spec.blocks);
  const std::int64_t tokens = blocks * profile::kBlockTokens;  // about four characters each
  return static_cast<std::size_t>(std::clamp<std::int64_t>(
      tokens * 4 / static_cast<std::int64_t>(kPrefixBytes), 1, kDefaultPrefixBlocks));
}

}  // namespace

Result<std::shared_ptr<EngineReplica>> EngineReplica::make(Loop& loop, EngineAddress address,
                                                           const TlsWishes& tls,
                                                           const Known& known) {
  auto url = TRY(parse_url_prefix("engine", address.url));
  if (url.path.ends_with("/v1")) url.path.resize(url.path.size() - 3);
  auto dialer = TRY(HttpDialer::to(url, tls));
  return std::shared_ptr<EngineReplica>(
      new EngineReplica(std::move(address), std::move(url), {loop, std::move(dialer)}, known));
}

EngineReplica::EngineReplica(EngineAddress where, Url parsed, EngineLines connections,
                             const Known& known)
    : address(std::move(where)),
      url(std::move(parsed)),
      lines(std::move(connections)),
      guess(known.engines, address.sequences, known.factors),
      prefixes(prefix_blocks(known.engines)),
      heard_(lines.loop.awake_ns()) {}

EngineReplica::~EngineReplica() = default;

const char* EngineReplica::state() const {
  if (leaving_) return "leaving";
  return ready_ ? "ready" : was_ready_ ? "silent" : "starting";
}

void EngineReplica::tick(std::int64_t now) {
  if (leaving_) return;
  if (asking_) {
    if (lines.loop.awake_ns() - probe_began_ < kProbePatience) return;
    probe_->close();
    asking_ = false;
    if (asked_ == Asked::metrics)
      has_metrics_ = false;  // it says nothing of how it is
    else
      silent(false);
  }
  if (now >= next_probe_) ask(now);
  if (!ready_ && !dead_told_ && heard_ago() >= kEngineDead) {
    dead_told_ = true;
    if (ears_.dead) ears_.dead();
  }
}

void EngineReplica::suspect() {
  if (asking_ || leaving_) return;
  metrics_asked_ = Loop::now_ns();  // they can wait
  ask(Loop::now_ns());
}

void EngineReplica::ask_names() {
  if (Loop::now_ns() - names_asked_ < kNamesEvery) return;
  names_old_ = true;
  next_probe_ = 0;
  suspect();
}

void EngineReplica::note_answered(const std::string& path) {
  if (std::ranges::count(answered_, path) == 0) answered_.push_back(path);
}

bool EngineReplica::answers_others(const std::string& path) const {
  return !answered_.empty() && std::ranges::count(answered_, path) == 0;
}

void EngineReplica::leave() { leaving_ = true; }

// Not from inside of the probe that goes.
void EngineReplica::ask(std::int64_t now) {
  probe_began_ = lines.loop.awake_ns();
  next_probe_ = now + kProbeEvery;
  asking_ = true;
  probe_status_ = 0;
  probe_body_.clear();
  asked_ = Asked::health;
  if (ready_ && (models.empty() || names_old_)) {
    asked_ = Asked::names;
    names_asked_ = now;
  } else if (ready_ && now - metrics_asked_ >= (has_metrics_ ? kMetricsEvery : kMetricsAgain)) {
    asked_ = Asked::metrics;
    metrics_asked_ = now;
    next_probe_ = 0;  // its health behind it
  }
  const std::string path = asked_ == Asked::names     ? kModelsPath
                           : asked_ == Asked::metrics ? kMetricsPath
                                                      : probed_path_;
  const auto more = [this](HttpResponse& answer) {
    probe_status_ = answer.status();
    probe_body_ += answer.take_body();
    if (probe_body_.size() > kMostProbeBody) probe_body_.clear();
  };
  const auto ended = [this](std::string_view why) {
    asking_ = false;
    if (asked_ == Asked::metrics) return read_metrics();
    if (!why.empty()) return silent(true);
    if (asked_ == Asked::names)
      read_models();
    else
      answered(probe_status_);
  };
  probe_ = std::make_unique<EngineLink>(lines, request_head("GET", url, path) + "\r\n",
                                        std::make_shared<const std::string>(),
                                        EngineLink::Ends{more, ended});
  probe_->start();
}

void EngineReplica::answered(int status) {
  heard_ = lines.loop.awake_ns();
  if (status == 404 || status == 405 || status == 501) {
    probed_path_ = kModelsPath;  // it has no /health
    next_probe_ = 0;
    return;
  }
  if (status != 200) return silent(true);
  dead_told_ = false;
  if (std::exchange(ready_, true)) return;
  was_ready_ = true;
  prefixes.clear();  // one that was away may have been started anew
  metrics_asked_ = -kMetricsAgain;
  metrics_ = {};
  models.clear();
  next_probe_ = 0;  // asks what it calls its models
  if (ears_.changed) ears_.changed();
}

void EngineReplica::read_models() {
  heard_ = lines.loop.awake_ns();
  names_old_ = false;
  std::vector<std::string> read;
  JsonScan scan(probe_body_);
  if (scan.peek() == '{') {
    scan.object([&](const std::string& key) {
      if (key != "data" || scan.peek() != '[') {
        scan.skip();
        return;
      }
      scan.array([&] {
        scan.object([&](const std::string& part) {
          if (part == "id" && scan.peek() == '"' && read.size() < kMostModels)
            read.push_back(scan.string());
          else
            scan.skip();
        });
      });
    });
  }
  if (!read.empty()) models = std::move(read);
  if (models.empty()) models.emplace_back();  // it does not say
}

void EngineReplica::read_metrics() {
  constexpr int kFine = 200;
  metrics_ = probe_status_ == kFine ? read_engine_metrics(probe_body_) : EngineMetrics{};
  has_metrics_ = metrics_.kv_cache_usage.has_value();
  metrics_read_ = Loop::now_ns();
  sent_since_ = 0;
}

std::optional<double> EngineReplica::kv_cache_usage(std::int64_t now) const {
  return now - metrics_read_ < kMetricsFresh ? metrics_.kv_cache_usage : std::nullopt;
}

std::optional<double> EngineReplica::kv_tokens_free(std::int64_t now) const {
  const auto usage = kv_cache_usage(now);
  if (!usage || !metrics_.kv_tokens) return std::nullopt;
  return (1 - *usage) * *metrics_.kv_tokens - sent_since_;
}

void EngineReplica::silent(bool gone) {
  gone_ = gone;
  if (!std::exchange(ready_, false)) return;
  if (ears_.changed) ears_.changed();
}

}  // namespace partita::serve
