// The picture of `partita observe --watch`: per GPU power, heat and clocks as bars with their
// recent past, per instance what its units do. Keeps the past; draws text, no terminal is touched.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/terminal.h"
#include "hw/telemetry/sample.h"

namespace partita::observe {

struct ViewOptions {
  bool colour = false;
  int width = 100;
  int height = 0;  // lines; 0: as many as it takes
};

// What is known of an instance besides, by the UUID of its MIG device.
struct InstanceNote {
  std::string runs;            // "chat b8×2"
  std::optional<Watts> watts;  // an estimate
};

class View {
 public:
  // From now on; the lines of instances say so.
  void know(std::map<std::string, InstanceNote> notes) { notes_ = std::move(notes); }
  // Samples in the order of their times.
  void add(const telemetry::Sample& sample);
  // The last sample with what came before; no line is wider than `width`.
  std::string frame(const ViewOptions& options) const;

 private:
  struct Past {
    std::deque<double> shares;  // the last is now
  };
  void remember(int gpu, int gi_id, double share);
  std::string gpu_lines(const telemetry::GpuSample& gpu, const ViewOptions& options) const;
  std::string instance_line(const telemetry::GpuSample& gpu, const telemetry::InstanceSample& one,
                            const ViewOptions& options) const;

  telemetry::Sample last_;
  std::map<std::string, InstanceNote> notes_;
  std::map<std::pair<int, int>, Past> past_;  // by GPU and gi_id; -1: power of the GPU
};

// Eighths of blocks: values in [0, 1], the last ones that fit.
std::string sparkline(const std::deque<double>& shares, int width);

}  // namespace partita::observe
