// Daemon: the MPS control daemon of one device (a MIG device or a whole GPU). It outlives this
// object and this process; whoever comes later finds it by its pid file and takes it over. Calls
// block, each at most Options::timeout_ns several times over, and answer ErrorCode::timeout then.
// Thread rule: one call at a time; the Processes door must be its own, because nobody else may ask
// it for exits.
//
// Pitfalls of NVIDIA's side that are handled here: a client that does not find the daemon runs
// without MPS and says nothing (so health() asks the daemon itself, never its files);
// a pipe directory too long for a socket makes a daemon that
// nobody can reach (so it is refused); settings in our environment would leak into the daemon.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/files.h"
#include "base/processes.h"
#include "base/result.h"
#include "drivers/mps/answer.h"
#include "drivers/mps/share.h"

namespace partita::drivers::mps {

// Where the daemon of one device lives.
struct Place {
  std::string device;          // UUID, as in CUDA_VISIBLE_DEVICES
  std::string pipe_directory;  // its sockets and pid file
  std::string log_directory;   // control.log, server.log, and what its start printed
  bool operator==(const Place&) const = default;
};

// The place of a device's daemon below `runtime_directory`. bad_input when the sockets' paths would
// be longer than a socket's address holds (107 bytes).
Result<Place> place_of(const std::string& runtime_directory, const std::string& device);

// What a client of the daemon needs in its environment, so that it finds the daemon and keeps to
// its share.
std::map<std::string, std::string> client_environment(const Place& place, const Share& share);
struct Doors {
  Processes& processes;
  Files& files;
  Clock& clock;
};

struct Options {
  std::string program = "nvidia-cuda-mps-control";
  std::int64_t timeout_ns = 5'000'000'000;
  // How long servers may go on once the daemon was told to quit; whole seconds.
  int quit_grace_s = 1;
};

struct Server {
  Pid pid = 0;
  std::vector<Pid> clients;
  bool operator==(const Server&) const = default;
};
struct Health {
  Pid daemon = 0;               // 0: its pid file cannot be read
  std::vector<Server> servers;  // none before the first client
  bool operator==(const Health&) const = default;
};

class Daemon {
 public:
  Daemon(Doors doors, Place place, Options options = {})
      : doors_(doors), place_(std::move(place)), options_(std::move(options)) {}
  const Place& place() const { return place_; }

  // Makes the daemon run. One that runs already and answers is kept, unless it hands out
  // static SM partitions, on which percentages have no effect: then it is replaced. What a dead one
  // left behind is cleaned up. no_driver: the program is not installed.
  Result<void> start();
  // Ends servers and daemon, by force when they do not heed it. One that does not run is no error.
  Result<void> quit();
  // Asks the daemon. not_found when it does not run.
  Result<Health> health();

 private:
  std::map<std::string, std::string> environment() const;
  Result<std::string> run(const std::vector<std::string>& arguments, const std::string& input);
  Result<std::string> ask(const std::string& command);
  Result<int> wait(Pid pid, std::int64_t until_ns);
  Result<void> launch();
  Result<void> await_ready();
  bool shares();
  Pid daemon_pid();
  bool is_daemon(Pid pid);
  Result<void> kill_daemon();
  void clean();

  Doors doors_;
  Place place_;
  Options options_;
};

}  // namespace partita::drivers::mps
