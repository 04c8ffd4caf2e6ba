#include "agent/agent_queue.h"

#include <future>
#include <utility>

#include "node/lease_doors.h"

namespace partita::cli {
namespace {

constexpr std::chrono::milliseconds kLookForEnd{100};

}  // namespace

// Asks the agent's thread, between its changes, and waits.
class AgentQueue::Instances final : public queue::InstanceDoor {
 public:
  Instances(const Doors& doors, const std::atomic<bool>& ending)
      : doors_(doors),
        ending_(ending),
        leased_(lease_doors(doors.context, doors.open, processes_), doors.log,
                [] { return Result<FileLock>(FileLock()); }) {}
  bool at_once = true;  // nobody else uses the driver

  Result<std::string> create(const queue::Place& place) override {
    return on_agent<Result<std::string>>([place](auto& leased) { return leased.create(place); });
  }
  Result<void> destroy(const queue::Place& place) override {
    return on_agent<Result<void>>([place](auto& leased) { return leased.destroy(place); });
  }
  Result<telemetry::Sample> sample(Seconds at) override {
    return on_agent<Result<telemetry::Sample>>([at](auto& leased) { return leased.sample(at); });
  }
  Result<Seen> look() override {
    if (at_once) return leased_.look();
    return on_agent<Result<Seen>>([](auto& leased) { return leased.look(); });
  }

 private:
  template <class Answer, class Ask>
  Answer on_agent(Ask ask) {
    const auto promise = std::make_shared<std::promise<Answer>>();
    std::future<Answer> answer = promise->get_future();
    doors_.desk.when_idle([this, ask, promise](control::Agent& agent) {
      leased_.close(doors_.closed(agent));
      promise->set_value(ask(leased_));
    });
    while (answer.wait_for(kLookForEnd) != std::future_status::ready) {
      if (ending_) return failed({ErrorCode::environment, "the agent ends", ""});
    }
    return answer.get();
  }

  Doors doors_;
  const std::atomic<bool>& ending_;
  RealProcesses processes_;
  queue::LeasedInstances leased_;
};

Result<std::unique_ptr<AgentQueue>> AgentQueue::start(const Doors& doors,
                                                      const QueueServer::Place& place,
                                                      const QueueServeFlags& flags) {
  std::unique_ptr<AgentQueue> queue(new AgentQueue());
  queue->loop_ = TRY(serve::Loop::make());
  queue->instances_ = std::make_unique<Instances>(doors, queue->ending_);
  queue->server_ =
      TRY(QueueServer::start(doors.context, *queue->loop_, place, flags, *queue->instances_));
  queue->instances_->at_once = false;
  queue->thread_ = std::thread([own = queue.get()] { own->loop_->run(); });
  return queue;
}

AgentQueue::~AgentQueue() {
  ending_ = true;
  if (loop_) loop_->stop();
  if (thread_.joinable()) thread_.join();
}

void AgentQueue::ask(queue::Call call, std::function<void(Result<std::string>)> answer) {
  loop_->post([this, call = std::move(call), answer = std::move(answer)] {
    answer(server_->calls().answer(call));
  });
}

}  // namespace partita::cli
