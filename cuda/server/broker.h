// Broker: the server's own process: accepts connections, reads their hellos, lets BrokerBrain
// decide, and hands connections to workers. It understands nothing else that clients send.
// Writes a state file (`partita remote sessions`) and metrics. Single-threaded, but for the thread
// that makes parts on demand.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/files.h"
#include "server/messages.h"
#include "server/part_maker.h"
#include "server/server_state.h"
#include "server/shelf.h"
#include "server/worker.h"
#include "wire/net/frames.h"

namespace partita::remote::server {

struct BrokerOptions {
  WorkerOptions worker = {};
  std::vector<Part> parts = {};  // names and shapes shorter than StartMessage's
  // Begins what parts need beside them (daemons), then too; it lives as long as the broker.
  std::function<Result<std::shared_ptr<void>>()> begin_beside = {};
  // Opens what makes parts on demand, once the zygote is a process of its own; empty: nothing is.
  std::function<Result<std::unique_ptr<PartMaker>>()> open_maker = {};
  BrokerLimits limits = {};
  std::string token = {};
  std::string backend = {};       // for the state file
  std::string state_file = {};    // empty: none
  std::string metrics_file = {};  // empty: none
  std::size_t greeting = 128;     // connections whose hello has not come: beyond it the oldest go
  Nanos hello_patience = std::chrono::seconds(5);
  Nanos ask_again = std::chrono::seconds(5);      // for a part that could not be made
  Nanos stop_patience = std::chrono::seconds(2);  // before a worker that should end is killed
};

class Broker {
 public:
  // Opens what it listens on; a socket that a dead server left is cleared away.
  static Result<std::unique_ptr<Broker>> open(const std::string& address, BrokerOptions options,
                                              Files& files);
  ~Broker();
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  std::string address() const { return listener_->address(); }
  // Serves until `stop` is readable, then ends all sessions.
  Result<void> run(int stop);

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Client {
    Listener::Accepted from = {};
    std::unique_ptr<FrameReader> reader = {};
    Time due = {};  // of its hello
    bool greeted = false;
    std::uint32_t request = 0;
    Wanted wanted = {};
  };
  struct Worker {
    Descriptor control{-1}, shelf{-1};
    std::string client = {};  // whom it serves
    std::size_t part = 0;
    Time kill_at = {};  // when it was told to stop
    bool serving = false;
    bool stopping = false;
    SessionEntry entry = {};
  };
  Broker(BrokerOptions options, Files& files, Zygote zygote, std::unique_ptr<PartMaker> maker,
         std::shared_ptr<void> beside);
  void wait(int stop);
  void accept();
  void make_room_to_greet();
  void listen_to_clients();
  bool hear(ClientId id, Client& client);
  bool take_hello(ClientId id, Client& client, const Frame& frame);
  void listen_to_workers();
  bool hear(WorkerId id, Worker& worker);
  void hear_shelf(Worker& worker);
  void tell(const broker::Event& event);
  void act(const broker::Start& start);
  void act(const broker::Give& give);
  void act(const broker::Place& place);
  void act(const broker::Deny& deny);
  void act(const broker::Stop& stop);
  void act(const broker::Make& make);
  void act(const broker::Unmake& unmake);
  void listen_to_maker();
  void refuse(Client& client, Status status, const std::string& reason);
  void stop_late_ones();
  void publish();
  ServerState state() const;

  const BrokerOptions options_;
  Files& files_;
  Zygote zygote_;
  std::shared_ptr<void> beside_;
  std::unique_ptr<PartMaker> part_maker_;  // none: nothing is made on demand
  BrokerBrain brain_;
  SharedThings shared_;
  std::unique_ptr<Listener> listener_;
  std::unique_ptr<MakerThread> maker_;
  Time ask_again_ = Time::max();
  std::map<ClientId, Client> clients_;
  std::map<WorkerId, Worker> workers_;
  ClientId next_client_ = 1;
  std::uint64_t next_session_ = 1;
  bool changed_ = true;
  Time published_ = {};
  std::string identity_;
  std::string problem_;  // why a worker could not begin, the last one
  ServerTotals totals_;
};

}  // namespace partita::remote::server
