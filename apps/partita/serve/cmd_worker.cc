// partita worker: one model behind the gateway, in this process.
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <charconv>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <thread>

#include "base/descriptor.h"
#include "commands.h"
#include "node/devices.h"
#include "plan/model_set.h"
#include "profile/buckets.h"
#include "serve/measure/points.h"
#include "serve/standin/standin.h"
#include "serve/wire/frames.h"
#include "serve/worker/cpu_list.h"
#include "serve/worker/forward_engine.h"
#include "serve/worker/model_config.h"
#include "serve/worker/null_engine.h"
#include "serve/worker/ort_engine.h"
#include "serve/worker/set_engine.h"
#include "serve/worker/warm_up.h"
#include "serve/worker/worker_loop.h"

namespace partita::cli {
namespace {

constexpr int kMaxThreads = 1024, kMaxBucket = profile::kMostLength;
constexpr int kLearnedBuckets = 16, kMostLearned = 256;
constexpr double kMicrosecond = 1e3;

struct WorkerFlags {
  std::string model, forward, service, cpus, units, link, state_directory, name;
  bool null = false, openai = false, no_gpu = false, spin = false, with_parent = false;
  int batch = 8, threads = 0, text_bytes = static_cast<int>(serve::kTextBytes);
  int open_bytes = static_cast<int>(serve::kOpenBytes);
  std::string buckets, version;
  std::vector<std::string> shapes, axes, values, states, inputs, outputs;
  double batch_us = 0, item_us = 0, load_us = 0;
  int hold = 0;
  std::string timeout = "60s";
};

// Where the gateway listens: --link, else beside the supervisor's state file, else in the state
// directory.
std::string link_of(const WorkerFlags& flags, const std::string& place) {
  if (!flags.link.empty()) return flags.link;
  // "STATE_FILE:DEVICE:INDEX"
  const std::size_t index = place.rfind(':');
  const std::size_t device = index == place.npos ? index : place.rfind(':', index - 1);
  if (flags.state_directory.empty() && device != place.npos && device > 0) {
    const std::filesystem::path state_file(place.substr(0, device));
    return serve::link_path(state_file.parent_path().string());
  }
  return serve::link_path(state_directory(flags.state_directory, {}));
}

Result<serve::EnginePointer> null_engine_of(const WorkerFlags& flags, const std::string& service) {
  serve::ModelSpec spec{.name = service, .platform = "null", .max_batch = flags.batch};
  spec.sequences = !flags.states.empty();
  const auto read = [](const char* flag, const std::vector<std::string>& texts,
                       std::vector<serve::TensorSpec>& into) -> Result<void> {
    for (const std::string& text : texts) into.push_back(TRY(serve::parse_tensor_spec(flag, text)));
    return {};
  };
  TRY(read("--input", flags.inputs, spec.inputs));
  TRY(read("--output-tensor", flags.outputs, spec.outputs));
  serve::give_text_room(spec, static_cast<std::size_t>(flags.text_bytes));
  TRY(serve::check_model("--null", spec));
  return serve::null_engine(std::move(spec),
                            {.batch_ns = static_cast<std::int64_t>(flags.batch_us * kMicrosecond),
                             .item_ns = static_cast<std::int64_t>(flags.item_us * kMicrosecond)});
}

// Of the model, without the version and the bucket that a service's name has.
std::string name_of(const std::string& service) {
  return profile::bucket_name(service).name.substr(0, service.rfind('@'));
}

// models/bert~128.onnx, as a template with {service} gives it, is models/bert.onnx where there is
// no such file.
std::string without_bucket(const std::string& path, const std::string& service) {
  const std::size_t at = path.rfind(service);
  std::error_code ignored;
  if (at == path.npos || std::filesystem::exists(path, ignored)) return path;
  std::string other = path;
  return other.replace(at, service.size(), profile::bucket_name(service).name);
}

struct Buckets {
  std::vector<std::int64_t> given = {};
  int learned = 0;
  std::int64_t usual = 0;
};

// "32,64", "learn" or "learn:8"; a service at one bucket, as bert~128, has that one.
Result<Buckets> buckets_of(const std::string& text, const std::string& service) {
  constexpr std::string_view kLearn = "learn";
  Buckets buckets;
  if (const auto named = profile::bucket_name(service); named.bucket > 0) {
    if (!text.empty())
      return bad_input("--buckets", fmt::format("'{}' has one already: {}", service, named.bucket));
    return Buckets{.given = {named.bucket}, .usual = named.bucket};
  }
  if (text == kLearn) {
    buckets.learned = kLearnedBuckets;
  } else if (text.starts_with(kLearn) && text[kLearn.size()] == ':') {
    const auto most = parse_number<int>(std::string_view(text).substr(kLearn.size() + 1));
    if (!most || *most < 1 || *most > kMostLearned)
      return bad_input("--buckets", fmt::format("'{}': say learn or learn:N, N from 1 to {}", text,
                                                kMostLearned));
    buckets.learned = *most;
  } else if (!text.empty()) {
    const auto sizes = TRY(serve::parse_counts("--buckets", text, kMaxBucket));
    buckets.given.assign(sizes.begin(), sizes.end());
  }
  return buckets;
}

// What config.pbtxt in a model's folder says, less what the flags say otherwise.
Result<serve::ModelConfig> config_of(Context& context, const std::string& folder,
                                     WorkerFlags& flags) {
  const std::string path = folder + "/config.pbtxt";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored) || !context.files.exists(path))
    return serve::ModelConfig{};
  const std::string text = TRY(context.files.read(path));
  Result<serve::ModelConfig> config = serve::parse_model_config(path, text);
  if (config && config->max_batch) flags.batch = std::min(flags.batch, *config->max_batch);
  if (config && !config->left.empty())
    note(context, fmt::format("worker: {}: what it says of {} is decided by the plan\n", path,
                              joined(config->left, ", ")));
  return config;
}

Result<serve::EnginePointer> onnx_engine_of(Context& context, WorkerFlags& flags,
                                            serve::ChosenShapes shapes,
                                            const std::string& service) {
  const serve::OrtLibrary library =
      TRY(serve::OrtLibrary::load(serve::onnxruntime_places(own_program())));
  const serve::ChosenAxes axes = TRY(serve::parse_axes(flags.axes));
  const serve::ChosenValues values = TRY(serve::parse_values(flags.values));
  auto states = TRY(serve::parse_states(flags.states));
  Buckets buckets = TRY(buckets_of(flags.buckets, service));
  const std::string path = without_bucket(flags.model, service);
  serve::ModelConfig config = TRY(config_of(context, path, flags));
  const bool file_has_shapes = !config.shapes.empty(), file_has_states = !config.states.empty();
  shapes.merge(config.shapes);
  if (states.empty()) states.merge(config.states);
  const serve::ModelFile file = TRY(serve::model_file_of(path, flags.version, config.file));
  auto engine =
      serve::ort_engine(library, {.model_file = file.path,
                                  .name = flags.name.empty() ? name_of(service) : flags.name,
                                  .version = file.version,
                                  .max_batch = flags.batch,
                                  .threads = flags.threads,
                                  .spin = flags.spin,
                                  .gpu = !flags.no_gpu,
                                  .shapes = shapes,
                                  .axes = axes,
                                  .values = values,
                                  .buckets = std::move(buckets.given),
                                  .learned_buckets = buckets.learned,
                                  .usual = buckets.usual,
                                  .states = states,
                                  .cache = config.cache,
                                  .text_bytes = static_cast<std::size_t>(flags.text_bytes),
                                  .open_bytes = static_cast<std::size_t>(flags.open_bytes)});
  if (engine) return engine;
  const std::string& of = engine.error().context;
  if ((of == "--input-shape" && flags.shapes.empty() && file_has_shapes) ||
      (of == "--carry" && flags.states.empty() && file_has_states))
    engine.error().context = path + "/config.pbtxt";
  return engine;
}

Result<serve::EnginePointer> engine_of(Context& context, WorkerFlags& flags,
                                       const std::string& service) {
  if (flags.null) return null_engine_of(flags, service);
  const serve::ChosenShapes shapes = TRY(serve::parse_shapes(flags.shapes));
  if (!flags.forward.empty()) {
    const Url url = TRY(serve::parse_server_url("--forward", flags.forward));
    const auto timeout = TRY(parse_nanos("--timeout", flags.timeout));
    return serve::forward_engine({.url = url,
                                  .name = flags.name.empty() ? service : flags.name,
                                  .max_batch = flags.batch,
                                  .timeout_ns = timeout,
                                  .shapes = shapes,
                                  .text_bytes = static_cast<std::size_t>(flags.text_bytes)});
  }
  return onnx_engine_of(context, flags, shapes, service);
}

// The models of a folder: NAME.onnx, and folders NAME as one model has them.
Result<std::vector<std::string>> models_in(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code fault;
  for (const auto& entry : std::filesystem::directory_iterator(folder, fault)) {
    std::error_code ignored;
    const std::filesystem::path& path = entry.path();
    if (entry.is_directory(ignored)) names.push_back(path.filename().string());
    if (path.extension() == ".onnx") names.push_back(path.stem().string());
  }
  if (fault) return environment_error(folder, fault.message());
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  if (names.empty()) return bad_input("--model", fmt::format("{} holds no model", folder));
  return names;
}

// A model of a set, as if it were alone. Nothing is said of its file but by whom it is asked for.
Result<serve::EnginePointer> model_of_set(Context& context, WorkerFlags flags,
                                          const std::string& model) {
  if (flags.null && flags.load_us > 0)
    std::this_thread::sleep_for(std::chrono::duration<double, std::micro>(flags.load_us));
  if (!flags.null) {
    std::error_code ignored;
    const std::string folder = flags.model + "/" + model;
    flags.model = std::filesystem::is_directory(folder, ignored) ? folder : folder + ".onnx";
    flags.name = model;
  }
  return engine_of(context, flags, model);
}

Result<serve::EnginePointer> set_of(Context& context, const WorkerFlags& flags,
                                    const std::string& service) {
  if (!flags.forward.empty())
    return bad_input("--hold-models", "a server behind --forward loads its models itself");
  std::vector<std::string> models =
      TRY(flags.null ? Result<std::vector<std::string>>() : models_in(flags.model));
  return serve::set_engine(
      {.name = service,
       .held = static_cast<std::size_t>(flags.hold),
       .models = std::move(models),
       .load = [&context,
                flags](const std::string& model) { return model_of_set(context, flags, model); },
       .now_ns = serve::steady_ns});
}

// SIGTERM, SIGINT and SIGHUP as a descriptor that becomes readable. Blocked for all threads.
Result<Descriptor> leave_signals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    if (now.sa_handler != SIG_IGN) sigaddset(&signals, signal);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  Descriptor fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (fd.get() < 0) return environment_error("worker", "cannot wait for signals");
  return fd;
}

Result<void> serve_streams(const WorkerFlags& flags, const serve::LoopOptions& loop) {
  const Url url = TRY(serve::parse_server_url("--forward", flags.forward));
  const auto timeout = TRY(parse_nanos("--timeout", flags.timeout));
  serve::Streams streams(
      {.url = url, .name = loop.seat.service, .max_batch = flags.batch, .timeout_ns = timeout});
  return serve::run_worker(streams, loop);
}

// Goes where --cpus or --instance say; how many threads a batch gets.
Result<int> pin(const WorkerFlags& flags) {
  if (flags.cpus.empty() && flags.units.empty()) return std::max(1, flags.threads);
  if (!flags.cpus.empty() && !flags.units.empty())
    return bad_input("--instance", "and --cpus say the same thing; give one of them");
  const std::vector<int> cpus =
      TRY(flags.cpus.empty() ? serve::cpus_of_units("--instance", flags.units, serve::usable_cpus())
                             : serve::parse_cpus("--cpus", flags.cpus));
  TRY(serve::pin_to(cpus));
  if (flags.threads > 0) return flags.threads;
  return flags.units.empty() ? 1 : static_cast<int>(cpus.size());
}

Result<Exit> run_worker_command(Context& context, WorkerFlags flags) {
  const int kinds =
      (flags.model.empty() ? 0 : 1) + (flags.forward.empty() ? 0 : 1) + (flags.null ? 1 : 0);
  if (kinds != 1) return bad_input("worker", "say one of --model, --forward, --null");
  if (flags.openai && flags.forward.empty())
    return bad_input("--openai", "says what the server of --forward speaks");
  std::string service = flags.service;
  if (service.empty()) service = std::filesystem::path(flags.model).stem().string();
  if (service.empty()) return bad_input("--service", "say whose requests this worker wants");
  if (flags.with_parent) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Descriptor leave = TRY(leave_signals());
  flags.threads = TRY(pin(flags));
  const std::string place = environment_variable("PARTITA_WORKER");
  const serve::LoopOptions loop{
      .seat = {.link = link_of(flags, place), .place = place, .service = service},
      .leave_fd = leave.get(),
      .say = [&](const std::string& line) { note(context, "worker: " + line + "\n"); }};
  if (flags.openai) {
    TRY(serve_streams(flags, loop));
    return Exit::done;
  }
  const serve::EnginePointer engine =
      TRY(flags.hold > 0 ? set_of(context, flags, service) : engine_of(context, flags, service));
  TRY(serve::run_worker(*engine, loop));
  return Exit::done;
}

// partita engine: a stand-in for an engine of a language model, for tests and measurements.

struct EngineFlags {
  serve::StandinOptions standin = {};
  std::string cost = "step=10,sequence=0.1,prompt_token=0.05";
  std::int64_t kv_tokens = 100'000;
  bool no_metrics = false;
};

Result<profile::StepCost> step_cost(const std::string& text) {
  profile::StepCost cost;
  const std::pair<std::string_view, double*> keys[] = {{"step", &cost.step},
                                                       {"sequence", &cost.sequence},
                                                       {"cached_token", &cost.cached_token},
                                                       {"prompt_token", &cost.prompt_token}};
  for (const std::string& word : split(text, ',')) {
    const std::size_t equals = word.find('=');
    double* place = nullptr;
    for (const auto& [key, value] : keys)
      if (word.substr(0, equals) == key) place = value;
    if (place == nullptr || equals == std::string::npos)
      return bad_input("--step-cost", fmt::format("'{}' is no KEY=MS", word));
    const char* const end = word.data() + word.size();
    const auto [at, error] = std::from_chars(word.data() + equals + 1, end, *place);
    if (error != std::errc() || at != end || !(*place >= 0 && *place <= 1e6))
      return bad_input("--step-cost", fmt::format("'{}' is not 0 to 1,000,000 ms", word));
  }
  return cost;
}

Result<Exit> run_engine(Context& context, const EngineFlags& flags) {
  serve::StandinOptions options = flags.standin;
  options.spec.cost = TRY(step_cost(flags.cost));
  options.metrics = !flags.no_metrics;
  options.spec.blocks = (flags.kv_tokens - 1) / profile::kBlockTokens + 1;
  options.spec.step_tokens = std::max(options.spec.step_tokens, options.spec.sequences);
  auto loop = TRY(serve::Loop::make());
  auto opened = TRY(serve::Standin::open(*loop, options));
  bool asked = false;
  TRY(loop->on_signals({SIGINT, SIGTERM, SIGHUP}, [&](int) {
    if (std::exchange(asked, true) || opened->open_requests() == 0) return loop->stop();
    opened->drain();
  }));
  serve::Loop::Timer ending(*loop, [&](std::int64_t due) {
    if (asked && opened->open_requests() == 0) return loop->stop();
    ending.at(due + 50'000'000);
  });
  ending.at(serve::Loop::now_ns());
  say(context, fmt::format("listening at port {}\n", opened->port()));
  loop->run();
  return Exit::done;
}

}  // namespace

Command add_worker(CLI::App& app) {
  auto [command, flags] = adding<WorkerFlags>(
      app, "worker", "Run one model for the gateway: ONNX Runtime, or another server behind it");
  command->group("");  // `partita workers` runs it
  flag(*command, "--model", flags->model);
  takes(*command, "--forward", flags->forward, "--openai", flags->openai);
  flag(*command, "--timeout", flags->timeout)->default_str("60s");
  flag(*command, "--null", flags->null);
  flags->inputs = {"x:FP32:256"};
  flags->outputs = {"y:FP32:256"};
  flag(*command, "--input", flags->inputs)->default_str("x:FP32:256");
  flag(*command, "--output-tensor", flags->outputs)->default_str("y:FP32:256");
  takes(*command, "--batch-us", limited(flags->batch_us, 0, 1e9), "--item-us",
        limited(flags->item_us, 0, 1e9), "--load-us", limited(flags->load_us, 0, 1e9), "--service",
        flags->service, "--name", flags->name, "--batch",
        within(flags->batch, 0, serve::kMaxLinkBatch), "--threads",
        limited(flags->threads, 1, kMaxThreads), "--cpus", flags->cpus, "--instance", flags->units,
        "--spin", flags->spin, "--input-shape", flags->shapes, "--text-bytes",
        within(flags->text_bytes, 1, 1 << 30), "--open-bytes",
        within(flags->open_bytes, 1, 1 << 30), "--batch-axis", flags->axes, "--value",
        flags->values, "--carry", flags->states, "--model-version", flags->version, "--buckets",
        flags->buckets, "--hold-models", limited(flags->hold, 0, plan::kMostSetModels), "--no-gpu",
        flags->no_gpu, "--link", flags->link, "--with-parent", flags->with_parent, "--state-dir",
        flags->state_directory);
  return runs(command, flags, run_worker_command,
              "partita worker --model resnet50.onnx --batch 16 --cpus 2-3 --threads 2");
}

Command add_engine(CLI::App& app) {
  auto [command, flags] = adding<EngineFlags>(
      app, "engine", "Stand in for an engine of a language model: take its time, compute nothing");
  command->group("");  // for tests and measurements
  flag(*command, "--listen", flags->standin.listen)->default_str("127.0.0.1:0");
  flag(*command, "--model", flags->standin.model)->default_str("standin");
  takes(*command, "--step-cost", preset(flags->cost), "--sequences",
        within(flags->standin.spec.sequences, 1, 100'000), "--step-tokens",
        within(flags->standin.spec.step_tokens, 1, 1'000'000), "--kv-tokens",
        within(flags->kv_tokens, 16, 1e9), "--no-metrics", flags->no_metrics);
  return runs(command, flags, run_engine,
              "partita engine --listen 127.0.0.1:9001 --model chat --step-cost "
              "step=10,sequence=0.1,prompt_token=0.05");
}

}  // namespace partita::cli
