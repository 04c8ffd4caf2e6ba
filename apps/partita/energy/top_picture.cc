#include "energy/top_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/table.h"
#include "base/terminal.h"
#include "base/unicode.h"
#include "model/energy/attribution.h"

namespace partita::cli {

std::string tokens_table(const std::vector<TokenRow>& rows) {
  if (rows.empty()) return {};
  Table table{{"LANGUAGE MODEL", "TOKENS IN /s", "OUT /s", "IN, mean", "OUT, mean", "TTFT p50 ms",
               "p99", "TPOT p50 ms", "p99", "KV CACHE"},
              {}};
  const auto shown = [](std::optional<double> value) {
    return value ? number_text(*value) : std::string("-");
  };
  for (const auto& [service, t] : rows)
    table.rows.push_back(
        {service, number_text(t.in_per_s), number_text(t.out_per_s), number_text(t.mean_in),
         number_text(t.mean_out), shown(t.ttft_p50_ms), shown(t.ttft_p99_ms), shown(t.tpot_p50_ms),
         shown(t.tpot_p99_ms),
         t.kv_cache_usage ? fmt::format("{:.0f} %", 100 * *t.kv_cache_usage) : std::string("-")});
  return "\n" + to_string(table);
}

std::string host_line(const control::HostNow& host) {
  std::string line;
  const auto add = [&](const char* what, const std::optional<double>& watts) {
    if (watts)
      line += fmt::format("{}{} {} W", line.empty() ? "" : ", ", what, number_text(*watts));
  };
  add("CPUs", host.cpu_w);
  add("memory", host.dram_w);
  add("with GPUs", host.node_w);
  add("platform", host.psys_w);
  return line.empty() ? line : line + "\n";
}

void TopPicture::know_node(const device::NodeState& state, const std::string& more) {
  long instances = 0, busy = 0;
  for (const device::GpuState& gpu : state.gpus) {
    instances += std::ssize(gpu.instances);
    busy += std::ranges::count_if(gpu.instances, &device::Instance::busy);
  }
  head_ = fmt::format("{}, {}, {} held by processes{}", count_text(std::ssize(state.gpus), "GPU"),
                      count_text(instances, "instance"), busy, more);
}

void TopPicture::add(const telemetry::Sample& sample, const device::Occupants& occupants) {
  view_.know(notes_of(sample, occupants));
  view_.add(sample);
}

std::string TopPicture::frame(int height) const {
  const std::string above = fit(head_, std::min(columns(head_), context_.width)) + "\n" + host_ +
                            faults_ + "\n" + services_ + (services_.empty() ? "" : "\n");
  const int lines = static_cast<int>(std::ranges::count(above, '\n'));
  return above + view_.frame({.colour = context_.colour,
                              .width = context_.width,
                              .height = height > 0 ? std::max(3, height - lines) : 0});
}

// Who runs where, and what it takes: the board's power above the least that was seen of it, split
// by compute slices times activity; the least itself by compute slices.
std::map<std::string, observe::InstanceNote> TopPicture::notes_of(
    const telemetry::Sample& sample, const device::Occupants& occupants) {
  std::map<std::string, observe::InstanceNote> notes;
  for (const telemetry::GpuSample& gpu : sample.gpus) {
    const std::vector<double> watts = split(gpu);
    for (std::size_t i = 0; i < gpu.instances.size(); ++i) {
      const std::string& uuid = gpu.instances[i].uuid;
      observe::InstanceNote note;
      if (const auto found = occupants.find(uuid); found != occupants.end())
        note.runs = fmt::format("{} b{}×{}", found->second.service, found->second.batch,
                                found->second.processes);
      if (!watts.empty()) note.watts = Watts{watts[i]};
      notes[uuid] = std::move(note);
    }
  }
  return notes;
}

std::vector<double> TopPicture::split(const telemetry::GpuSample& gpu) {
  const auto power = gpu.power ? gpu.power : gpu.power_average;
  if (!power || gpu.compute_slices < 1) return {};
  const auto least = least_.emplace(gpu.index, *power).first;
  least->second = std::min(least->second, *power);
  energy::BoardLedger board{{{power->value, Seconds{1}, true, {}}}, least->second, Watts{}};
  energy::Ledger ledger{{}, {}, static_cast<int>(gpu.instances.size())};
  for (const telemetry::InstanceSample& one : gpu.instances) {
    const int number = static_cast<int>(ledger.accounts.size());
    const double busy = one.activity.graphics_engine.value_or(0);
    ledger.accounts.push_back({0, number});
    board.intervals.front().uses.push_back(
        {number, static_cast<double>(one.compute_slices) / gpu.compute_slices, busy, busy, 0, 0});
  }
  ledger.boards = {std::move(board)};
  std::vector<double> watts;
  for (const energy::Share& share :
       energy::attribute(ledger, energy::SplitRule::activity, energy::IdlePolicy::slice).accounts)
    watts.push_back(static_cast<double>(share.energy) * 1e-6);
  return watts;
}

}  // namespace partita::cli
