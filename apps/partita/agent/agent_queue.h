// A queue that an agent hosts: on a thread of its own, its instances made by the agent's, which has
// the node's lock, as leases; so the agent's plans know of them. Tasks outlive both.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <thread>

#include "api/agent_desk.h"
#include "queue/host/instances.h"
#include "queue/queue_server.h"

namespace partita::cli {

class AgentQueue {
 public:
  // All must outlive it, and the desk's agent step, or it must end. `log`: of leases. `closed`:
  // GPUs that nothing is lent of, asked on the agent's thread.
  struct Doors {
    Context& context;
    const OpenDriver& open;
    std::string log;
    api::AgentDesk& desk;
    std::function<std::map<std::string, std::string>(const control::Agent&)> closed;
  };
  // To be called while nobody else uses the driver. The sentence that says where it is: text().
  static Result<std::unique_ptr<AgentQueue>> start(const Doors& doors,
                                                   const QueueServer::Place& place,
                                                   const QueueServeFlags& flags);
  ~AgentQueue();

  // An operation of the queue; any thread, and `answer` is called on the queue's.
  void ask(queue::Call call, std::function<void(Result<std::string>)> answer);
  std::string text() const { return server_->text(); }

 private:
  class Instances;
  AgentQueue() = default;

  std::atomic<bool> ending_ = false;
  std::unique_ptr<serve::Loop> loop_;
  std::unique_ptr<Instances> instances_;
  std::unique_ptr<QueueServer> server_;
  std::thread thread_;
};

}  // namespace partita::cli
