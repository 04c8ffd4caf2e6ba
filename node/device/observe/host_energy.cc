#include "device/observe/host_energy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "base/parse_number.h"

namespace partita::observe {
namespace {

constexpr double kPerMicro = 1e-6;
constexpr double kTicksPerSecond = 100;  // USER_HZ, of every Linux that has GPUs

std::optional<double> number_in(Files& files, const std::string& path) {
  const auto text = files.read(path);
  if (!text) return {};
  const std::string_view line = std::string_view(*text).substr(0, text->find('\n'));
  const auto number = parse_number<double>(line);
  return number && *number >= 0 ? number : std::nullopt;
}

// The words of a line that are numbers, from `first` on, those that are asked for summed.
std::optional<double> sum_of(std::string_view line, int first, std::initializer_list<int> wanted) {
  double sum = 0;
  std::size_t found = 0;
  for (int word = first; !line.empty(); ++word) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    const std::string_view text = line.substr(0, line.find(' '));
    line.remove_prefix(text.size());
    if (std::ranges::find(wanted, word) == wanted.end()) continue;
    const auto number = parse_number<double>(text);
    if (!number) return {};
    sum += *number;
    ++found;
  }
  return found == wanted.size() ? std::optional(sum) : std::nullopt;
}

// Of a process and its children that have ended: fields 14 to 17 of /proc/PID/stat. The name in
// field 2 may hold anything, so they are counted from its last bracket.
std::optional<double> cpu_seconds(std::string_view stat) {
  const std::size_t bracket = stat.rfind(')');
  if (bracket == stat.npos) return {};
  stat = stat.substr(bracket + 1, stat.find('\n', bracket) - bracket - 1);
  const auto ticks = sum_of(stat, 3, {14, 15, 16, 17});
  return ticks ? std::optional(*ticks / kTicksPerSecond) : std::nullopt;
}

// Where cgroups of version 2 are; "" when nowhere. Lines of /proc/self/mounts.
std::string cgroup_mount(std::string_view mounts) {
  for (; !mounts.empty();
       mounts.remove_prefix(std::min(mounts.find('\n'), mounts.size() - 1) + 1)) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    const std::size_t folder = line.find(' ');
    if (folder == line.npos) continue;
    const std::string_view rest = line.substr(folder + 1);
    const std::size_t type = rest.find(' ');
    if (type != rest.npos && rest.substr(type + 1).starts_with("cgroup2 "))
      return std::string(rest.substr(0, type));
  }
  return {};
}

// user, nice, system, irq, softirq of all CPUs; guests are in user.
std::optional<double> busy_seconds(std::string_view stat) {
  if (!stat.starts_with("cpu ")) return {};
  const auto ticks = sum_of(stat.substr(4, stat.find('\n') - 4), 1, {1, 2, 3, 6, 7});
  return ticks ? std::optional(*ticks / kTicksPerSecond) : std::nullopt;
}

}  // namespace

HostEnergyReader::HostEnergyReader(Files& files, HostPaths paths)
    : files_(files), paths_(std::move(paths)) {
  find_zones();
}

// Packages, the whole platform, and memory below packages; cores and graphics are in packages.
void HostEnergyReader::find_zones() {
  const auto look = [&](const std::string& path) {
    const auto name = files_.read(path + "/name");
    if (!name) return false;
    Zone zone{.path = path, .name = name->substr(0, name->find('\n'))};
    if (zone.name.starts_with("package")) zone.name = "package";
    if (zone.name != "package" && zone.name != "dram" && zone.name != "psys") return true;
    zone.range_j = number_in(files_, path + "/max_energy_range_uj").value_or(0) * kPerMicro;
    zones_.push_back(std::move(zone));
    return true;
  };
  for (int package = 0; package < kMostPackages; ++package) {
    const std::string path = fmt::format("{}/intel-rapl:{}", paths_.powercap, package);
    if (!look(path)) break;
    for (int part = 0; part < kMostParts && look(fmt::format("{}:{}", path, part)); ++part) {
    }
  }
}

void HostEnergyReader::add(Zone& zone, Seconds at, telemetry::HostSample& sample) {
  const auto micro = number_in(files_, zone.path + "/energy_uj");
  if (!micro) {
    zone.last_j.reset();
    sample.fault = fmt::format("{}/energy_uj cannot be read: the kernel lets root alone, who may "
                               "give others the right",
                               zone.path);
    return;
  }
  const double now_j = *micro * kPerMicro;
  const auto last_j = std::exchange(zone.last_j, now_j);
  if (!last_j || !last_) return;
  const double passed_s = (at - *last_).value;
  const bool wrapped = now_j < *last_j;
  if ((wrapped && zone.range_j <= 0) ||
      (zone.range_j > 0 && passed_s * kMostZoneWatts >= zone.range_j)) {
    sample.fault = fmt::format("{:.0f} s of {} were not counted: its counter may have wrapped more "
                               "than once",
                               passed_s, zone.path);
    return;
  }
  zone.sum_j += now_j - *last_j + (wrapped ? zone.range_j : 0);
}

telemetry::HostSample HostEnergyReader::read(Seconds at,
                                             const std::vector<TenantProcess>& processes) {
  telemetry::HostSample sample{.at = at};
  if (zones_.empty())
    sample.fault = fmt::format("there are no RAPL counters at {}", paths_.powercap);
  for (Zone& zone : zones_) add(zone, at, sample);
  const auto sum = [&](std::string_view name) {
    std::optional<Joules> joules;
    for (const Zone& zone : zones_) {
      if (zone.name != name) continue;
      if (!zone.last_j) return std::optional<Joules>{};  // what others took is not the whole
      joules = Joules{joules.value_or(Joules{}).value + zone.sum_j};
    }
    return joules;
  };
  sample.energy = {sum("package"), sum("dram"), sum("psys")};
  read_times(processes, sample);
  last_ = at;
  return sample;
}

std::optional<double> HostEnergyReader::time_of(const TenantProcess& process) {
  if (process.cgroup.empty() && !process.family) {
    const auto own = files_.read(fmt::format("{}/{}/stat", paths_.proc, process.pid));
    return own ? cpu_seconds(*own) : std::nullopt;
  }
  const std::string folder = process.cgroup.empty() ? family_cgroup(process.pid) : process.cgroup;
  const auto stat = folder.empty() ? Result<std::string>{} : files_.read(folder + "/cpu.stat");
  constexpr std::string_view kUsage = "usage_usec ";
  if (!stat || !stat->starts_with(kUsage)) return {};
  const std::string_view rest = std::string_view(*stat).substr(kUsage.size());
  const auto micro = parse_number<double>(rest.substr(0, rest.find('\n')));
  return micro && *micro >= 0 ? std::optional(*micro * kPerMicro) : std::nullopt;
}

// Empty: it is in none that is its family's alone.
std::string HostEnergyReader::family_cgroup(std::int64_t pid) {
  if (!cgroups_) {
    const auto mounts = files_.read(paths_.proc + "/self/mounts");
    cgroups_ = mounts ? cgroup_mount(*mounts) : "";
  }
  const auto groups = files_.read(fmt::format("{}/{}/cgroup", paths_.proc, pid));
  const std::size_t line = groups ? ("\n" + *groups).find("\n0::/") : std::string::npos;
  if (cgroups_->empty() || line == std::string::npos) return {};
  const std::string place = groups->substr(line + 3, groups->find('\n', line) - line - 3);
  const std::string_view name = std::string_view(place).substr(place.rfind('/') + 1);
  return name.starts_with(kFamilyCgroup) ? *cgroups_ + place : "";
}

void HostEnergyReader::keep_only(const std::vector<TenantProcess>& processes) {
  std::erase_if(cpu_of_, [&](const auto& one) {
    return std::ranges::find(processes, one.first, &TenantProcess::tenant) == processes.end();
  });
}

void HostEnergyReader::read_times(const std::vector<TenantProcess>& processes,
                                  telemetry::HostSample& sample) {
  const auto stat = files_.read(paths_.proc + "/stat");
  if (stat) sample.cpu_s = busy_seconds(*stat);
  std::map<std::pair<std::int64_t, std::string>, double> seen;
  for (const TenantProcess& process : processes) {
    const bool alone = process.cgroup.empty() && !process.family;
    const auto now_s = time_of(process);
    if (now_s || alone) cpu_of_.try_emplace(process.tenant, 0);
    if (!now_s) continue;  // it has ended
    const std::pair key{process.pid, process.identity + process.cgroup};
    const auto last = last_cpu_s_.find(key);
    if (last != last_cpu_s_.end()) cpu_of_[process.tenant] += std::max(0.0, *now_s - last->second);
    seen[key] = *now_s;
  }
  last_cpu_s_ = std::move(seen);
  if (sample.cpu_s) sample.cpu_of = cpu_of_;
}

}  // namespace partita::observe
