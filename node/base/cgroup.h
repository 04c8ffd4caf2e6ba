// Cgroups of version 2 below the one that this process is in: whatever a program starts, in
// whatever session and environment, is in its cgroup, and all of it can be ended at once. Where the
// system has none, or does not let us make any, nothing is done. No controller is used. For
// single-threaded programs: a child begins where its parent is, so the parent goes there and back.
#pragma once

#include <cstdint>
#include <string>

namespace partita {

class Cgroups {
 public:
  // Looks for the place; none: possible() is false. `proc`: where the kernel tells of processes.
  explicit Cgroups(std::string proc = "/proc");
  bool possible() const { return !home_.empty(); }

  // Goes into the cgroup of that name, making it; false: not possible, and we are where we were.
  bool enter(const std::string& name);
  // Removes those below ours whose names begin so and that nobody is in.
  void tidy(const std::string& prefix) const;
  // And back. False: not possible, so whoever is there must not be ended, and enter() refuses now.
  bool leave();
  // Of a cgroup that enter() made, its folder; "" when there is none.
  std::string folder_of(const std::string& name) const;
  // The folder of the cgroup that a process is in, when its name is `name`; else "".
  std::string folder_with(std::int64_t pid, const std::string& name) const;

 private:
  std::string proc_, mount_, home_;  // where cgroups are, and our own
};

// Ends all processes in the cgroup of that folder at once.
void end_cgroup(const std::string& folder);
// Removes it; false: somebody is in it, dead perhaps but not yet buried.
bool remove_cgroup(const std::string& folder);

}  // namespace partita
