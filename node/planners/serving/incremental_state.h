// The state of the search for an incremental plan: every GPU with what runs on it, kept or created,
// and what services get from it. A value; copies are independent.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "planners/serving/incremental_site.h"

namespace partita::planners::serving {

// An instance of the new plan: kept when the current plan has it, else created.
struct Tenant {
  int spot = 0;
  int service = 0;
  bool kept = false;
  bool operator==(const Tenant&) const = default;
  auto operator<=>(const Tenant&) const = default;
};

// A GPU of the current plan, or a group (site >= 0), or a further one. Only open ones may have
// tenants.
struct Host {
  int model = 0;  // unit of the site
  int site = -1;
  bool open = false;
  std::vector<Tenant> tenants;
};

class Deployment {
 public:
  // All GPUs of the site, closed and empty.
  explicit Deployment(const Site& site);

  const Site& site() const { return *site_; }
  const std::vector<Host>& hosts() const { return hosts_; }
  const Host& host(int h) const { return hosts_[static_cast<std::size_t>(h)]; }
  int missing(int service) const;
  int missing() const;  // over all services
  double rate(int service) const { return rate_[static_cast<std::size_t>(service)]; }
  int count(int service) const { return count_[static_cast<std::size_t>(service)]; }
  int creations() const { return creations_; }
  int open_gpus(int entry) const;  // of a fleet entry
  bool fit_nodes() const;          // whether all groups find a node

  // An open, empty unit that is not of the site.
  int add_host(int model);
  // Opens a host and keeps all that runs there; reopen: empty.
  void open(int h);
  void reopen(int h);
  void close(int h);
  // Puts a service on a free place; kept when the current plan has it there.
  void add(int h, int spot, int service);
  void remove(int h, Tenant tenant);
  // Whom a service on that place would displace; nothing when a created tenant is in the way.
  std::optional<std::vector<Tenant>> displaced(int h, int spot, int service) const;
  // How many more instances all services lack once `service` is on that place and `out` are not.
  int lacked_more(int h, int spot, int service, const std::vector<Tenant>& out) const;
  // Whether a service can do without one of its instances.
  bool spare(int h, const Tenant& tenant) const;
  // Drops created instances that nobody needs, makes the others as small as they may be, and closes
  // GPUs that nobody needs; kept instances elsewhere stay.
  void tidy();

  // Exactly the same content and sums again, after changes to some hosts that concerned nobody but
  // who is or ran there and `services`.
  struct Saved {
    std::vector<std::pair<int, Host>> hosts;
    std::vector<std::pair<int, std::pair<double, int>>> sums;  // service: rate and instances
    int creations = 0;
  };
  Saved save(const std::vector<int>& hosts, const std::vector<int>& services) const;
  void restore(const Saved& saved);

 private:
  Host& at(int h) { return hosts_[static_cast<std::size_t>(h)]; }
  bool runs(const Host& host, int spot, int service) const;
  void drop_spare();
  void shrink();
  void close_spare();

  const Site* site_;
  std::vector<Host> hosts_;
  std::vector<double> rate_;  // per service
  std::vector<int> count_;    // per service
  int creations_ = 0;
};

}  // namespace partita::planners::serving
