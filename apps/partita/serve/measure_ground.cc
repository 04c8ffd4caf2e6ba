#include "serve/measure_ground.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/parse_number.h"
#include "base/processes.h"
#include "drivers/mps/daemon.h"
#include "hw/catalogue.h"
#include "node/loan_desk.h"
#include "profile/workload_profile.h"
#include "serve/measure/gpu_places.h"
#include "serve/measure/points.h"
#include "serve/worker/cpu_list.h"

namespace partita::cli {
namespace {

namespace mps = drivers::mps;
constexpr double kKibPerMib = 1024, kAllThreads = 100;

// The highest memory that a process ever had, in KiB; 0 when it is not told.
double peak_kib(Context& context, Pid pid) {
  const Result<std::string> text = context.files.read(fmt::format("/proc/{}/status", pid));
  const std::size_t at = text ? text->find("VmHWM:") : std::string::npos;
  if (at == std::string::npos) return 0;
  std::string_view rest = std::string_view(*text).substr(at + 6);
  rest.remove_prefix(std::min(rest.find_first_not_of(" \t"), rest.size()));
  return take_number<double>(rest).value_or(0);
}

class CpuGround final : public MeasureGround {
 public:
  CpuGround(Context& context, std::vector<int> cpus) : context_(context), cpus_(std::move(cpus)) {}

  Result<std::vector<int>> sizes(const std::string& flag, const std::string& text) override {
    const int most = std::min(static_cast<int>(cpus_.size()), profile::kMaxGpcs);
    return serve::parse_counts(flag, text, most);
  }
  Result<WorkerPlaces> enter(int size, int processes) override {
    const std::vector<int> pinned(cpus_.begin(), cpus_.begin() + size);
    WorkerPlaces places{
        .words = {"--threads", std::to_string(size), "--cpus", serve::cpus_text(pinned)},
        .environments = {}};
    places.environments.resize(static_cast<std::size_t>(processes));
    return places;
  }
  Result<void> leave() override { return {}; }
  Result<void> check(const serve::ModelSpec&) override { return {}; }
  std::optional<Mib> memory(const std::vector<Pid>& workers) override {
    double kib = 0;
    for (const Pid pid : workers) kib += peak_kib(context_, pid);
    const Mib memory{std::round(kib / kKibPerMib)};
    return memory.value > 0 ? std::optional(memory) : std::nullopt;
  }

 private:
  Context& context_;
  std::vector<int> cpus_;
};

class GpuGround final : public MeasureGround {
 public:
  // Loans are of the driver in `opened`, whose lock is held.
  GpuGround(Context& context, OpenDriver opened, std::unique_ptr<LoanDesk> desk, int gpu,
            int slices, std::string folder)
      : context_(context),
        opened_(std::move(opened)),
        desk_(std::move(desk)),
        places_(*opened_.driver, desk_->loans(), gpu, slices),
        folder_(std::move(folder)) {
    // The workers are to find our daemons, or none.
    for (const char* name :
         {"CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
          "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"})
      ::unsetenv(name);
  }
  ~GpuGround() override {
    if (const auto left = leave(); !left) complain(context_, to_string(left.error()));
  }

  Result<std::vector<int>> sizes(const std::string& flag, const std::string& text) override {
    const std::vector<int> offered = TRY(places_.sizes());
    return serve::parse_sizes(flag, text, offered);
  }

  Result<WorkerPlaces> enter(int size, int processes) override {
    TRY(leave());
    const serve::GpuPlace place = TRY(places_.borrow(size));
    WorkerPlaces workers;
    workers.environments.resize(static_cast<std::size_t>(processes));
    if (processes > 1 || place.percentage < kAllThreads) {
      workers.environments = TRY(share(place, processes));
    }
    for (auto& environment : workers.environments)
      environment["CUDA_VISIBLE_DEVICES"] = place.device;
    before_ = places_.memory_used().value_or(Mib{});
    return workers;
  }

  Result<void> leave() override {
    Result<void> quit;
    if (daemon_) quit = daemon_->quit();
    daemon_.reset();
    const Result<void> given = places_.give_back();
    return given ? quit : given;
  }

  Result<void> check(const serve::ModelSpec& model) override {
    if (model.platform != "onnxruntime") return {};
    return environment_error("--gpu",
                             "the worker runs its model on the CPU: ONNX Runtime for CUDA "
                             "(libonnxruntime_providers_cuda.so) is to lie beside the library");
  }

  std::optional<Mib> memory(const std::vector<Pid>&) override {
    const std::optional<Mib> used = places_.memory_used();
    if (!used || used->value <= before_.value) return std::nullopt;
    return Mib{std::round(used->value - before_.value)};
  }

 private:
  // Equal shares, through a daemon of our own.
  Result<std::vector<std::map<std::string, std::string>>> share(const serve::GpuPlace& place,
                                                                int processes) {
    const mps::Place at = TRY(mps::place_of(folder_, place.device));
    const mps::Share each{.percentage = place.percentage / processes, .pinned_memory = {}};
    const std::vector<mps::Share> shares(static_cast<std::size_t>(processes), each);
    if (const auto faults = mps::check_shares(shares, {}); !faults.empty())
      return bad_input("--processes", mps::to_string(faults.front()));
    daemon_.emplace(mps::Doors{processes_, context_.files, context_.clock}, at);
    TRY(daemon_->start());
    std::vector<std::map<std::string, std::string>> environments;
    for (const mps::Share& one : shares) environments.push_back(mps::client_environment(at, one));
    return environments;
  }

  Context& context_;
  OpenDriver opened_;
  std::unique_ptr<LoanDesk> desk_;
  serve::GpuPlaces places_;
  std::string folder_;
  RealProcesses processes_;  // the daemon's alone
  std::optional<mps::Daemon> daemon_;
  Mib before_;
};

}  // namespace

std::unique_ptr<MeasureGround> cpu_ground(Context& context, std::vector<int> cpus) {
  return std::make_unique<CpuGround>(context, std::move(cpus));
}

Result<std::unique_ptr<MeasureGround>> gpu_ground(Context& context, const DeviceFlags& device,
                                                  int gpu, const std::string& folder) {
  if (device.driver == "amd")
    return failed({ErrorCode::not_supported, "sizes of AMD's GPUs cannot be measured", "--driver"});
  OpenDriver opened = TRY(open_driver(context, device));
  const device::GpuState state = TRY(opened.driver->read(gpu));
  const hw::GpuModel* model = opened.catalogue->find(state.model);
  const int slices = model == nullptr ? 0 : model->compute_slices;
  auto desk = TRY(LoanDesk::open(context, opened));
  for (const std::string& left : desk->loans().left())
    complain(context, left + ", which an ended command had made");
  return std::unique_ptr<MeasureGround>(std::make_unique<GpuGround>(
      context, std::move(opened), std::move(desk), gpu, slices, folder));
}

}  // namespace partita::cli
