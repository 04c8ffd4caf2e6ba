// CudaKernels: the ProbeKernels of a GreenCtxDriver: kernels of our own in PTX, which the driver's
// library compiles for the GPU at hand. A work-group notes the SM that it ran on; which unit that
// is was found before the first noting kernel, by running on every atom alone. Takes its memory at
// the start (kNoteBytes, and kReadBytes with the first reading kernel), because taking memory may
// wait for kernels that run. The GreenCtxDriver must live while kernels are made, and end before
// this while any of them may still run; notes can be read after it. Limits: kNoteBytes for the
// notes of all noting kernels together, 32 bytes per work-group; kMaxClosed closed ones; then
// `limit`. Thread rule: one thread; what runs on the GPU writes meanwhile.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "device/probe_kernels.h"
#include "drivers/green_ctx/green_ctx_driver.h"

namespace partita::drivers::green_ctx {

inline constexpr std::size_t kNoteBytes = std::size_t{8} << 20;
inline constexpr std::size_t kReadBytes = std::size_t{256} << 20;
inline constexpr std::size_t kMaxClosed = 1024;

class CudaKernels final : public device::ProbeKernels {
 public:
  // Compiles the kernels and loads them onto the driver's GPU. The driver may have lanes; none of
  // them should have work.
  static Result<std::unique_ptr<CudaKernels>> open(GreenCtxDriver& driver);
  ~CudaKernels() override;
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  // The first one calibrates; environment when the SMs of an atom cannot be told from others'.
  Result<device::Kernel> noting(int number, std::int64_t groups, bool closed) override;
  void open(int number) override;
  // A work-group on an SM that calibration did not meet has unit -1.
  std::vector<device::GroupNote> notes(int number) override;
  Result<device::Kernel> computing(std::int64_t groups, std::int64_t rounds) override;
  Result<device::Kernel> reading(std::int64_t groups, std::int64_t bytes) override;
  Result<std::optional<std::int64_t>> free_memory() override;

  // The unit of each SM, by %smid; calibrates when that was not done.
  Result<std::map<int, int>> units_of_sms();

 private:
  struct Cell {  // as the kernel writes it
    std::uint64_t runs, sm, begin, end;
  };
  struct Notes {
    std::int64_t groups = 0;
    std::size_t first = 0;            // its first cell
    std::uint32_t* opened = nullptr;  // of a closed one
  };
  static constexpr std::size_t kTailBytes = 16;  // behind the cells: the counter, a sink

  explicit CudaKernels(GreenCtxDriver& driver);
  Result<void> load();
  Result<void> take_memory();
  device::Kernel made(abi::Kernel kernel, unsigned threads, std::int64_t groups,
                      std::vector<std::uint64_t> values);
  Result<Notes> reserve(std::int64_t groups, bool closed);
  device::Kernel noting_kernel(const Notes& notes, std::uint64_t hold);
  Result<std::vector<Cell>> cells(const Notes& notes) const;
  Result<std::set<int>> sms_of(const hw::UnitMask& mask, std::size_t expected);

  GreenCtxDriver& driver_;
  const std::shared_ptr<const PrimaryContext> gpu_;
  abi::Library library_ = nullptr;
  abi::Kernel noting_ = nullptr, computing_ = nullptr, reading_ = nullptr;
  abi::DevicePointer cells_ = 0;
  abi::DevicePointer memory_ = 0;   // that reading kernels read
  std::uint32_t* flags_ = nullptr;  // of closed kernels, in memory of the host that the GPU sees
  abi::DevicePointer flags_on_gpu_ = 0;
  std::size_t cells_used_ = 0, flags_used_ = 0;
  std::deque<std::vector<std::uint64_t>> made_;  // values of arguments
  std::map<int, Notes> notes_;
  std::map<int, int> unit_of_sm_;  // by %smid; empty before calibration
};

}  // namespace partita::drivers::green_ctx
