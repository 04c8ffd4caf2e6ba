// Child: a program that this one starts and waits for: a command of a demo, a server of its own,
// whoever puts settings back. Owns the process; who forgets it ends it, unless it is to outlive us.
// What is supervised, adopted and found again goes through the processes door (processes.h).
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace partita {

inline constexpr const char* kOwnProgram = "/proc/self/exe";

struct ChildSpec {
  std::string program = {};                             // a file; empty: argv[0], looked up in PATH
  std::vector<std::string> argv = {};                   // at least one
  std::string called = {};                              // in refusals; empty: argv[0]
  std::map<std::string, std::string> environment = {};  // added to ours
  std::string output = {};  // a file that gets what it prints; empty: it prints where we do
  bool quiet = false;       // what it prints is thrown away, but for its complaints
  int input = -1;           // its standard input; -1: ours
  enum class Group { ours, own_group, own_session } group = Group::ours;
  bool outlives = false;  // else SIGTERM comes when the thread that started it ends
  // Started only when it has called say_ready(), at the latest after so long.
  std::optional<std::chrono::milliseconds> ready_within = {};
  std::chrono::milliseconds ends_within = std::chrono::seconds(60);  // SIGKILL comes then
};

class Child {
 public:
  // What it printed into `output` by then is the reason where it ended before it was ready.
  static Result<Child> start(const ChildSpec& spec);
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  int pid() const { return pid_; }
  bool runs();
  int wait();  // its exit status, or 128 + the signal that ended it
  void terminate();

 private:
  Child(int pid, const ChildSpec& spec)
      : pid_(pid), outlives_(spec.outlives), ends_within_(spec.ends_within) {}
  Result<void> until_ready(const ChildSpec& spec, int pipe, long printed_before);
  int pid_ = 0;  // 0: it has ended
  int status_ = 0;
  bool outlives_ = false;
  std::chrono::milliseconds ends_within_;
};

// Tells whoever started this program, and waits for it, that it serves now.
void say_ready();

// Our environment with `added` over it, as "NAME=value".
std::vector<std::string> environment_with(const std::map<std::string, std::string>& added);
// For exec: a pointer to each, and null.
std::vector<char*> pointers(std::vector<std::string>& texts);
// Of waitpid(): the exit status, or 128 + the signal.
int exit_status(int status);

}  // namespace partita
