// HostNames: which addresses hosts have, as this machine finds them, looked up on a thread of its
// own: where nobody answers who knows names a look takes many seconds. What was found once stays
// until it is found otherwise: names that are not known for a while take no host away.
// Thread rule: one thread calls.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace partita::cli {

class HostNames {
 public:
  HostNames() = default;
  ~HostNames();  // a look that is under way is waited for

  // The addresses of each, ascending; none: nobody knows it. Waits 10 s at most for those that it
  // is asked for the first time; the others are looked up again every 10 s.
  std::map<std::string, std::vector<std::string>> of(const std::set<std::string>& names);

 private:
  void run();

  struct Host {
    std::vector<std::string> addresses;
    bool looked = false;  // once at least
  };
  std::mutex lock_;
  std::condition_variable changed_;
  std::map<std::string, Host> hosts_;  // those that are asked for
  bool ending_ = false;
  std::jthread thread_;  // from the first name on
};

}  // namespace partita::cli
