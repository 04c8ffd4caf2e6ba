#include "control/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "act/gateway_state.h"
#include "base/hash.h"
#include "base/unicode.h"
#include "control/loop_work.h"
#include "forms/serving_forms.h"

namespace partita::control {
namespace {

constexpr std::int64_t kForecastsKeptMs = 10 * kMinuteMs;

std::int64_t ms_of(double seconds) { return static_cast<std::int64_t>(seconds * 1000); }

// Names come from a driver and may hold any byte.
device::NodeState printable_state(device::NodeState state) {
  const auto clean = [](std::string& text) { text = utf8(printable(text)); };
  for (device::GpuState& gpu : state.gpus) {
    clean(gpu.name);
    for (device::Holder& one : gpu.holders) clean(one.name);
    for (device::Instance& instance : gpu.instances)
      for (device::Holder& one : instance.holders) clean(one.name);
  }
  return state;
}

}  // namespace

const char* to_string(NoticeKind kind) {
  switch (kind) {
    case NoticeKind::failed_change:
      return "failed_change";
    case NoticeKind::given_up_worker:
      return "given_up_worker";
    case NoticeKind::slo_risk:
      return "slo_risk";
    case NoticeKind::approval:
      return "approval";
    case NoticeKind::health:
      return "health";
    case NoticeKind::drift:
      return "drift";
    case NoticeKind::damaged_file:
      return "damaged_file";
    case NoticeKind::other:
      return "other";
  }
  return "?";
}

Loop::Loop(World world, AgentMemory memory, long changes)
    : work_(std::make_unique<Work>(std::move(world), std::move(memory), changes)) {}
Loop::~Loop() = default;
Loop::Loop(Loop&&) noexcept = default;
Loop& Loop::operator=(Loop&&) noexcept = default;

Deeds Loop::step(std::int64_t now_ms, const Seen& seen) { return work_->step(now_ms, seen); }
const Snapshot& Loop::snapshot() const { return work_->snapshot(); }
void Loop::power_is_back() { work_->power_is_back(); }
const AgentMemory& Loop::memory() const { return work_->memory(); }
bool Loop::glance(std::int64_t now_ms, const ServersSeen& servers) const {
  return work_->glance(now_ms, servers);
}
std::shared_ptr<const std::vector<BatchInfo>> Loop::batches() const { return work_->batches(); }
Result<ChangeNow> Loop::preview(const std::string& text) const { return work_->preview(text); }

Loop::Work::Work(World world, AgentMemory memory, long changes)
    : world_(std::move(world)), memory_(std::move(memory)) {
  memory_.changes = std::max(memory_.changes, changes);
  if (!memory_.mode_set) memory_.mode = world_.settings.mode;
  load_services();
  meters_.begin(services_, memory_.forecasts);
}

Deeds Loop::Work::step(std::int64_t now_ms, const Seen& seen) {
  deeds_ = {};
  now_ = std::max(now_, now_ms);
  wake_ms_ = now_ + ms_of(world_.settings.look_s);
  if (!begun_) begin();
  look(seen);
  hear_ends(seen);
  read_services_file(seen);
  see_energy(seen);
  measure(seen);
  watch_health(seen);
  watch_workers(seen);
  hear_batches(seen);
  hear_power(seen);
  for (const Asked& asked : seen.asked) deeds_.replies.push_back(answer(asked));
  watch_apply(seen);
  decide();
  lend();
  set_power(seen);
  judge_services_now();
  show(seen);
  const bool learned = now_ - kept_ms_ >= kForecastsKeptMs;
  if (learned) memory_.forecasts = meters_.known();
  if (learned || !(memory_ == kept_)) {
    memory_.forecasts = meters_.known();
    kept_ = memory_;
    kept_ms_ = now_;
    deeds_.remember = memory_;
  }
  deeds_.next_look_ms = wake_ms_;
  return std::exchange(deeds_, {});
}

void Loop::Work::begin() {
  begun_ = true;
  kept_ms_ = now_;
  std::string text = fmt::format("mode {}", to_string(mode()));
  if (memory_.target)
    text += fmt::format(", change {} is in force{}", memory_.target->change,
                        memory_.target->done ? "" : " and not done");
  record(history::EventKind::started, {.cause = "the agent begins", .detail = text});
}

void Loop::Work::look(const Seen& seen) {
  node_known_ = seen.state && seen.assignment && seen.journal;
  gateway_ = seen.gateway;
  servers_ = seen;
  if (!node_known_) {
    const Error& error = !seen.state        ? seen.state.error()
                         : !seen.assignment ? seen.assignment.error()
                                            : seen.journal.error();
    doing_ = "the node cannot be read, so nothing is changed: " + to_string(error);
    blind_ = doing_;
    tell(NoticeKind::health, "read", "", doing_);
    return;
  }
  untell("read");
  blind_.clear();
  node_read_ms_ = now_;
  if (!(raw_state_ == *seen.state)) {
    raw_state_ = *seen.state;
    state_ = printable_state(*seen.state);
  }
  assignment_ = *seen.assignment;
  journal_ = *seen.journal;
}

void Loop::Work::read_services_file(const Seen& seen) {
  if (!seen.services_file || *seen.services_file == memory_.services_file) return;
  const auto parsed = forms::parse_services_file("services", *seen.services_file);
  if (!parsed) {
    tell(NoticeKind::other, "services_file", "",
         "the services file is not taken: " + to_string(parsed.error()));
    return;
  }
  untell("services_file");
  memory_.services_file = memory_.services = *seen.services_file;
  memory_.services_by = "file";
  load_services();
  meters_.begin(services_, meters_.known());
  tried_.clear();
  record(history::EventKind::desired,
         {.user = "file",
          .cause = "the services file was changed",
          .detail = fmt::format("{} services are wanted", services_.size()),
          .documents = {{"desired", memory_.services}}});
}

void Loop::Work::load_services() {
  services_.clear();
  survive_ = 0;
  if (memory_.services.empty()) return;
  auto parsed = forms::parse_services_file("services", memory_.services);
  if (!parsed) return;
  services_ = std::move(parsed->services);
  std::ranges::sort(services_, {}, &plan::Service::name);
  survive_ = world_.settings.survive >= 0 ? world_.settings.survive : parsed->survive;
}

std::string Loop::Work::services_key() const {
  return fmt::format("{:016x}", text_hash(memory_.services));
}

void Loop::Work::measure(const Seen& seen) {
  // What a gateway that hangs said last is no sign that nothing comes any more.
  if (!seen.gateway || seen.gateway_age_s > actuate::kGatewayFreshS) return meters_.see_nothing();
  const auto age_ms = static_cast<std::int64_t>(seen.gateway_age_s * 1000);
  meters_.see(seen.loads, local() - age_ms, world_.settings.forecast);
  if (!meters_.minute_ended()) return;
  const auto add = [&](const char* metric, const std::string& subject, double value) {
    deeds_.measure.push_back({now_, metric, subject, value});
  };
  for (const plan::Service& service : services_) {
    const Meters::Reading reading = meters_.reading(service.name, local());
    if (reading.rate) add("rate_rps", service.name, *reading.rate);
    if (reading.p99_ms) add("p99_ms", service.name, *reading.p99_ms);
    if (reading.attainment) add("attainment", service.name, *reading.attainment);
    if (const auto rate = promised(service.name)) add("planned_rps", service.name, *rate);
  }
  if (seen.sample)
    for (const telemetry::GpuSample& gpu : seen.sample->gpus)
      if (gpu.power) add("watts", gpu.uuid, gpu.power->value);
  for (const auto& [tenant, draw] : energy_.draws()) add("watts", tenant, draw.watts);
  if (!node_known_) return;
  int used = 0, instances = 0;
  for (const device::GpuState& gpu : state_.gpus) {
    used += gpu.instances.empty() ? 0 : 1;
    instances += static_cast<int>(gpu.instances.size());
  }
  add("gpus", "", used);
  add("instances", "", instances);
}

void Loop::Work::record(history::EventKind kind, history::Event event) {
  event.time_ms = now_;
  event.kind = kind;
  if (event.user.empty()) event.user = "agent";
  deeds_.record.push_back(std::move(event));
}

void Loop::Work::tell(NoticeKind kind, const std::string& key, const std::string& subject,
                      const std::string& sentence, long change) {
  if (!told_.emplace(key, sentence).second) return;
  constexpr std::size_t kNotices = 20;
  snapshot_.notices.insert(snapshot_.notices.begin(), sentence);
  if (snapshot_.notices.size() > kNotices) snapshot_.notices.resize(kNotices);
  deeds_.notify.push_back({kind, subject, sentence, change});
}

void Loop::Work::over(const std::string& key) {
  const auto told = told_.find(key);
  if (told == told_.end()) return;
  std::erase(snapshot_.notices, told->second);
  told_.erase(told);
}

}  // namespace partita::control
