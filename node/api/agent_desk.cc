#include "api/agent_desk.h"

#include <utility>

namespace partita::api {

std::vector<control::Inquiry> AgentDesk::take_inquiries() {
  const std::lock_guard held(lock_);
  return std::exchange(inquiries_, {});
}

std::vector<std::function<void(control::Agent&)>> AgentDesk::take_errands() {
  const std::lock_guard held(lock_);
  return std::exchange(errands_, {});
}

std::vector<history::Event> AgentDesk::take_events() {
  const std::lock_guard held(lock_);
  return std::exchange(events_, {});
}

void AgentDesk::publish(const control::Loop& loop) {
  const control::Snapshot& snapshot = loop.snapshot();
  std::function<void()> changed;
  {
    const std::lock_guard held(lock_);
    const bool newer = snapshot.version != snapshot_->version;
    snapshot_ = std::make_shared<const control::Snapshot>(snapshot);
    services_ = loop.memory().services;
    batches_ = loop.batches();
    if (newer) changed = changed_;
  }
  if (changed) changed();
}

void AgentDesk::looked(std::int64_t now_ms) {
  const std::lock_guard held(lock_);
  looked_ms_ = now_ms;
}

// What an agent that does not look any more has said is not known to be so.
std::shared_ptr<const control::Snapshot> AgentDesk::snapshot() {
  const std::lock_guard held(lock_);
  const std::int64_t now = wall_ms_();
  if (looked_ms_ == 0 || now - looked_ms_ <= control::kOldWordMs) return snapshot_;
  return std::make_shared<const control::Snapshot>(control::aged(*snapshot_, looked_ms_, now));
}

std::string AgentDesk::services() {
  const std::lock_guard held(lock_);
  return services_;
}

std::shared_ptr<const std::vector<control::BatchInfo>> AgentDesk::batches() {
  const std::lock_guard held(lock_);
  return batches_;
}

void AgentDesk::ask(control::Asked asked, std::function<void(control::Reply)> answer) {
  {
    const std::lock_guard held(lock_);
    inquiries_.push_back({std::move(asked), std::move(answer)});
  }
  wake_();
}

void AgentDesk::preview(std::string services_text,
                        std::function<void(Result<control::ChangeNow>)> answer) {
  {
    const std::lock_guard held(lock_);
    errands_.emplace_back([text = std::move(services_text), answer = std::move(answer)](
                              control::Agent& agent) { answer(agent.preview(text)); });
  }
  wake_();
}

// A change that is being made goes before: the node is not as it was read until it has ended.
void AgentDesk::when_idle(std::function<void(control::Agent&)> errand) {
  {
    const std::lock_guard held(lock_);
    errands_.emplace_back([this, errand = std::move(errand)](control::Agent& agent) {
      if (agent.applying()) return when_idle(errand);
      errand(agent);
    });
  }
  wake_();
}

void AgentDesk::lease(LeaseCall call, std::function<void(Result<std::string>)> answer) {
  if (!lender_.answer)
    return answer(failed({ErrorCode::not_supported, "this agent lends no instances", ""}));
  when_idle([this, call = std::move(call), answer = std::move(answer)](control::Agent& agent) {
    answer(lender_.answer(call, agent));
  });
}

void AgentDesk::queue(queue::Call call, std::function<void(Result<std::string>)> answer) {
  if (queue_) return queue_(std::move(call), std::move(answer));
  answer(failed({ErrorCode::not_supported,
                 "this agent hosts no queue; `partita agent --host-queue` does", ""}));
}

void AgentDesk::fleet(FleetCall call, std::function<void(Result<std::string>)> answer) {
  if (fleet_) return fleet_(std::move(call), std::move(answer));
  answer(failed(
      {ErrorCode::not_found, "this node is one of no fleet; `partita agent --fleet` is", ""}));
}

Result<std::string> AgentDesk::leases() {
  if (!lender_.list) return failed({ErrorCode::not_supported, "this agent lends no instances", ""});
  return lender_.list(snapshot()->state);
}

void AgentDesk::watch(std::function<void()> changed) {
  const std::lock_guard held(lock_);
  changed_ = std::move(changed);
}

template <class Ask>
auto AgentDesk::with_store(Ask ask) -> decltype(ask(std::declval<history::Store&>())) {
  const std::lock_guard held(store_lock_);
  if (!store_) {
    auto opened = TRY(history::Store::open(history_, history::Access::read));
    store_.emplace(std::move(opened));
  }
  auto answer = ask(*store_);
  if (!answer) store_.reset();  // its file may have been set aside: the next one opens the new one
  return answer;
}

Result<std::vector<history::Event>> AgentDesk::events(const history::EventQuery& query) {
  return with_store([&](history::Store& store) { return store.events(query); });
}

Result<std::vector<history::Bucket>> AgentDesk::series(const history::SeriesQuery& query) {
  return with_store([&](history::Store& store) { return store.series(query); });
}

Result<std::vector<history::Measured>> AgentDesk::latest() {
  return with_store([](history::Store& store) { return store.latest(); });
}

void AgentDesk::keep(history::Event event) {
  {
    const std::lock_guard held(lock_);
    events_.push_back(std::move(event));
  }
  wake_();
}

}  // namespace partita::api
