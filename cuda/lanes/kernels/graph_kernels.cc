#include "lanes/kernels/graph_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "base/index.h"
#include "base/input.h"

namespace partita::carry {
namespace {

using plan::GraphBuffer;
using plan::GraphCode;
using plan::GraphTask;

ptx::Extent extent_of(const std::array<std::uint32_t, 3>& sizes) {
  return {sizes[0], sizes[1], sizes[2]};
}

std::uint64_t bytes_of(const GraphBuffer& buffer) {
  const auto type = element_type(buffer.type);
  return type ? buffer.count * type->bytes : 0;
}

// The type and the value of an argument that is no buffer.
std::pair<std::string, std::string> parts_of(const std::string& argument) {
  const std::size_t colon = argument.find(':');
  return {argument.substr(0, colon), argument.substr(std::min(colon, argument.size() - 1) + 1)};
}

}  // namespace

// A kernel, and what one launch of it is given.
struct GraphKernels::Kernel {
  std::string name;  // of the task
  bool of_library = false;
  ptx::Launch launch;    // of PTX, without parameters
  ptx::KernelInfo info;  // of PTX
  Function function = nullptr;
  std::vector<std::uint64_t> values;
  std::vector<void*> pointers;  // to values
  std::shared_ptr<ptx::Run> run;
  std::atomic<std::int64_t> left = 0;  // work-groups
  device::Kernel on_gpu;
  std::vector<std::size_t> buffers;  // that it uses
};

GraphKernels::GraphKernels(Files& files, std::string file, plan::GraphProblem problem,
                           device::LaneMemory* gpu)
    : files_(files), file_(std::move(file)), problem_(std::move(problem)), gpu_(gpu) {
  if (gpu_ != nullptr) on_gpu_.emplace(*gpu_);
}

GraphKernels::~GraphKernels() = default;

std::string GraphKernels::where(int line) const { return fmt::format("{}:{}", file_, line); }

// ---- what can be said before anything runs

Result<std::unique_ptr<GraphKernels>> GraphKernels::open(Files& files, const std::string& file,
                                                         plan::GraphProblem problem,
                                                         device::LaneMemory* gpu) {
  std::unique_ptr<GraphKernels> kernels(new GraphKernels(files, file, std::move(problem), gpu));
  std::uint64_t bytes = kSpareBytes;
  for (const GraphBuffer& buffer : kernels->problem_.buffers)
    bytes += bytes_of(buffer) + ptx::kAllocationAlignment;
  kernels->machine_ = TRY(ptx::Machine::open(bytes));
  TRY(kernels->check_buffers());
  for (const GraphTask& task : kernels->problem_.tasks) {
    kernels->kernels_.push_back(task.code ? std::make_unique<Kernel>() : nullptr);
    if (task.code) TRY(kernels->check(task, *kernels->kernels_.back()));
    if (gpu != nullptr && !task.code && task.kind == plan::GraphTaskKind::lane)
      return bad_input(kernels->where(task.line),
                       fmt::format("task '{}' has no code that a GPU runs", task.name));
  }
  return kernels;
}

Result<void> GraphKernels::check_buffers() {
  for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
    const GraphBuffer& buffer = problem_.buffers[i];
    buffer_of_.emplace(buffer.name, i);
    if (!buffer.fill.starts_with('@')) continue;
    if (const std::string path = beside(file_, buffer.fill.substr(1)); !files_.exists(path))
      return bad_input(
          where(buffer.line),
          fmt::format("buffer '{}' is filled of '{}', which is not there", buffer.name, path));
  }
  return {};
}

Result<void> GraphKernels::check(const GraphTask& task, Kernel& kernel) {
  const GraphCode& code = *task.code;
  kernel.name = task.name;
  kernel.of_library = !code.library.empty();
  std::set<std::size_t> buffers;
  for (const std::string& argument : code.arguments)
    if (const auto buffer = buffer_of_.find(argument); buffer != buffer_of_.end())
      buffers.insert(buffer->second);
  kernel.buffers.assign(buffers.begin(), buffers.end());
  for (const std::string* const file : {&code.library, &code.hip})
    if (!file->empty()) TRY(check_file(task, *file));
  if (!code.ptx.empty()) TRY(check_ptx(task, kernel));
  return gpu_ != nullptr ? load_on_gpu(task, kernel) : Result<void>{};
}

Result<void> GraphKernels::check_file(const GraphTask& task, const std::string& file) const {
  if (const std::string path = beside(file_, file); !files_.exists(path))
    return bad_input(where(task.line), fmt::format("task '{}' runs a kernel of '{}', which is not "
                                                   "there",
                                                   task.name, path));
  return {};
}

Result<void> GraphKernels::load_on_gpu(const GraphTask& task, Kernel& kernel) {
  const GraphCode& code = *task.code;
  const bool ptx = gpu_->code() == device::GpuCode::ptx;
  const std::string& file = ptx ? code.ptx : code.hip;
  if (file.empty())
    return bad_input(where(task.line),
                     fmt::format("task '{}' has no '{}', which {} GPUs run{}", task.name,
                                 ptx ? "ptx" : "hip", ptx ? "NVIDIA's" : "AMD's",
                                 kernel.of_library ? "; a library's functions "
                                                     "run on threads"
                                                   : ""));
  const std::string path = beside(file_, file);
  const auto refused = [&](const Error& error) {
    return bad_input(where(task.line), fmt::format("task '{}': {}, kernel '{}': {}", task.name,
                                                   path, code.kernel, to_string(error)));
  };
  if (!loaded_.contains(path)) {
    const auto content = TRY(read_input(files_, where(task.line), path));
    const auto loaded = gpu_->load(content);
    if (!loaded) return refused(loaded.error());
    loaded_[path] = *loaded;
  }
  const auto found = gpu_->find_kernel(loaded_[path], code.kernel, code.shared);
  if (!found) return refused(found.error());
  kernel.on_gpu = {
      task.groups,
      device::DeviceKernel{
          .function = *found, .grid = code.grid, .block = code.block, .shared_bytes = code.shared}};
  return {};
}

Result<void> GraphKernels::check_ptx(const GraphTask& task, Kernel& kernel) {
  const GraphCode& code = *task.code;
  // What threads cannot run a GPU may.
  const auto left_to_gpu = [this](const auto& result) {
    return gpu_ != nullptr && !result && result.error().code == ErrorCode::not_supported;
  };
  const std::string path = beside(file_, code.ptx);
  const auto refused = [&](const std::string& why) {
    return bad_input(where(task.line), fmt::format("task '{}': {}", task.name, why));
  };
  if (!modules_.contains(path)) {
    const auto text = files_.read(path);
    if (!text) return refused(fmt::format("{}: {}", path, text.error().message));
    const auto loaded = machine_->load(*text, path);
    if (left_to_gpu(loaded)) return {};
    modules_[path] = TRY(loaded);
  }
  const auto found = machine_->find_kernel(modules_[path], code.kernel);
  if (left_to_gpu(found)) return {};
  if (!found) return refused(fmt::format("{}: {}", path, found.error().message));
  const auto all = TRY(machine_->kernels(modules_[path]));
  kernel.info = all[found->index];
  if (code.arguments.size() != kernel.info.parameters.size())
    return refused(fmt::format("{} takes {} arguments; there are {}", code.kernel,
                               kernel.info.parameters.size(), code.arguments.size()));
  for (std::size_t i = 0; i < code.arguments.size(); ++i) {
    const auto type = element_type(parts_of(code.arguments[i]).first);
    const std::size_t size = buffer_of_.contains(code.arguments[i]) || !type ? 8 : type->bytes;
    if (size != kernel.info.parameters[i].size)
      return refused(fmt::format("argument {} of {} has {} bytes; '{}' has {}", i + 1, code.kernel,
                                 kernel.info.parameters[i].size, code.arguments[i], size));
  }
  kernel.launch.kernel = *found;
  kernel.launch.grid = extent_of(code.grid);
  kernel.launch.block = extent_of(code.block);
  kernel.launch.dynamic_shared = code.shared;
  ptx::Launch tried = kernel.launch;
  tried.parameters.resize(kernel.info.parameter_bytes);
  const auto launched = machine_->prepare(std::move(tried));
  return launched ? Result<void>{} : refused(launched.error().message);
}

// ---- before a run

Result<void> GraphKernels::take_buffers() {
  for (std::size_t i = addresses_.size(); i < problem_.buffers.size(); ++i) {
    const std::uint64_t size = bytes_of(problem_.buffers[i]);
    if (gpu_ != nullptr) TRY(on_gpu_->add(size, !problem_.buffers[i].save.empty()));
    addresses_.push_back(gpu_ != nullptr ? on_gpu_->address(i) : TRY(machine_->allocate(size)));
  }
  return {};
}

Result<void> GraphKernels::fill(std::size_t number) {
  const GraphBuffer& buffer = problem_.buffers[number];
  const auto memory = gpu_ != nullptr
                          ? on_gpu_->host(number)
                          : TRY(machine_->writable(addresses_[number], bytes_of(buffer)));
  const auto type = TRY(element_type(buffer.type));
  if (!buffer.fill.starts_with('@')) return fill_elements(memory, type, buffer.fill);
  const std::string path = beside(file_, buffer.fill.substr(1));
  const auto content = TRY(read_input(files_, where(buffer.line), path));
  if (content.size() != memory.size())
    return bad_input(where(buffer.line),
                     fmt::format("buffer '{}' has {} bytes, {} has {}", buffer.name, memory.size(),
                                 path, content.size()));
  std::memcpy(memory.data(), content.data(), memory.size());
  return {};
}

Result<void> GraphKernels::find_function(const GraphTask& task, Kernel& kernel) {
  // The loader looks in its own folders for a name without one.
  std::string path = beside(file_, task.code->library);
  if (path.find('/') == path.npos) path = "./" + path;
  auto library = libraries_.find(path);
  if (library == libraries_.end()) {
    auto loaded = SharedLibrary::open({path});
    if (!loaded) return bad_input(where(task.line), loaded.error());
    library = libraries_.emplace(path, *std::move(loaded)).first;
  }
  kernel.function = library->second.find(task.code->kernel.c_str());
  if (kernel.function) return {};
  return bad_input(where(task.line),
                   fmt::format("task '{}': {} has no function '{}' that is exported", task.name,
                               path, task.code->kernel));
}

// The bytes of each argument. A library works with addresses of this process, PTX with its own.
Result<std::vector<std::uint64_t>> GraphKernels::values(const GraphTask& task) const {
  std::vector<std::uint64_t> values;
  for (const std::string& argument : task.code->arguments) {
    if (const auto buffer = buffer_of_.find(argument); buffer == buffer_of_.end()) {
      const auto [word, value] = parts_of(argument);
      const auto type = TRY(element_type(word));
      values.push_back(TRY(element_bits(type, value)));
    } else if (!task.code->library.empty()) {
      const auto memory = TRY(bytes(buffer->second));
      values.push_back(reinterpret_cast<std::uintptr_t>(memory.data()));
    } else {
      values.push_back(addresses_[buffer->second]);
    }
  }
  return values;
}

Result<void> GraphKernels::prepare(const GraphTask& task, Kernel& kernel) {
  kernel.left = task.groups;
  kernel.values = TRY(values(task));
  kernel.pointers.clear();
  for (std::uint64_t& value : kernel.values) kernel.pointers.push_back(&value);
  if (gpu_ != nullptr) {
    std::get<device::DeviceKernel>(kernel.on_gpu.code).arguments = kernel.pointers;
    return {};
  }
  if (kernel.of_library) return kernel.function ? Result<void>{} : find_function(task, kernel);
  if (task.code->ptx.empty())
    return bad_input(where(task.line),
                     fmt::format("task '{}' has no 'ptx', which threads run", task.name));
  ptx::Launch launch = kernel.launch;
  launch.parameters.resize(kernel.info.parameter_bytes);
  for (std::size_t i = 0; i < kernel.values.size(); ++i) {
    const ptx::ParameterLayout& layout = kernel.info.parameters[i];
    std::memcpy(&launch.parameters[layout.offset], &kernel.values[i], layout.size);
  }
  kernel.run = TRY(machine_->prepare(std::move(launch)));
  return {};
}

Result<void> GraphKernels::arm() {
  TRY(take_buffers());
  for (std::size_t buffer = 0; buffer < problem_.buffers.size(); ++buffer) TRY(fill(buffer));
  for (std::size_t task = 0; task < kernels_.size(); ++task)
    if (kernels_[task]) TRY(prepare(problem_.tasks[task], *kernels_[task]));
  std::vector<int> users(problem_.buffers.size());
  for (const auto& kernel : kernels_)
    for (const std::size_t buffer : kernel ? kernel->buffers : std::vector<std::size_t>{})
      ++users[buffer];
  if (gpu_ != nullptr) on_gpu_->begin(users);
  faulty_ = nullptr;
  return {};
}

// ---- a run

void GraphKernels::put(int task, exec::LaneWork& work) {
  Kernel* const kernel = kernels_[at(task)].get();
  work.run = [this, kernel](std::int64_t group) { run(*kernel, group); };
  if (gpu_ == nullptr) return;
  const exec::OnLane queue = [this, kernel](device::LaneDriver& driver, int lane) -> Result<void> {
    TRY(on_gpu_->bring(driver, lane, kernel->buffers));
    return driver.launch(lane, kernel->on_gpu);
  };
  const exec::OnLane behind = [this, kernel](device::LaneDriver& driver, int lane) {
    return on_gpu_->leave(driver, lane, kernel->buffers);
  };
  work.gpu = std::make_shared<const exec::GpuWork>(exec::GpuWork{queue, behind});
}

void GraphKernels::run(Kernel& kernel, std::int64_t group) {
  if (kernel.of_library) {
    if (faulty_ == nullptr) kernel.function(group, kernel.pointers.data());
    return;
  }
  kernel.run->execute(group);
  if (kernel.left.fetch_sub(1, std::memory_order_acq_rel) != 1 || kernel.run->faults().empty())
    return;
  const Kernel* none = nullptr;
  if (!faulty_.compare_exchange_strong(none, &kernel)) return;
  for (const auto& other : kernels_)
    if (other && other->run && other.get() != &kernel) other->run->request_stop();
}

// ---- after it

std::string GraphKernels::fault() const {
  const Kernel* const kernel = faulty_;
  if (kernel == nullptr) return {};
  return fmt::format("task '{}': {}", kernel->name, ptx::to_text(kernel->run->faults()));
}

std::string GraphKernels::printed() const {
  std::string all;
  for (const auto& kernel : kernels_)
    if (kernel && kernel->run) all += kernel->run->printed();
  return all;
}

Result<std::span<const std::byte>> GraphKernels::bytes(std::size_t buffer) const {
  if (gpu_ != nullptr) return on_gpu_->host(buffer);
  return machine_->readable(addresses_[buffer], bytes_of(problem_.buffers[buffer]));
}

Result<void> GraphKernels::save() {
  for (std::size_t i = 0; i < problem_.buffers.size(); ++i) {
    const GraphBuffer& buffer = problem_.buffers[i];
    if (buffer.save.empty()) continue;
    const auto content = TRY(bytes(i));
    TRY(files_.write_atomic(beside(file_, buffer.save),
                            {reinterpret_cast<const char*>(content.data()), content.size()}));
  }
  return {};
}

}  // namespace partita::carry
