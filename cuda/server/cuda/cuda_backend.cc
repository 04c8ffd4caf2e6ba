#include "server/cuda/cuda_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "wire/products.h"

namespace partita::remote::cuda {

using server::Answered;
using server::Completed;
using server::Id;
using server::ObjectKind;
using server::Refused;

// ---- begin and end ----

CudaBackend::CudaBackend(std::unique_ptr<Context> context, const CudaOptions& options)
    : context_(std::move(context)),
      on_lanes_(options.shared.has_value()),
      pinned_(*context_),
      holds_(*context_),
      memory_(*context_),
      modules_(*context_),
      events_(*context_),
      streams_(*context_, pinned_, on_lanes_ ? options.shared->lanes : std::vector<Lane>()),
      transfers_(*context_, pinned_, streams_),
      textures_(*context_, streams_),
      conditions_(*context_),
      maker_(*context_, streams_, conditions_),
      requests_(*context_, options.shared) {}

Result<std::unique_ptr<CudaBackend>> CudaBackend::open(const CudaOptions& options) {
  auto context = TRY(Context::open(options));
  std::unique_ptr<CudaBackend> backend(new CudaBackend(std::move(context), options));
  TRY(backend->start(options));
  return backend;
}

Result<void> CudaBackend::start(const CudaOptions& options) {
  device_ = TRY(context_->look(options));
  TRY(memory_.reserve(device_));
  // It calls the system's driver, so it is of no use beside another one.
  if (options.vendor_library == CudaOptions{}.vendor_library) blas_ = BlasLibrary::open();
  TRY(streams_.open());
  TRY(holds_.open());
  if (auto made = pinned_.make(options.pinned_ahead); !made)
    return environment_error("pinned memory", made.error().reason);
  return {};
}

// The context may be dead: what it refuses goes with the process.
CudaBackend::~CudaBackend() {
  if (context_->dead()) [[maybe_unused]]
    BlasLibrary* const left = (libraries_.leave(), blas_.release());
  blas_.reset();
  holds_.resume_all();
  if (on_lanes_ && !context_->dead()) streams_.wait_for_all();
  for (auto& [id, graph] : graphs_)
    if (graph.exec != nullptr) context_->api().cuGraphExecDestroy(graph.exec);
}

server::DeviceBackend::Polled CudaBackend::poll() {
  Polled polled{.queued = streams_.poll()};
  const bool watched = events_.poll();
  if (!context_->dead()) requests_.take_times();
  const bool busy = requests_.poll(streams_);
  polled.completed = context_->told();
  if (!polled.completed.empty()) context_->young();
  if (polled.queued > 0 || watched || busy) polled.again = context_->patience();
  return polled;
}

// ---- objects ----

Answered<Id> CudaBackend::create(const server::ObjectSpec& spec) {
  if (const auto* module = std::get_if<server::ModuleSpec>(&spec))
    return modules_.load(module->image);
  if (const auto* stream = std::get_if<server::StreamSpec>(&spec)) return streams_.create(*stream);
  if (const auto* event = std::get_if<server::EventSpec>(&spec)) return events_.create(*event);
  return create_graph(std::get<server::GraphSpec>(spec));
}

void CudaBackend::destroy(ObjectKind kind, Id id) {
  if (kind == ObjectKind::stream) return streams_.destroy(id);
  if (kind == ObjectKind::event) return events_.destroy(id);
  if (kind == ObjectKind::module) return modules_.unload(id);
  Graph& graph = graphs_.at(id);
  if (graph.exec != nullptr) context_->api().cuGraphExecDestroy(graph.exec);
  for (Pinned buffer : graph.buffers) pinned_.give_back(buffer);
  graphs_.erase(id);
}

// ---- work ----

static Answered<void> outcome_of(const server::CallWork& work,
                                 const Answered<server::LibraryAnswer>& answer) {
  if (!answer) return tl::unexpected<Refused>(answer.error());
  if (answer->status == 0) return {};
  return server::refuse(server::kUnknown,
                        fmt::format("{}: status {}", work.function->name, answer->status));
}

Answered<void> CudaBackend::enqueue(Id id, server::StreamWork work) {
  if (Answered<void> ok = capturing_ != nullptr ? Answered<void>() : streams_.order(id); !ok)
    return ok;
  Stream& stream = streams_.at(id);
  return std::visit(
      [&]<class Work>(const Work& what) -> Answered<void> {
        if constexpr (std::is_same_v<Work, server::CopyOutWork>) {
          requests_.request_ended(false);
          return transfers_.out(stream, what);
        } else if constexpr (std::is_same_v<Work, server::HoldWork>) {
          return hold(stream, what);
        } else {
          if (context_->dead()) return {};
          if constexpr (std::is_same_v<Work, server::CopyInWork>)
            return transfers_.in(stream, what,
                                 capturing_ == nullptr ? nullptr : &capturing_->buffers);
          if constexpr (std::is_same_v<Work, server::CopyWork>)
            return transfers_.within(stream.stream, what);
          if constexpr (std::is_same_v<Work, server::SetWork>)
            return transfers_.set(stream.stream, what);
          if constexpr (std::is_same_v<Work, server::GemmWork>)
            return multiply(id, stream, what.what);
          if constexpr (std::is_same_v<Work, server::CallWork>)
            return outcome_of(what, libraries_.call(what, stream.stream));
          if constexpr (std::is_same_v<Work, server::LaunchWork>) return launch(id, stream, what);
          if constexpr (std::is_same_v<Work, server::RecordWork>)
            return events_.record(stream.stream, what.event, capturing_ != nullptr);
          if constexpr (std::is_same_v<Work, server::WaitWork>)
            return events_.wait(stream.stream, what.event, capturing_ != nullptr);
          if constexpr (std::is_same_v<Work, server::GraphWork>) {
            const Graph& graph = graphs_.at(what.graph);
            if (graph.exec == nullptr) return enqueue_nodes(id, graph.spec);
            return context_->done("cuGraphLaunch",
                                  context_->api().cuGraphLaunch(graph.exec, stream.stream));
          }
          if constexpr (std::is_same_v<Work, server::BranchWork>)
            return what.kind == kOnce ? enqueue_nodes(id, *what.bodies.front())
                                      : maker_.add_branch(stream.stream, what);
          return {};
        }
      },
      work);
}

Answered<void> CudaBackend::multiply(Id id, Stream& stream, const Gemm& op) {
  if (blas_ == nullptr)
    return server::refuse(server::kNotSupported, "cuBLAS is not installed at the server");
  if ((op.alpha_at.value == 0) != (op.beta_at.value == 0))
    return server::refuse(server::kNotSupported, "one factor here and one on the device");
  if (op.m == 0 || op.n == 0 || op.batch == 0) return {};
  if (capturing_ == nullptr) {
    const auto [grid, block] = product_shape(op);
    if (Answered<void> ok = requests_.begin(streams_, id, kProduct, {.grid = grid, .block = block});
        !ok)
      return ok;
  }
  const int status = blas_->multiply(op, stream.stream);
  if (capturing_ == nullptr) requests_.end_kernel(stream.stream, status == 0);
  if (status != 0)
    return server::refuse(server::kUnknown, fmt::format("cuBLAS: status {}", status));
  return {};
}

Answered<server::LibraryAnswer> CudaBackend::ask(Id id, const server::CallWork& work) {
  if (Answered<void> ok = streams_.order(id); !ok) return tl::unexpected<Refused>(ok.error());
  if (context_->dead()) return server::refuse(server::kUnknown, "the device is lost");
  return libraries_.call(work, streams_.at(id).stream);
}

Answered<void> CudaBackend::launch(Id id, Stream& stream, const server::LaunchWork& work) {
  if (capturing_ != nullptr) return modules_.launch(stream.stream, work);
  if (Answered<void> ok = requests_.begin(streams_, id, modules_.name_of(work.kernel), work); !ok)
    return ok;
  Answered<void> ok = modules_.launch(stream.stream, work);
  requests_.end_kernel(stream.stream, ok.has_value());
  return ok;
}

// The stream says where it is, then waits until a word becomes 1.
Answered<void> CudaBackend::hold(Stream& stream, const server::HoldWork& work) {
  const Answered<std::uint64_t> hold = holds_.take();
  if (!hold) return tl::unexpected<Refused>(hold.error());
  Completed tell{.kind = Completed::Kind::held, .tag = work.tag, .hold = *hold};
  if (Answered<void> ok = streams_.mark(stream, {.tell = std::move(tell)}); !ok || context_->dead())
    return ok;
  return holds_.wait(stream.stream, *hold);
}

// On lanes the context is everybody's.
Answered<void> CudaBackend::limit_heap(std::uint64_t bytes) {
  if (on_lanes_) return bytes <= kHeapBytes ? Answered<void>() : DeviceBackend::limit_heap(bytes);
  constexpr int kMallocHeapSize = 2;  // CUlimit
  return context_->done("cuCtxSetLimit", context_->api().cuCtxSetLimit(kMallocHeapSize, bytes));
}

void CudaBackend::watch(ObjectKind kind, Id id, std::uint64_t tag) {
  if (kind == ObjectKind::event) return events_.watch(id, tag);
  Completed tell{.kind = Completed::Kind::reached, .tag = tag};
  Answered<void> ok = streams_.order(id);
  if (ok) ok = streams_.mark(streams_.at(id), {.tell = tell});
  if (!ok) context_->tell(std::move(tell));
}

bool CudaBackend::finished(ObjectKind kind, Id id) {
  if (context_->dead()) return true;
  return kind == ObjectKind::event ? events_.finished(id) : streams_.finished(id);
}

// ---- graphs ----

// Whether a node, or one in a body of a branch, is such.
static bool has(const server::GraphSpec& spec, bool (*such)(const server::StreamWork&)) {
  return std::ranges::any_of(spec.nodes, [such](const server::GraphSpec::Node& node) {
    const auto* branch = std::get_if<server::BranchWork>(&node.work);
    if (node.empty) return false;
    return such(node.work) ||
           (branch != nullptr && std::ranges::any_of(branch->bodies, [such](const auto& body) {
              return has(*body, such);
            }));
  });
}

// Whether CUDA can run it whole, where nothing in it is the client's to do; else why not.
static Answered<bool> is_whole(const server::GraphSpec& spec) {
  const bool decides = has(spec, [](const server::StreamWork& work) {
    const auto* branch = std::get_if<server::BranchWork>(&work);
    return branch != nullptr && branch->kind != kOnce;
  });
  const bool asks = has(spec, [](const server::StreamWork& work) {
    return std::holds_alternative<server::CopyOutWork>(work) ||
           std::holds_alternative<server::HoldWork>(work);
  });
  if (decides && asks)
    return server::refuse(server::kNotSupported,
                          "functions of the program beside conditional nodes in a graph, on a GPU");
  if (decides && spec.conditions == 0)
    return server::refuse(server::kNotSupported, "conditional nodes that go by words, on a GPU");
  return !asks;
}

// Handles of libraries, which cannot be made during a capture.
static Answered<void> prepare(const server::GraphSpec& spec, VendorLibraries& libraries,
                              BlasLibrary* blas) {
  Answered<void> ok;
  for (const server::GraphSpec::Node& node : spec.nodes) {
    if (!ok || node.empty) continue;
    if (const auto* call = std::get_if<server::CallWork>(&node.work)) ok = libraries.prepare(*call);
    if (const int status = blas != nullptr && std::holds_alternative<server::GemmWork>(node.work)
                               ? blas->prepare()
                               : 0;
        status != 0)
      return server::refuse(server::kUnknown, fmt::format("cuBLAS: status {}", status));
    if (const auto* branch = std::get_if<server::BranchWork>(&node.work))
      for (const auto& body : branch->bodies)
        if (ok) ok = prepare(*body, libraries, blas);
  }
  return ok;
}

Answered<Id> CudaBackend::create_graph(const server::GraphSpec& spec) {
  const Answered<bool> whole = is_whole(spec);
  if (!whole) return tl::unexpected<Refused>(whole.error());
  const Id id = context_->next_id();
  Graph& graph = graphs_[id];
  graph.spec = spec;
  if (!*whole) return id;
  Answered<abi::GraphExec> made;
  if (const Answered<void> ready = prepare(graph.spec, libraries_, blas_.get()); !ready) {
    made = tl::unexpected<Refused>(ready.error());
  } else {
    capturing_ = &graph;
    made = maker_.make(graph.spec, [this](Id stream, const server::GraphSpec& nodes) {
      return enqueue_nodes(stream, nodes);
    });
    capturing_ = nullptr;
  }
  if (!made) {
    destroy(ObjectKind::graph, id);
    return tl::unexpected<Refused>(made.error());
  }
  graph.exec = *made;
  return id;
}

Answered<void> CudaBackend::enqueue_nodes(Id stream, const server::GraphSpec& spec) {
  Answered<void> ok;
  for (const server::GraphSpec::Node& node : spec.nodes)
    if (ok && !node.empty) ok = enqueue(stream, node.work);
  return ok;
}

}  // namespace partita::remote::cuda
