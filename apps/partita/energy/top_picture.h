// The picture of `partita top`, of this node or of an agent's: its parts are given, the past of the
// boards is kept.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "act/gateway_state.h"
#include "context.h"
#include "control/snapshot.h"
#include "device/node_forms.h"
#include "device/observe/view.h"
#include "hw/telemetry/sample.h"

namespace partita::cli {

// Tokens a second, TTFT and TPOT of language models; "" without one.
struct TokenRow {
  std::string service;
  actuate::TokenTraffic tokens;
};
std::string tokens_table(const std::vector<TokenRow>& rows);

// "CPUs 120 W, memory 14 W, with GPUs 512 W"; "" where nobody tells any of it.
std::string host_line(const control::HostNow& host);

class TopPicture {
 public:
  explicit TopPicture(const Context& context) : context_(context) {}

  // `more` goes on the first line.
  void know_node(const device::NodeState& state, const std::string& more);
  void add(const telemetry::Sample& sample, const device::Occupants& occupants);
  // Lines on what is wrong with GPUs; empty: nothing is.
  void know_faults(std::string lines) { faults_ = std::move(lines); }
  // A line on CPUs and memory; empty: nothing is known of them.
  void know_host(std::string line) { host_ = std::move(line); }
  // A table of services; empty: nothing is known of them.
  void know_services(std::string table) { services_ = std::move(table); }

  std::string frame(int height) const;

 private:
  std::map<std::string, observe::InstanceNote> notes_of(const telemetry::Sample& sample,
                                                        const device::Occupants& occupants);
  std::vector<double> split(const telemetry::GpuSample& gpu);

  const Context& context_;
  observe::View view_;
  std::map<int, Watts> least_;  // by GPU
  std::string head_, host_, faults_, services_;
};

}  // namespace partita::cli
