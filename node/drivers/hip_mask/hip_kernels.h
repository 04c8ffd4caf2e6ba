// HipKernels: the ProbeKernels of an AMD GPU, compiled by AMD's run-time compiler when they are
// opened. A work-group notes the registers that say on which CU its wave runs, and stamps from a
// counter in host memory; which register value is which unit is found out when they are opened, by
// a kernel on all units. May outlive the driver; ends only after what was launched of them.
// Limits: host memory of all notes; work-groups as the driver. Thread rule: one thread.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "device/probe_kernels.h"
#include "drivers/hip_mask/hip_mask_driver.h"

namespace partita::drivers::hip_mask {

class HipKernels final : public device::ProbeKernels {
 public:
  // Compiles them and looks where the units are. environment: no compiler, or it makes nothing for
  // this GPU, or work did not reach all CUs.
  static Result<std::unique_ptr<HipKernels>> open(HipMaskDriver& driver);
  ~HipKernels() override;
  HipKernels(const HipKernels&) = delete;
  HipKernels& operator=(const HipKernels&) = delete;

  Result<device::Kernel> noting(int number, std::int64_t groups, bool closed) override;
  void open(int number) override;
  std::vector<device::GroupNote> notes(int number) override;
  Result<device::Kernel> computing(std::int64_t groups, std::int64_t rounds) override;
  // Reads 4 KiB at once.
  Result<device::Kernel> reading(std::int64_t groups, std::int64_t bytes) override;
  Result<std::optional<std::int64_t>> free_memory() override;

 private:
  // What a work-group writes; the kernel source has the same struct.
  struct Note {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::uint32_t runs = 0;
    std::uint32_t form = 0;  // SiteForm
    std::uint32_t hw_id = 0;
    std::uint32_t xcc_id = 0;
  };
  static_assert(sizeof(Note) == 32);
  // A kernel with its arguments, each of 64 bits.
  struct Made {
    device::Kernel kernel;
    std::vector<std::uint64_t> values;
    Note* notes = nullptr;
    std::int32_t* open = nullptr;
  };

  HipKernels(std::shared_ptr<HipLibrary> library, int device);
  Result<void> compile(const HipBoard& board);
  Result<void> locate(HipMaskDriver& driver);
  Result<Made*> make_noting(std::int64_t groups, bool closed);
  Made& make(abi::Function function, std::int64_t groups, unsigned block,
             std::vector<std::uint64_t> values);
  Result<void*> host_memory(std::size_t bytes);
  CuPlace site(const Note& note) const;

  const std::shared_ptr<HipLibrary> library_;
  const int device_;
  abi::Module module_ = nullptr;
  abi::Function note_ = nullptr, compute_ = nullptr, read_ = nullptr;
  std::vector<void*> host_;          // from hipHostMalloc
  std::size_t used_ = 0, size_ = 0;  // of the last of host_, bytes
  std::uint64_t* stamps_ = nullptr;
  std::uint64_t* kept_ = nullptr;  // where working kernels would put their results
  void* memory_ = nullptr;         // that reading kernels read; made on demand
  std::size_t memory_bytes_ = 0;
  std::deque<Made> made_;
  std::map<int, Made*> noting_;  // by the caller's number
  std::map<CuPlace, int> unit_of_;
};

}  // namespace partita::drivers::hip_mask
