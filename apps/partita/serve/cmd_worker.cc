// partita worker: one model behind the gateway, in this process.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>

#include "base/descriptor.h"
#include "commands.h"
#include "flags.h"
#include "node/devices.h"
#include "node/state_dir.h"
#include "places.h"
#include "serve/wire/frames.h"
#include "serve/worker/cpu_list.h"
#include "serve/worker/forward_engine.h"
#include "serve/worker/null_engine.h"
#include "serve/worker/ort_engine.h"
#include "serve/worker/worker_loop.h"

namespace partita::cli {
namespace {

constexpr int kMaxThreads = 1024;
constexpr double kMicrosecond = 1e3, kNanosPerSecond = 1e9;

struct WorkerFlags {
  std::string model, forward, service, cpus, units, link, state_directory, name;
  bool null = false, openai = false, no_gpu = false, spin = false, with_parent = false;
  int batch = 8, threads = 0, text_bytes = static_cast<int>(serve::kTextBytes);
  std::vector<std::string> shapes, inputs, outputs;
  double batch_us = 0, item_us = 0;
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
  const auto read = [](const char* flag, const std::vector<std::string>& texts,
                       std::vector<serve::TensorSpec>& into) -> Result<void> {
    for (const std::string& text : texts) {
      Result<serve::TensorSpec> tensor = serve::parse_tensor_spec(flag, text);
      if (!tensor) return failed(tensor.error());
      into.push_back(*std::move(tensor));
    }
    return {};
  };
  if (auto done = read("--input", flags.inputs, spec.inputs); !done) return failed(done.error());
  if (auto done = read("--output", flags.outputs, spec.outputs); !done) return failed(done.error());
  serve::give_text_room(spec, static_cast<std::size_t>(flags.text_bytes));
  if (auto good = serve::check_model("--null", spec); !good) return failed(good.error());
  return serve::null_engine(std::move(spec),
                            {.batch_ns = static_cast<std::int64_t>(flags.batch_us * kMicrosecond),
                             .item_ns = static_cast<std::int64_t>(flags.item_us * kMicrosecond)});
}

Result<serve::EnginePointer> engine_of(const WorkerFlags& flags, const std::string& service) {
  if (flags.null) return null_engine_of(flags, service);
  const Result<serve::ChosenShapes> shapes = serve::parse_shapes(flags.shapes);
  if (!shapes) return failed(shapes.error());
  if (!flags.forward.empty()) {
    const Result<Url> url = serve::parse_server_url("--forward", flags.forward);
    if (!url) return failed(url.error());
    const Result<Seconds> timeout = parse_duration("--timeout", flags.timeout);
    if (!timeout) return failed(timeout.error());
    return serve::forward_engine(
        {.url = *url,
         .name = flags.name.empty() ? service : flags.name,
         .max_batch = flags.batch,
         .timeout_ns = static_cast<std::int64_t>(timeout->value * kNanosPerSecond),
         .shapes = *shapes,
         .text_bytes = static_cast<std::size_t>(flags.text_bytes)});
  }
  std::error_code ignored;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  const Result<serve::OrtLibrary> library =
      serve::OrtLibrary::load(serve::onnxruntime_places(program));
  if (!library) return failed(library.error());
  return serve::ort_engine(*library, {.model_file = flags.model,
                                      .name = flags.name.empty() ? service : flags.name,
                                      .max_batch = flags.batch,
                                      .threads = flags.threads,
                                      .spin = flags.spin,
                                      .gpu = !flags.no_gpu,
                                      .shapes = *shapes,
                                      .text_bytes = static_cast<std::size_t>(flags.text_bytes)});
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
  const Result<Url> url = serve::parse_server_url("--forward", flags.forward);
  if (!url) return failed(url.error());
  const Result<Seconds> timeout = parse_duration("--timeout", flags.timeout);
  if (!timeout) return failed(timeout.error());
  serve::Streams streams(
      {.url = *url,
       .name = loop.seat.service,
       .max_batch = flags.batch,
       .timeout_ns = static_cast<std::int64_t>(timeout->value * kNanosPerSecond)});
  return serve::run_worker(streams, loop);
}

// Goes where --cpus or --units say; how many threads a batch gets.
Result<int> pin(const WorkerFlags& flags) {
  if (flags.cpus.empty() && flags.units.empty()) return std::max(1, flags.threads);
  if (!flags.cpus.empty() && !flags.units.empty())
    return bad_input("--units", "and --cpus say the same thing; give one of them");
  const Result<std::vector<int>> cpus =
      flags.cpus.empty() ? serve::cpus_of_units("--units", flags.units, serve::usable_cpus())
                         : serve::parse_cpus("--cpus", flags.cpus);
  if (!cpus) return failed(cpus.error());
  if (auto pinned = serve::pin_to(*cpus); !pinned) return failed(pinned.error());
  if (flags.threads > 0) return flags.threads;
  return flags.units.empty() ? 1 : static_cast<int>(cpus->size());
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
  const Result<Descriptor> leave = leave_signals();
  if (!leave) return failed(leave.error());
  const Result<int> threads = pin(flags);
  if (!threads) return failed(threads.error());
  flags.threads = *threads;
  const std::string place = environment_variable("PARTITA_WORKER");
  const serve::LoopOptions loop{
      .seat = {.link = link_of(flags, place), .place = place, .service = service},
      .leave_fd = leave->get(),
      .say = [&](const std::string& line) { note(context, "worker: " + line + "\n"); }};
  if (flags.openai) {
    if (auto served = serve_streams(flags, loop); !served) return failed(served.error());
    return Exit::done;
  }
  const Result<serve::EnginePointer> engine = engine_of(flags, service);
  if (!engine) return failed(engine.error());
  if (auto served = serve::run_worker(**engine, loop); !served) return failed(served.error());
  return Exit::done;
}

void add_null_flags(CLI::App& command, WorkerFlags& flags) {
  command.add_flag("--null", flags.null, "No model: copies inputs to outputs, for measurements");
  flags.inputs = {"x:FP32:256"};
  flags.outputs = {"y:FP32:256"};
  command.add_option("--input", flags.inputs, "Of --null: an input, NAME:TYPE:SIZES")
      ->type_name("TENSOR")
      ->default_str("x:FP32:256");
  command.add_option("--output", flags.outputs, "Of --null: an output, NAME:TYPE:SIZES")
      ->type_name("TENSOR")
      ->default_str("y:FP32:256");
  within(command.add_option("--batch-us", flags.batch_us,
                            "Of --null: a batch takes this long, in microseconds"),
         0, 1e9)
      ->type_name("N");
  within(command.add_option("--item-us", flags.item_us,
                            "Of --null: and every item of it this much longer"),
         0, 1e9)
      ->type_name("N");
}

void add_forward_flags(CLI::App& command, WorkerFlags& flags) {
  command
      .add_option("--forward", flags.forward,
                  "Send batches to this server of the Open Inference Protocol v2 instead")
      ->type_name("URL");
  command.add_flag("--openai", flags.openai,
                   "The server of --forward speaks OpenAI's protocol; answers may be streams");
  command.add_option("--timeout", flags.timeout, "How long the server of --forward may take")
      ->type_name("TIME")
      ->default_str("60s");
}

}  // namespace

Command add_worker(CLI::App& app) {
  auto flags = std::make_shared<WorkerFlags>();
  CLI::App* command = app.add_subcommand(
      "worker", "Run one model for the gateway: ONNX Runtime, or another server behind it");
  command->add_option("--model", flags->model, "The model to run, with ONNX Runtime")
      ->type_name("FILE");
  add_forward_flags(*command, *flags);
  add_null_flags(*command, *flags);
  command->add_option("--service", flags->service, "Whose requests; the model file's name")
      ->type_name("NAME");
  command->add_option("--name", flags->name, "The model's name, where it is not the service's")
      ->type_name("NAME");
  within(command->add_option("--batch", flags->batch, "Largest batch"), 1, serve::kMaxLinkBatch)
      ->type_name("N")
      ->default_str("8");
  within(command->add_option("--threads", flags->threads,
                             "Threads of a batch; 1, with --units as "
                             "many as units"),
         1, kMaxThreads)
      ->type_name("N");
  command->add_option("--cpus", flags->cpus, "Run on these CPUs alone, as in 0,2-3")
      ->type_name("LIST");
  command
      ->add_option("--units", flags->units,
                   "Run on the cores of this instance of CPU units, {profile}@{start} of "
                   "`partita workers`")
      ->type_name("PROFILE@START");
  command->add_flag("--spin", flags->spin, "Threads wait busily; for CPUs that nobody else uses");
  command
      ->add_option("--shape", flags->shapes,
                   "Sizes of an input that the model leaves open, as in tokens=128")
      ->type_name("INPUT=SIZES");
  within(command->add_option("--text-bytes", flags->text_bytes,
                             "Bytes of text that a tensor of BYTES may have in one item"),
         1, 1 << 30)
      ->type_name("N")
      ->default_str("4096");
  command->add_flag("--no-gpu", flags->no_gpu, "Leave the GPU alone even where one could be used");
  command->add_option("--link", flags->link, "The gateway's socket")->type_name("PATH");
  command->add_flag("--with-parent", flags->with_parent,
                    "Ends at once when the process that started it ends");
  add_state_dir(*command, flags->state_directory);
  command->footer("partita worker --model resnet50.onnx --batch 16 --cpus 2-3 --threads 2");
  return {command, [flags](Context& context) { return run_worker_command(context, *flags); }};
}

}  // namespace partita::cli
