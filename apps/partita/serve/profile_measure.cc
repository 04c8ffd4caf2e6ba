#include "serve/profile_measure.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>

#include "base/processes.h"
#include "command.h"
#include "drivers/mps/daemon.h"
#include "node/devices.h"
#include "profile/buckets.h"
#include "profile/readers.h"
#include "profile/workload_profile.h"
#include "progress.h"
#include "serve/measure/bench.h"
#include "serve/measure/gpu_places.h"
#include "serve/measure/points.h"
#include "serve/wire/tensor.h"
#include "serve/worker/cpu_list.h"

namespace partita::cli {
namespace {

// Where `profile measure` runs its workers: cores of this machine, or a GPU. What a ground borrows
// (instances, MPS daemons) it puts back when it is left and when it dies.
// How the workers of one instance size are started.
struct WorkerPlaces {
  std::vector<std::string> words;                                // for `partita worker`
  std::vector<std::map<std::string, std::string>> environments;  // one per worker
};

class MeasureGround {
 public:
  virtual ~MeasureGround() = default;
  // What --instances may say, and the sizes that it says, ascending.
  virtual Result<std::vector<int>> sizes(const std::string& flag, const std::string& text) = 0;
  // No worker runs. Leaves what it was in before.
  virtual Result<WorkerPlaces> enter(int size, int processes) = 0;
  // The workers have ended.
  virtual Result<void> leave() = 0;
  // Whether a worker with this model runs where it is meant to.
  virtual Result<void> check(const serve::ModelSpec& model) = 0;
  // Of all workers together; nothing where nobody tells.
  virtual std::optional<Mib> memory(const std::vector<Pid>& workers) = 0;
};

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
    if (processes > 1 || place.percentage < kAllThreads)
      workers.environments = TRY(share(place, processes));
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

// `folder`: for MPS daemons, short. The driver is opened here.
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
  return std::make_unique<GpuGround>(context, std::move(opened), std::move(desk), gpu, slices,
                                     folder);
}

constexpr std::int64_t kReadyLimit = 900'000'000'000;
constexpr double kSecondNs = 1e9;
constexpr std::int64_t kGraceNs = 5'000'000'000, kPollNs = 10'000'000;

struct MeasureFlags {
  std::string model, output, name, instances, batches = "1,2,4,8,16,32", processes = "1";
  std::string point_time = "5s", cpus;
  std::optional<int> gpu;
  DeviceFlags device;
  double precision = 2;
  bool null = false, spin = false;
  std::vector<std::string> shapes, worker_flags;
  EngineMeasureFlags engine;
};

// The workers of one instance size and number of processes, and their bench.
class Team {
 public:
  Team(Context& context, const PrivateFolder& scratch, StopRequest& stop, MeasureGround& ground)
      : context_(context), scratch_(scratch), stop_(stop), ground_(ground) {}
  ~Team() { end(); }
  Team(const Team&) = delete;

  int units = 0, processes = 0;  // 0: there is none

  Result<void> start(const MeasureFlags& flags, const serve::MeasurePoint& point, int most_batch) {
    end();
    const WorkerPlaces places = TRY(ground_.enter(point.units, point.processes));
    placed_ = true;
    const std::string link = scratch_.path() + "/gateway.sock";
    bench_ = TRY(serve::Bench::open(link));
    ProcessSpec spec{.argv = {"/proc/self/exe", "worker", "--with-parent", "--link", link,
                              "--batch", std::to_string(most_batch), "--service", flags.name},
                     .log_file = log()};
    spec.argv.insert(spec.argv.end(), places.words.begin(), places.words.end());
    if (flags.null) spec.argv.emplace_back("--null");
    if (!flags.model.empty()) spec.argv.insert(spec.argv.end(), {"--model", flags.model});
    if (flags.spin) spec.argv.emplace_back("--spin");
    for (const std::string& shape : flags.shapes)
      spec.argv.insert(spec.argv.end(), {"--input-shape", shape});
    for (const std::string& word : flags.worker_flags) spec.argv.push_back(word);
    for (const auto& environment : places.environments) {
      spec.environment = environment;
      pids_.push_back(TRY(doors_.start(spec)));
    }
    units = point.units;
    processes = point.processes;
    TRY(bench_->wait_for(processes, kReadyLimit, [this] { return alive(); }));
    Result<void> right = ground_.check(bench_->model());
    placed_ = right.has_value();
    return right;
  }

  Result<serve::BenchPoint> measure(int batch, const serve::BenchLimits& limits) {
    return bench_->measure(batch, limits, [this] { return alive(); });
  }

  std::optional<Mib> memory() { return ground_.memory(pids_); }

  // False: it is the place that is wanting, not what runs there.
  bool placed() const { return placed_; }

  bool stopped() const { return stopped_; }

  // What a worker said last.
  std::string last_words() {
    const Result<std::string> text = context_.files.read(log());
    if (!text || text->empty()) return "it said nothing";
    const std::string_view whole =
        std::string_view(*text).substr(0, text->find_last_not_of('\n') + 1);
    const std::size_t line = whole.rfind('\n');
    return std::string(whole.substr(line == whole.npos ? 0 : line + 1));
  }

  void end() {
    if (bench_) bench_->dismiss();
    bench_.reset();
    const std::int64_t give_up = context_.clock.now_ns() + kGraceNs;
    bool killed = false;
    while (!pids_.empty()) {
      for (const ProcessExit& exit : doors_.exited()) std::erase(pids_, exit.pid);
      if (!killed && context_.clock.now_ns() > give_up) {
        for (const Pid pid : pids_) static_cast<void>(doors_.stop(pid, StopSignal::kill));
        killed = true;
      }
      if (!pids_.empty()) context_.clock.sleep_ns(kPollNs);
    }
    units = processes = 0;
    placed_ = false;
  }

 private:
  std::string log() const { return scratch_.path() + "/worker.log"; }
  // All workers run, and nobody wants us to stop.
  bool alive() {
    stopped_ = stopped_ || stop_.within(0);
    bool ended = false;
    for (const ProcessExit& exit : doors_.exited())
      ended = std::erase(pids_, exit.pid) > 0 || ended;
    return !ended && !stopped_;
  }

  Context& context_;
  const PrivateFolder& scratch_;
  StopRequest& stop_;
  MeasureGround& ground_;
  bool placed_ = false;
  RealProcesses doors_;
  std::vector<Pid> pids_;
  std::optional<serve::Bench> bench_;
  bool stopped_ = false;
};

// One run of the command.
class Measurement {
 public:
  Measurement(Context& context, const MeasureFlags& flags, serve::MeasureGrid grid,
              serve::BenchLimits limits, PrivateFolder scratch,
              std::unique_ptr<MeasureGround> ground)
      : context_(context),
        flags_(flags),
        grid_(std::move(grid)),
        limits_(limits),
        scratch_(std::move(scratch)),
        ground_(std::move(ground)),
        team_(context, scratch_, stop_, *ground_),
        progress_(context) {}

  Result<Exit> run() {
    TRY(read_what_is_there());
    const std::int64_t begin = context_.clock.now_ns();
    int done = 0;
    while (const auto point = next_point(grid_, profile_)) {
      show(*point, done, context_.clock.now_ns() - begin);
      TRY(measure(*point));
      if (team_.stopped()) {
        note(context_,
             fmt::format("stopped; {} holds what was measured, the same command goes on\n",
                         flags_.output));
        return Exit::no;
      }
      TRY(save());
      ++done;
    }
    const profile::WorkloadProfile kept = sure();
    say(context_,
        fmt::format("{}: {} points, {} that did not run{}{}\n", flags_.output, kept.points.size(),
                    kept.no_runs.size(), done == 0 ? "; all were there already" : "",
                    unsure_.empty() ? ""
                                    : fmt::format("; {} left out, known worse than to +- {:.0f} %: "
                                                  "a longer --point-time or an idle machine helps",
                                                  unsure_.size(), 100 * widest())));
    return kept.points.empty() ? Exit::no : Exit::done;
  }

 private:
  Result<void> read_what_is_there() {
    profile_.model = flags_.name;
    profile_.shape = shape();
    own_key_ = flags_.name;
    if (!context_.files.exists(flags_.output)) return {};
    others_ = TRY(read_as(context_.files, flags_.output, profile::parse_native_csv));
    return take_own();
  }

  // Points of this shape go on; those of others stay beside them, and get names of their own.
  Result<void> take_own() {
    using profile::length_of;
    std::vector<profile::WorkloadProfile> others;
    for (auto at = others_.begin(); at != others_.end();) {
      if (at->second.model != flags_.name) {
        ++at;
        continue;
      }
      const std::string& other = at->second.shape;
      if (other == shape())
        profile_ = at->second;
      else if (length_of(other) == length_of(shape()) || length_of(other) * length_of(shape()) == 0)
        return bad_input(
            "--input-shape",
            fmt::format("{} has '{}' measured with {}, not with {}, and shapes are "
                        "told apart by their greatest sizes: say another --name",
                        flags_.output, flags_.name, said_shape(other), said_shape(shape())));
      else
        others.push_back(at->second);
      at = others_.erase(at);
    }
    own_key_ = others.empty() ? flags_.name : key_of(shape());
    for (profile::WorkloadProfile& other : others) {
      const std::string key = key_of(other.shape);
      others_.emplace(key, std::move(other));
    }
    if (!profile_.points.empty())
      note(context_, fmt::format("{} has {} points of '{}' already; they are kept\n", flags_.output,
                                 profile_.points.size(), own_key_));
    return {};
  }

  Result<void> save() {
    profile::ProfileTable table = others_;
    if (table[own_key_] = sure(); table[own_key_].points.empty()) return {};
    return context_.files.write_atomic(flags_.output, profile::native_csv(table));
  }

  // What is written: without the points that are known too badly.
  profile::WorkloadProfile sure() const {
    profile::WorkloadProfile sure = profile_;
    std::erase_if(sure.points, [&](const profile::ProfilePoint& point) {
      return unsure_.contains({point.gpcs, point.processes, point.batch});
    });
    return sure;
  }

  double widest() const { return std::max(serve::kWidestSpread, limits_.precision); }

  // What the inputs were told to be, in an order of its own.
  std::string shape() const {
    std::vector<std::string> words = flags_.shapes;
    std::ranges::sort(words);
    return joined(words, " ");
  }
  std::string key_of(const std::string& of_shape) const {
    return profile::with_bucket(flags_.name, profile::length_of(of_shape));
  }
  static std::string said_shape(const std::string& shape) {
    return shape.empty() ? "no --input-shape" : fmt::format("--input-shape '{}'", shape);
  }

  void show(const serve::MeasurePoint& point, int done, std::int64_t so_far) {
    const int left = points_left(grid_, profile_);
    std::string time;
    if (done > 0) {
      const double seconds = static_cast<double>(so_far) / kSecondNs / done * left;
      time = fmt::format(", at most {:.0f} s left", seconds);
    }
    progress_.show(fmt::format("{} units, {} processes, batch {}: at most {} points to come{}",
                               point.units, point.processes, point.batch, left, time));
  }

  Result<void> measure(const serve::MeasurePoint& point) {
    if (team_.units != point.units || team_.processes != point.processes) {
      const auto started = team_.start(flags_, point, grid_.batches.back());
      if (team_.stopped()) return {};
      if (!started && !team_.placed()) return failed(started.error());
      if (!started) return did_not_run(point, started.error());
    }
    const Result<serve::BenchPoint> measured = team_.measure(point.batch, limits_);
    if (team_.stopped()) return {};
    if (!measured) return did_not_run(point, measured.error());
    const std::optional<Mib> memory = team_.memory();
    serve::add_point(profile_, {.gpcs = point.units,
                                .batch = point.batch,
                                .processes = point.processes,
                                .throughput = {measured->throughput_rps},
                                .latency = {measured->latency_ms},
                                .memory = memory});
    const bool unsure = !(measured->precision <= widest());
    if (unsure) unsure_.insert(point);
    note(context_,
         fmt::format("{} x {}{}, batch {}: {:.1f} req/s (+- {:.1f} %), {:.3f} ms{}{}\n",
                     point.processes, point.units, unit(), point.batch, measured->throughput_rps,
                     100 * measured->precision, measured->latency_ms,
                     memory ? fmt::format(", {:.0f} MiB", memory->value) : "",
                     unsure ? "; left out" : ""));
    return {};
  }

  // A worker that never ran is a mistake; where others ran it is what a profile is to say.
  Result<void> did_not_run(const serve::MeasurePoint& point, const Error& error) {
    const std::string words = team_.last_words();
    team_.end();
    if (profile_.points.empty())
      return environment_error("", fmt::format("{}: {}", to_string(error), words));
    note(context_, fmt::format("{} x {}{}, batch {}: did not run: {} ({})\n", point.processes,
                               point.units, unit(), point.batch, to_string(error), words));
    serve::add_no_run(profile_, point);
    return {};
  }

  const char* unit() const { return flags_.gpu ? "g" : "u"; }

  Context& context_;
  const MeasureFlags& flags_;
  serve::MeasureGrid grid_;
  serve::BenchLimits limits_;
  StopRequest stop_;  // first: what is put back at the end is put back in peace
  PrivateFolder scratch_;
  std::unique_ptr<MeasureGround> ground_;
  Team team_;
  Progress progress_;
  profile::WorkloadProfile profile_;
  std::set<serve::MeasurePoint> unsure_;  // of its points
  profile::ProfileTable others_;          // of other models, or shapes, in the same file
  std::string own_key_;                   // in that table
};

Result<std::unique_ptr<MeasureGround>> ground_of(Context& context, const MeasureFlags& flags,
                                                 const std::string& folder) {
  if (flags.gpu && !flags.cpus.empty())
    return bad_input("--cpus", "is for measuring on cores, without --gpu-index");
  if (flags.gpu) return gpu_ground(context, flags.device, *flags.gpu, folder);
  std::vector<int> cpus = serve::usable_cpus();
  if (!flags.cpus.empty()) cpus = TRY(serve::parse_cpus("--cpus", flags.cpus));
  return std::make_unique<CpuGround>(context, std::move(cpus));
}

Result<Exit> run_measure(Context& context, const MeasureFlags& given) {
  MeasureFlags flags = given;
  if (flags.output.empty() && flags.engine.against.empty())
    return bad_input("--output", "is required: where the points go");
  if (!flags.engine.url.empty()) {
    if (!flags.model.empty() || flags.null)
      return bad_input("--openai", "measures what runs there; --model and --null start workers");
    flags.engine.name = flags.name;
    flags.engine.output = flags.output;
    return measure_engine(context, flags.engine);
  }
  if (flags.model.empty() == !flags.null)
    return bad_input("measure", "say what to measure: --model FILE.onnx, --openai URL or --null");
  if (flags.name.empty()) flags.name = std::filesystem::path(flags.model).stem().string();
  if (flags.name.empty()) flags.name = "null";
  PrivateFolder scratch = TRY(PrivateFolder::make());
  std::unique_ptr<MeasureGround> ground = TRY(ground_of(context, flags, scratch.path()));
  serve::MeasureGrid grid;
  const std::string instances =
      flags.instances.empty() ? (flags.gpu ? "all" : "1..") : flags.instances;
  grid.units = TRY(ground->sizes("--instances", instances));
  struct List {
    const char* flag;
    const std::string& text;
    int most;
    std::vector<int>& into;
  };
  for (const List& list :
       {List{"--batches", flags.batches, serve::kMaxLinkBatch, grid.batches},
        List{"--processes", flags.processes, profile::kMaxProcesses, grid.processes}})
    list.into = TRY(serve::parse_counts(list.flag, list.text, list.most));
  const Seconds point_time = TRY(parse_duration("--point-time", flags.point_time));
  const serve::BenchLimits limits{
      .most_ns = static_cast<std::int64_t>(point_time.value * kSecondNs),
      .precision = flags.precision / 100};
  return Measurement(context, flags, std::move(grid), limits, std::move(scratch), std::move(ground))
      .run();
}

}  // namespace

Command add_profile_measure(CLI::App& profile) {
  auto [command, flags] = adding<MeasureFlags>(
      profile, "measure", "Measure a model on this machine: real workers on each instance size");
  takes(*command, "--model", flags->model, "--null", flags->null, "--gpu-index",
        limited(flags->gpu, 0, 1023));
  add_device_flags(*command, flags->device);
  flag(*command, "--instances", flags->instances);
  flag(*command, "--batches", flags->batches)->default_str("1,2,4,8,16,32");
  flag(*command, "--processes", flags->processes)->default_str("1");
  takes(*command, "--name", flags->name, "--cpus", flags->cpus, "--spin", flags->spin,
        "--input-shape", flags->shapes, "--worker-flag", flags->worker_flags);
  flag(*command, "--point-time", flags->point_time)->default_str("5s");
  takes(*command, "--precision", within(flags->precision, 0.1, 50), "--openai", flags->engine.url,
        "--token-shapes", preset(flags->engine.shapes), "--in-flight",
        preset(flags->engine.in_flight), "--rates", flags->engine.rates, "--kv-probe",
        flags->engine.kv_probe, "--kv-time", preset(flags->engine.kv_time), "--told",
        flags->engine.told, "--against", flags->engine.against, "-o,--output", flags->output);
  return runs(command, flags, run_measure,
              "partita profile measure --model mlp.onnx --instances 1,2 -o profile.csv\n"
              "partita profile measure --model resnet50.onnx --gpu-index 0 --instances 1g,2g,3g -o "
              "profile.csv\n"
              "partita profile measure --openai http://127.0.0.1:8000 --told system=H100-80GB-SXM5 "
              "-o points.csv");
}

}  // namespace partita::cli
