// Modules, kernels and launches of a session. Images are sent when something of them is used first;
// a launch needs no answer. Functions without a Lock take the session's.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/core.h"
#include "client/modules.h"

namespace partita::remote::client {

class Session;

struct LaunchShape {
  Extent3 grid, block;
  std::uint64_t shared_bytes = 0;
  std::uint64_t stream = 0;
  bool cooperative = false;
};

// A launch as a node of a graph: without a stream, with its parameters.
struct NodeLaunch {
  Launch launch = {};
  std::vector<std::byte> block = {};
};

class Kernels {
 public:
  Kernels(Session& all, Core& core) : all_(all), core_(core) {}

  Modules& modules() { return modules_; }
  Status load(Module& module);
  Status confirm(const Module& module);  // that is loaded: waits for what the server makes of it
  Status unload(Module& module);
  Got<const image::Layout*> layout_of(Kernel& kernel);
  Got<KernelAttributes::Reply> attributes_of(Kernel& kernel);
  Status set_attribute(Kernel& kernel, std::uint32_t attribute, std::int32_t value);
  Got<Block> symbol(Module& module, const std::string& name);
  Got<int> blocks_per_unit(Kernel& kernel, int threads, std::uint64_t dynamic_shared);
  // `parameters`: a pointer to each; or, where `block` is not empty, the block itself.
  Status launch(Kernel& kernel, const LaunchShape& shape, void** parameters, Bytes block = {});
  Status call_host(std::uint64_t stream, Callback callback);
  Got<NodeLaunch> launch_of_node(Kernel& kernel, const LaunchShape& shape, void** parameters);

 private:
  Status send_image(Lock& lock, const Module& module);
  Status load(Lock& lock, Module& module);
  Status open(Lock& lock, Kernel& kernel);
  Got<const KernelAttributes::Reply*> attributes_of(Lock& lock, Kernel& kernel);
  Status check_shape(Lock& lock, Kernel& kernel, const LaunchShape& shape);
  Got<Launch> prepared(Lock& lock, Kernel& kernel, const LaunchShape& shape);

  Session& all_;
  Core& core_;
  Modules modules_;
};

}  // namespace partita::remote::client
