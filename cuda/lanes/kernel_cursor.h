// Which lane a program's next kernel runs on, and how a stream gets there: what remote execution
// does on lanes of NVIDIA's and the preloaded library on masks of AMD's. Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace partita::lanes {

// A cursor over the kernels of a request, each with its lane, for every stream: a kernel that is
// not the stream's next one is looked for further on, among those that no stream has had. One that
// comes no more in this request runs on `otherwise`, and is counted.
class KernelCursor {
 public:
  struct Step {
    std::string kernel =
        {};  // or with its shape behind it, "add 8x1x1 256x1x1": only launches of that
    std::size_t lane = 0;
  };
  KernelCursor(std::vector<Step> steps, std::size_t otherwise);

  // Whether lane_of() asks for shapes, "GRID BLOCK".
  bool by_shape() const { return by_shape_; }
  std::size_t lane_of(const std::string& kernel, const std::string& shape = {},
                      std::uint64_t stream = 0);
  void request_ended() { next_.clear(), ++request_; }
  std::size_t unknown() const { return unknown_; }

 private:
  std::vector<Step> steps_;
  std::size_t otherwise_;
  bool by_shape_;
  std::map<std::uint64_t, std::size_t> next_ = {};  // by stream
  std::vector<std::uint64_t> had_;                  // of each step: the last request that had it
  std::uint64_t request_ = 1;
  std::size_t unknown_ = 0;
};

// The work after this is on another lane: on[lane], made where there is none; it waits for what is
// on `now`, the stream before, if that runs still. `door` has make(lane), finished(stream) and
// wait_for(stream, earlier), which answer results with errors of one type.
template <class Stream, class Door>
auto go_to_lane(Stream& now, std::vector<Stream>& on, std::size_t lane, Door&& door)
    -> decltype(door.wait_for(now, now)) {
  if (on.size() <= lane) on.resize(lane + 1, nullptr);
  if (on[lane] == now) return {};
  if (on[lane] == nullptr) {
    const auto made = door.make(lane);
    if (!made) return tl::unexpected(made.error());
    on[lane] = *made;
  }
  const auto finished = door.finished(now);
  if (!finished) return tl::unexpected(finished.error());
  const Stream from = std::exchange(now, on[lane]);
  if (*finished) return {};
  return door.wait_for(now, from);
}

}  // namespace partita::lanes
