#include "hw/xids.h"

#include <algorithm>
#include <array>

namespace partita::hw {
namespace {

using enum XidAction;

// 48 and 74 are "workflows" in the catalogue, whose text says of both that only a reset of the GPU
// or of the node clears the error. 144 to 150 are errors of NVLink 5 whose sub-codes, which NVML
// does not tell, decide.
constexpr std::array kXids{
    Xid{8, restart_app, "the GPU stopped processing"},
    Xid{11, restart_app, "a damaged stream of commands"},
    Xid{13, restart_app, "an exception of the compute engine"},
    Xid{14, ignore, "an injected error"},
    Xid{25, restart_app, "an illegal stream of commands"},
    Xid{31, restart_app, "a page fault in GPU memory"},
    Xid{32, restart_app, "a damaged stream of commands"},
    Xid{37, ignore, "an error of the driver's firmware"},
    Xid{38, ignore, "an error of the driver's firmware"},
    Xid{39, restart_app, "an exception of a copy engine"},
    Xid{40, restart_app, "an exception of a copy engine"},
    Xid{41, restart_app, "an exception of a copy engine"},
    Xid{43, ignore, "a program's fault ended it"},
    Xid{44, ignore, "a fault during a context switch"},
    Xid{45, look, "programs were ended after earlier errors"},
    Xid{46, reset_gpu, "the GPU stopped processing"},
    Xid{48, reset_gpu, "a memory error that could not be corrected"},
    Xid{54, look, "a power connector is loose"},
    Xid{60, restart_app, "an exception of the video processor"},
    Xid{62, reset_gpu, "the micro-controller halted"},
    Xid{63, ignore, "a row of memory will be remapped at the next reset"},
    Xid{64, reset_gpu, "a row of memory could not be remapped"},
    Xid{66, ignore, "an illegal access by the driver"},
    Xid{67, ignore, "an illegal access by the driver"},
    Xid{68, restart_app, "an exception of a video decoder"},
    Xid{69, restart_app, "an error of the compute engine"},
    Xid{70, restart_app, "an error of a copy engine"},
    Xid{71, restart_app, "an error of a copy engine"},
    Xid{72, restart_app, "an error of a copy engine"},
    Xid{74, reset_gpu, "an NVLink error"},
    Xid{75, restart_app, "an error of a copy engine"},
    Xid{76, restart_app, "an error of a copy engine"},
    Xid{77, restart_app, "an error of a copy engine"},
    Xid{78, ignore, "a virtual GPU did not start"},
    Xid{79, restart_node, "the GPU fell off the bus"},
    Xid{80, restart_app, "damaged data were sent to the GPU"},
    Xid{82, restart_app, "an error of a JPEG engine"},
    Xid{83, restart_app, "an error of a video decoder"},
    Xid{84, restart_app, "an error of a video decoder"},
    Xid{85, restart_app, "an error of a copy engine"},
    Xid{86, restart_app, "an exception of the optical flow engine"},
    Xid{88, restart_app, "an error of a video decoder"},
    Xid{89, restart_app, "an error of a video decoder"},
    Xid{92, ignore, "many corrected memory errors"},
    Xid{93, ignore, "the InfoROM was written too often"},
    Xid{94, restart_app, "a memory error that was contained to one program"},
    Xid{95, reset_gpu, "a memory error that was not contained"},
    Xid{96, restart_app, "an error of a video decoder"},
    Xid{97, restart_app, "an error of a video decoder"},
    Xid{98, restart_app, "an error of a video decoder"},
    Xid{99, restart_app, "an error of a JPEG engine"},
    Xid{100, restart_app, "an error of a JPEG engine"},
    Xid{101, restart_app, "an error of a JPEG engine"},
    Xid{102, restart_app, "an error of a JPEG engine"},
    Xid{103, restart_app, "an error of a JPEG engine"},
    Xid{104, restart_app, "an error of a JPEG engine"},
    Xid{105, restart_app, "an error of a JPEG engine"},
    Xid{106, ignore, "a test message"},
    Xid{107, ignore, "a test message"},
    Xid{109, reset_gpu, "a context switch took too long"},
    Xid{110, reset_gpu, "a security fault"},
    Xid{119, reset_gpu, "the GPU's system processor does not answer"},
    Xid{120, reset_gpu, "an error of the GPU's system processor"},
    Xid{121, ignore, "a corrected error of the link to the CPU"},
    Xid{126, restart_app, "an error of a copy engine"},
    Xid{127, restart_app, "an error of a copy engine"},
    Xid{128, restart_app, "an error of a copy engine"},
    Xid{129, restart_app, "an error of a copy engine"},
    Xid{130, restart_app, "an error of a copy engine"},
    Xid{131, restart_app, "an error of a copy engine"},
    Xid{132, restart_app, "an error of a copy engine"},
    Xid{133, restart_app, "an error of a copy engine"},
    Xid{134, restart_app, "an error of a copy engine"},
    Xid{135, restart_app, "an error of a copy engine"},
    Xid{136, reset_gpu, "a link could not be trained"},
    Xid{137, ignore, "an illegal access over NVLink"},
    Xid{139, restart_app, "an error of the optical flow engine"},
    Xid{140, reset_gpu, "a memory error that was not handled"},
    Xid{141, ignore, "an error of CUDA's fast path"},
    Xid{142, look, "an error of a video encoder"},
    Xid{143, reset_gpu, "the GPU could not be initialised"},
    Xid{144, look, "an NVLink error"},
    Xid{145, look, "an NVLink error"},
    Xid{146, look, "an NVLink error"},
    Xid{147, look, "an NVLink error"},
    Xid{148, look, "an NVLink error"},
    Xid{149, look, "an NVLink error"},
    Xid{150, look, "an NVLink error"},
    Xid{151, look, "keys could not be exchanged; the virtual machine is to be started again"},
    Xid{152, ignore, "an error of the deep learning accelerator"},
    Xid{153, ignore, "the deep learning accelerator took too long"},
    Xid{154, look, "what the driver recommends has changed"},
    Xid{155, reset_gpu, "an NVLink was taken down"},
    Xid{156, reset_gpu, "a part of the GPU is to be retired"},
    Xid{157, ignore, "a part of the GPU could not be retired"},
    Xid{158, reset_gpu, "the GPU took too long and cannot go on"},
    Xid{159, look, "an error of the link to the CPU"},
    Xid{160, ignore, "a channel was retired"},
    Xid{161, ignore, "a channel could not be retired"},
};
static_assert(std::ranges::is_sorted(kXids, {}, &Xid::code));

}  // namespace

std::span<const Xid> xid_catalogue() { return kXids; }

const Xid* find_xid(int code) {
  const auto found = std::ranges::lower_bound(kXids, code, {}, &Xid::code);
  return found == kXids.end() || found->code != code ? nullptr : &*found;
}

std::vector<int> xids_that_take_out() {
  std::vector<int> codes;
  for (const Xid& one : kXids)
    if (one.action == reset_gpu || one.action == restart_node) codes.push_back(one.code);
  return codes;
}

const char* to_string(XidAction action) {
  switch (action) {
    case ignore:
      return "nothing is to be done";
    case restart_app:
      return "the program is to be started again";
    case reset_gpu:
      return "the GPU is to be reset";
    case restart_node:
      return "the node is to be started again";
    case look:
      return "somebody should look";
  }
  return "";
}

}  // namespace partita::hw
