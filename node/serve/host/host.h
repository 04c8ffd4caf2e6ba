// Host: keeps a gateway's core in step with a state directory. Follows assignment.json, which apply
// replaces, and peers.json, which the agent of a fleet's node replaces; writes gateway.json, which
// apply and the workers' supervisor read, and what is to be kept for the next gateway. Lives on the
// loop's thread, looks kLooksPerSecond times a second, and writes on a thread of its own: a disk
// that is slow to write must not hold up requests.
#pragma once

#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "act/assignment.h"
#include "act/gateway_peers.h"
#include "act/gateway_state.h"
#include "act/workers_state.h"
#include "base/files.h"
#include "base/processes.h"
#include "serve/engines/engine_pool.h"
#include "serve/gateway/core.h"
#include "serve/peers/peer_pool.h"

namespace partita::serve {

inline constexpr int kLooksPerSecond = 20;

// What the gateway serves by that assignment with workers of its own, by name: all but language
// models. One that is wanted and has no segments is among them: what is asked of it is refused, and
// counted.
std::vector<ServedService> served_by(const actuate::Assignment& assignment);

// Language models that nobody assigned, and engines that nobody here supervises.
struct GivenEngines {
  std::vector<plan::Terms> services = {};
  std::map<std::string, std::vector<std::string>> urls = {};  // of engines, by service
};
// The language models of the assignment, with the workers that the supervisor runs for them, and
// those given: a service that is only given URLs has no promise.
std::vector<TokenService> token_services_by(const actuate::Assignment& assignment,
                                            const actuate::WorkersState& workers,
                                            const GivenEngines& given);
// As of a service with workers.
ServiceView view_of(const EngineService& service);

// What became of the requests of each service of late, by name.
using Recents = std::map<std::string, actuate::RecentRequests>;
void note_requests(Recents& recents, const std::vector<ServiceView>& services, double now_s);

// What became of a service's requests, as gateway.json says it.
actuate::GatewayRequests requests_of(const ServiceView& service, const Recents& recents);

// What is asked for in vain of late, by counts that only grow.
std::vector<actuate::Uncarried> uncarried_of(Recents& recents,
                                             const std::map<std::string, long>& counts,
                                             double now_s);

// What it says of itself. `self` and `written_s` are filled in by the caller.
actuate::GatewayState state_of(const Core& core, const EnginePool& engines,
                               const actuate::Assignment& assignment, const Recents& recents);

struct HostDoors {
  Loop& loop;
  Core& core;
  EnginePool& engines;
  Files& files;
  Processes& processes;
  std::string state_dir;
  std::function<void(const std::string&)> say;  // a line each
  GivenEngines given = {};
  PeerPool* peers = nullptr;  // told who there is, by peers.json; null: nothing is handed over
};

class Host {
 public:
  // Begins to follow; everything in `doors` must outlive it.
  explicit Host(HostDoors doors);
  // Says no more, and removes gateway.json: the gateway ends.
  ~Host();
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  const actuate::Assignment& assignment() const { return assignment_; }
  // Writes choices.json, for the next gateway.
  void keep(const actuate::GatewayChoices& choices);

 private:
  void look();
  void follow();
  void look_at_workers();
  void look_at_peers();
  std::vector<ServiceView> views() const;
  void write();
  void write_soon(const std::string& path, std::string text);
  void write_what_comes(const std::stop_token& stop);
  void once(const std::string& complaint);

  HostDoors doors_;
  const std::string assignment_path_, workers_path_, peers_path_;
  Loop::Timer looking_, writing_;
  actuate::Assignment assignment_;
  actuate::WorkersState workers_ = {};  // where the assignment has language models
  std::string followed_, workers_text_, peers_text_, said_, identity_;
  Recents recents_, uncarried_;
  // Of the writing thread, under the lock.
  std::mutex lock_;
  std::condition_variable_any changed_;
  std::map<std::string, std::string> to_write_;  // by path
  std::jthread writer_;
};

}  // namespace partita::serve
