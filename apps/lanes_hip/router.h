// Router: which stream of HIP's a process's work goes on. A kernel of the plan runs on a masked
// stream, its stream's on that lane; other work of a stream is put where its last kernel was, and
// one waits for the other only where the lane changes (lanes::go_to_lane). HIP itself orders masked
// streams with the null stream, as all blocking ones: so what a process does without naming a
// stream needs nothing of ours, and a kernel of the null stream on a lane needs an event of the
// null stream before it, if others had work since, and one after it, before others have some again.
//
// Limits: one device (the one that is current at the first kernel), as many masked streams as the
// driver has; what finds none runs on its own stream and is counted. HIP makes masked streams
// blocking ones: kernels of non-blocking streams wait for the null stream, too. While a stream is
// captured all kernels run on their own streams. Thread rule: any thread.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "drivers/hip_mask/hip_mask_driver.h"
#include "planned_lanes.h"

namespace partita::lanes_hip {

namespace abi = drivers::hip_mask::abi;

// HIP's numbers of streams that are none, and of a flag.
inline const auto kLegacyStream = reinterpret_cast<abi::Stream>(1);
inline const auto kThreadStream = reinterpret_cast<abi::Stream>(2);
inline constexpr unsigned kNonBlocking = 1;

// What HIP says of streams and devices, and the driver does not ask.
struct StreamApi {
  abi::Status (*get_flags)(abi::Stream, unsigned*) = nullptr;
  abi::Status (*get_device)(int*) = nullptr;
};

struct Launch {
  abi::Stream stream = nullptr;
  std::string_view name;   // empty: not known
  std::string shape = {};  // where the plan tells shapes apart
  // Work-groups that must run at the same time; 0 for kernels whose groups do not wait for each
  // other; and how many a unit holds.
  std::uint64_t together = 0, per_unit = 0;
};

class Router {
 public:
  static Result<std::unique_ptr<Router>> open(const PlannedLanes& planned,
                                              const std::string& vendor_library, StreamApi api);

  bool by_shape() const { return cursor_.by_shape(); }
  // Where a kernel is to be launched.
  abi::Stream launch(const Launch& launch);
  // Where other work of a stream is to be put: where the stream is, or, `home`, the stream itself.
  abi::Stream work(abi::Stream stream, bool home);
  // The process waits for the device: what was launched until now was a request.
  void client_waits();
  void capture_begins();  // all streams are where they were made
  void capture_ends();
  void destroyed(abi::Stream stream);
  // What was done, in a line.
  std::string told() const;

 private:
  struct Path {
    abi::Stream self = nullptr, now = nullptr;
    bool blocking = true, here = true;  // on our device
    std::vector<abi::Stream> on = {};
  };
  struct Counts {
    std::uint64_t kernels = 0, planned = 0, captured = 0, elsewhere = 0, together = 0, unmasked = 0;
    std::uint64_t changes = 0, events = 0;
  };
  struct Door;
  Router(std::unique_ptr<drivers::hip_mask::HipMaskDriver> driver, const PlannedLanes& planned,
         StreamApi api);
  Path& path_of(abi::Stream stream);
  std::size_t lane_of(const Launch& launch, const Path& path);
  void go(Path& path, std::size_t lane);
  void order(Path& path);
  void null_goes(std::size_t lane);
  void meet_at_null();
  bool on_device() const;
  void wait_for(abi::Stream later, abi::Stream earlier);
  Result<abi::Stream> stream_of_lane(std::size_t lane);

  const std::unique_ptr<drivers::hip_mask::HipMaskDriver> driver_;
  const abi::HipApi& hip_;
  const StreamApi api_;
  const std::vector<hw::UnitMask> masks_;
  mutable std::mutex mutex_;  // of what follows
  lanes::KernelCursor cursor_;
  std::unordered_map<const void*, Path> paths_;
  Path null_;
  bool null_ahead_ = false;   // the null stream has a kernel on a lane that others did not wait for
  bool others_ahead_ = true;  // blocking streams may have work that its lane did not wait for
  int captures_ = 0;
  std::vector<std::vector<abi::Stream>> spare_;  // by lane, of streams that were destroyed
  abi::Event joint_ = nullptr;
  Counts counts_;
};

}  // namespace partita::lanes_hip
