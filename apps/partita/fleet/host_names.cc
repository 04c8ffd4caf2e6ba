#include "fleet/host_names.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

namespace partita::cli {
namespace {

constexpr std::chrono::seconds kNamesPatience{10}, kNamesAgain{10};

// None: it is not found, for now or at all.
std::vector<std::string> addresses_of(const std::string& name) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(name.c_str(), nullptr, &hints, &found) != 0) return {};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> all(found, ::freeaddrinfo);
  std::set<std::string> addresses;
  for (const addrinfo* one = found; one != nullptr; one = one->ai_next) {
    std::array<char, NI_MAXHOST> text{};
    if (::getnameinfo(one->ai_addr, one->ai_addrlen, text.data(), text.size(), nullptr, 0,
                      NI_NUMERICHOST) == 0)
      addresses.insert(text.data());
  }
  return {addresses.begin(), addresses.end()};
}

}  // namespace

HostNames::~HostNames() {
  {
    const std::lock_guard hold(lock_);
    ending_ = true;
  }
  changed_.notify_all();
}

std::map<std::string, std::vector<std::string>> HostNames::of(const std::set<std::string>& names) {
  std::unique_lock hold(lock_);
  std::erase_if(hosts_, [&](const auto& one) { return !names.contains(one.first); });
  bool is_new = false;
  for (const std::string& name : names) is_new = hosts_.try_emplace(name).second || is_new;
  if (is_new && !thread_.joinable()) thread_ = std::jthread([this] { run(); });
  if (is_new) {
    changed_.notify_all();
    changed_.wait_for(hold, kNamesPatience, [&] {
      return std::ranges::all_of(hosts_, [](const auto& one) { return one.second.looked; });
    });
  }
  std::map<std::string, std::vector<std::string>> all;
  for (const auto& [name, host] : hosts_) all[name] = host.addresses;
  return all;
}

void HostNames::run() {
  std::unique_lock hold(lock_);
  const auto is_new = [this] {
    return ending_ ||
           std::ranges::any_of(hosts_, [](const auto& one) { return !one.second.looked; });
  };
  for (bool only_new = true; !ending_;) {
    std::vector<std::string> due;
    for (const auto& [name, host] : hosts_)
      if (!only_new || !host.looked) due.push_back(name);
    for (const std::string& name : due) {
      if (ending_) return;
      hold.unlock();
      std::vector<std::string> found = addresses_of(name);
      hold.lock();
      const auto host = hosts_.find(name);
      if (host == hosts_.end()) continue;
      host->second.looked = true;
      if (!found.empty()) host->second.addresses = std::move(found);
      changed_.notify_all();
    }
    only_new = changed_.wait_for(hold, kNamesAgain, is_new);
  }
}

}  // namespace partita::cli
