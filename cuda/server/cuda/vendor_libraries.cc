#include "server/cuda/vendor_libraries.h"

#include <dlfcn.h>
#include <ffi.h>
#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <utility>

#include "base/check.h"
#include "server/cuda/dnn_graphs.h"

namespace partita::remote::cuda {

using server::Answered;
using server::LibraryAnswer;
using server::LibraryArgument;
using server::VendorLibrary;
using server::WireReader;

namespace {

struct Names {
  const char* files[2];
  const char* create;
  const char* destroy;
  const char* set_stream;
};
constexpr Names kNames[] = {
    {{"libcusolver.so.12", "libcusolver.so.11"},
     "cusolverDnCreate",
     "cusolverDnDestroy",
     "cusolverDnSetStream"},
    {{"libcudnn.so.9", nullptr}, "cudnnCreate", "cudnnDestroy", "cudnnSetStream"},
    {{"libcublas.so.13", "libcublas.so.12"},
     "cublasCreate_v2",
     "cublasDestroy_v2",
     "cublasSetStream_v2"},
};

}  // namespace

// One that is loaded, with its functions by name.
class VendorLibraries::Library {
 public:
  Library(const Names& names, void* loaded) : names_(names), loaded_(loaded) {}
  ~Library() {
    if (settings_ != nullptr) run("cusolverDnDestroyParams", settings_);
    if (handle_ != nullptr) run(names_.destroy, handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  void* function(const std::string& name) {
    const auto [entry, fresh] = functions_.emplace(name, nullptr);
    if (fresh) entry->second = ::dlsym(loaded_, name.c_str());
    return entry->second;
  }
  // The function with exactly these arguments, which answers a status; -1: there is none.
  template <class... Arguments>
  int run(const std::string& name, Arguments... arguments) {
    void* const found = function(name);
    if (found == nullptr) return -1;
    return reinterpret_cast<int (*)(Arguments...)>(found)(arguments...);
  }
  // The library's status: its handle, made at first, is on the stream.
  int handle_on(abi::Stream stream, void*& handle) {
    if (handle_ == nullptr)
      if (const int status = run(names_.create, &handle_); status != 0) return status;
    handle = handle_;
    return run(names_.set_stream, handle_, static_cast<void*>(stream));
  }
  void* settings() {
    if (settings_ == nullptr) run("cusolverDnCreateParams", &settings_);
    return settings_;
  }

 private:
  const Names& names_;
  void* const loaded_;  // for as long as the process
  void* handle_ = nullptr;
  void* settings_ = nullptr;
  std::map<std::string, void*> functions_ = {};
};

// The arguments of one call as the library wants them; they last until it has returned.
class VendorLibraries::Arguments {
 public:
  Arguments(Library& library, void* handle) : library_(library), handle_(handle) {}
  ~Arguments() {
    for (const auto& [destroy, object] : objects_) library_.run(destroy, object);
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  // `next`: the word of the argument behind it. The library's status.
  int add(const LibraryArgument& argument, std::uint64_t next) {
    switch (argument.kind) {
      case 'h':
        return pointer(handle_);
      case 'q':
        return pointer(library_.settings());
      case 'p':
        return pointer(reinterpret_cast<void*>(argument.word));
      case 'f':
        return pointer(work_.emplace_back(argument.bytes.begin(), argument.bytes.end()).data());
      case 'o':
      case 'O':
      case 'A':
        outs_.push_back({&words_.emplace_back(0), argument.kind == 'o' ? std::size_t{4} : 8});
        return pointer(outs_.back().word);
      case 'w':
        if (next > kMostWork) return kNoMemory;
        return pointer(next == 0 ? nullptr : work_.emplace_back(next).data());
      case 't':
        return tensor(argument.bytes);
      case 'v':
        return activation(argument.bytes);
      case 'r':
        return recurrent(argument.bytes);
      case 'x':
        return sequences(argument.bytes);
      case 'D':
        return object(kDropout, made_);
      case 'T':
        if (const int status = object(kTensor, made_); status != 0) return status;
        outs_.push_back({.tensor = made_});
        return 0;
      case 'F':
        return word(ffi_type_float, argument.word);
      case 'e':
        return jacobi(argument.bytes, "SyevjInfo", "cusolverDnXsyevjSet");
      case 'g':
        return jacobi(argument.bytes, "GesvdjInfo", "cusolverDnXgesvdjSet");
      case 'i':
        return word(ffi_type_sint32, argument.word);
      case 'd':
        return word(ffi_type_double, argument.word);
      default:
        return word(ffi_type_sint64, argument.word);
    }
  }

  // What the function returns: a status, or a size.
  std::uint64_t call(void* function, bool size) {
    ffi_cif interface;
    ffi_type* const returns = size ? &ffi_type_uint64 : &ffi_type_sint32;
    CHECK(::ffi_prep_cif(&interface, FFI_DEFAULT_ABI, static_cast<unsigned>(types_.size()), returns,
                         types_.data()) == FFI_OK);
    ffi_arg returned = 0;
    ::ffi_call(&interface, reinterpret_cast<void (*)()>(function), &returned, places_.data());
    return returned;
  }
  std::vector<std::byte> answered() const {
    std::vector<std::byte> all;
    const auto add = [&all](const void* from, std::size_t bytes) {
      const auto* const begin = static_cast<const std::byte*>(from);
      all.insert(all.end(), begin, begin + bytes);
    };
    for (const Out& out : outs_) {
      if (out.tensor == nullptr) {
        add(out.word, out.bytes);
        continue;
      }
      constexpr int kMost = 8;
      int head[2] = {}, numbers[2 * kMost] = {};  // dimensions, type; sizes, steps
      library_.run("cudnnGetTensorNdDescriptor", out.tensor, kMost, &head[1], &head[0], &numbers[0],
                   &numbers[kMost]);
      add(head, sizeof(head)), add(numbers, sizeof(numbers));
    }
    return all;
  }

 private:
  int word(ffi_type& type, std::uint64_t value) {
    types_.push_back(&type);
    places_.push_back(&words_.emplace_back(value));
    return 0;
  }
  int pointer(void* value) {
    return word(ffi_type_pointer, reinterpret_cast<std::uint64_t>(value));
  }
  // An object of a kind that is gone after the call.
  int make(const std::string& kind, void*& made) {
    const std::string prefix = kind.ends_with("Info") ? "cusolverDn" : "cudnn";
    if (const int status = library_.run(prefix + "Create" + kind, &made); status != 0)
      return status;
    objects_.emplace_back(prefix + "Destroy" + kind, made);
    return 0;
  }
  // And its address as an argument.
  int object(const std::string& kind, void*& made) {
    const int status = make(kind, made);
    return status != 0 ? status : pointer(made);
  }
  int tensor(std::span<const std::byte> bytes) {
    WireReader reader{bytes};
    const auto dimensions = reader.take<std::uint32_t>();
    if (dimensions == 0) return pointer(nullptr);
    const auto type = reader.take<std::int32_t>();
    std::vector<int> numbers(std::size_t{dimensions} * 2);
    for (int& number : numbers) number = reader.take<std::int32_t>();
    void* made = nullptr;
    if (const int status = object(kTensor, made); status != 0) return status;
    return library_.run("cudnnSetTensorNdDescriptor", made, type, static_cast<int>(dimensions),
                        static_cast<const int*>(numbers.data()),
                        static_cast<const int*>(numbers.data() + dimensions));
  }
  int activation(std::span<const std::byte> bytes) {
    WireReader reader{bytes};
    if (reader.take<std::uint32_t>() == 0) return pointer(nullptr);
    const auto mode = reader.take<std::int32_t>(), nans = reader.take<std::int32_t>();
    const auto coefficient = reader.take<double>();
    void* made = nullptr;
    if (const int status = object("ActivationDescriptor", made); status != 0) return status;
    return library_.run("cudnnSetActivationDescriptor", made, mode, nans, coefficient);
  }
  int recurrent(std::span<const std::byte> bytes) {
    WireReader reader{bytes};
    int numbers[12];
    for (int& number : numbers) number = reader.take<std::int32_t>();
    const auto flags = reader.take<std::uint32_t>();
    const auto dropped = reader.take<float>();
    void* const states = reinterpret_cast<void*>(reader.take<std::uint64_t>());
    const auto state_bytes = reader.take<std::uint64_t>();
    const auto seed = reader.take<std::uint64_t>();
    void *dropout = nullptr, *made = nullptr;
    int status = make(kDropout, dropout);
    // Its states are as the program's last run left them.
    if (status == 0)
      status = library_.run(
          states == nullptr ? "cudnnSetDropoutDescriptor" : "cudnnRestoreDropoutDescriptor",
          dropout, handle_, dropped, states, std::size_t{state_bytes},
          static_cast<unsigned long long>(seed));
    if (status == 0) status = object("RNNDescriptor", made);
    if (status != 0) return status;
    const auto& n = numbers;
    return library_.run("cudnnSetRNNDescriptor_v8", made, n[0], n[1], n[2], n[3], n[4], n[5], n[6],
                        n[7], n[8], n[9], n[10], n[11], dropout, flags);
  }
  int sequences(std::span<const std::byte> bytes) {
    WireReader reader{bytes};
    std::vector<int> lengths(reader.take<std::uint32_t>());
    if (lengths.empty()) return pointer(nullptr);
    const auto type = reader.take<std::int32_t>(), layout = reader.take<std::int32_t>();
    const auto longest = reader.take<std::int32_t>(), width = reader.take<std::int32_t>();
    auto filling = reader.take<std::uint64_t>();
    for (int& length : lengths) length = reader.take<std::int32_t>();
    void* made = nullptr;
    if (const int status = object("RNNDataDescriptor", made); status != 0) return status;
    return library_.run("cudnnSetRNNDataDescriptor", made, type, layout, longest,
                        static_cast<int>(lengths.size()), width,
                        static_cast<const int*>(lengths.data()), static_cast<void*>(&filling));
  }
  int jacobi(std::span<const std::byte> bytes, const std::string& kind, const std::string& set) {
    WireReader reader{bytes};
    const auto tolerance = reader.take<double>();
    const auto sweeps = reader.take<std::int32_t>(), sorted = reader.take<std::int32_t>();
    void* made = nullptr;
    int status = object(kind, made);
    if (status == 0 && tolerance >= 0) status = library_.run(set + "Tolerance", made, tolerance);
    if (status == 0 && sweeps >= 0) status = library_.run(set + "MaxSweeps", made, sweeps);
    if (status == 0 && sorted >= 0) status = library_.run(set + "SortEig", made, sorted);
    return status;
  }

  static constexpr std::uint64_t kMostWork = std::uint64_t{1} << 30;
  static constexpr int kNoMemory = 2;  // cusolverStatus_t, whose functions alone have such areas
  static constexpr const char* kTensor = "TensorDescriptor";
  static constexpr const char* kDropout = "DropoutDescriptor";
  struct Out {  // a number, or a tensor
    std::uint64_t* word = nullptr;
    std::size_t bytes = 0;
    void* tensor = nullptr;
  };

  Library& library_;
  void* const handle_;
  std::vector<ffi_type*> types_ = {};
  std::vector<void*> places_ = {};                // of the arguments
  std::deque<std::uint64_t> words_ = {};          // that they point at; none moves
  std::deque<std::vector<std::byte>> work_ = {};  // and factors
  std::vector<Out> outs_ = {};
  void* made_ = nullptr;
  std::vector<std::pair<std::string, void*>> objects_ = {};  // with what destroys them
};

VendorLibraries::VendorLibraries() = default;
VendorLibraries::~VendorLibraries() = default;

Answered<VendorLibraries::Library*> VendorLibraries::library(VendorLibrary which) {
  const auto at = static_cast<std::size_t>(which);
  if (libraries_[at] != nullptr) return libraries_[at].get();
  for (const char* file : kNames[at].files) {
    void* const loaded = file == nullptr ? nullptr : ::dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr) continue;
    libraries_[at] = std::make_unique<Library>(kNames[at], loaded);
    return libraries_[at].get();
  }
  return server::refuse(server::kNotSupported,
                        fmt::format("{} is not installed at the server", kNames[at].files[0]));
}

Answered<void> VendorLibraries::prepare(const server::CallWork& work) {
  const auto found = library(work.function->library);
  if (!found) return tl::unexpected<server::Refused>(found.error());
  void* handle = nullptr;
  if (const int status = (*found)->handle_on(nullptr, handle); status != 0)
    return server::refuse(server::kUnknown,
                          fmt::format("{}: no handle, status {}", work.function->name, status));
  return {};
}

Answered<LibraryAnswer> VendorLibraries::call(const server::CallWork& work, abi::Stream stream) {
  const server::LibraryFunction& function = *work.function;
  const auto found = library(function.library);
  if (!found) return tl::unexpected<server::Refused>(found.error());
  Library& library = **found;
  const auto given = server::arguments_of(function, work.arguments);
  if (!given) return tl::unexpected<server::Refused>(given.error());
  void* handle = nullptr;
  if (const int status = library.handle_on(stream, handle); status != 0)
    return LibraryAnswer{.status = status};
  if (function.name.starts_with("cudnnBackend")) {
    if (graphs_ == nullptr)
      graphs_ = std::make_unique<DnnGraphs>(
          [&library](const char* name) { return library.function(name); });
    return graphs_->call(function.name, *given, handle);
  }
  void* const code = library.function(std::string(function.name));
  if (code == nullptr)
    return server::refuse(server::kNotSupported,
                          fmt::format("{} is not in the server's library", function.name));
  Arguments arguments(library, handle);
  for (std::size_t i = 0; i < given->size(); ++i) {
    const std::uint64_t next = i + 1 < given->size() ? (*given)[i + 1].word : 0;
    if (const int status = arguments.add((*given)[i], next); status != 0)
      return LibraryAnswer{.status = status};
  }
  const bool size = function.kinds.starts_with('R');
  const std::uint64_t returned = arguments.call(code, size);
  LibraryAnswer answer{.results = arguments.answered()};
  if (!size) {
    answer.status = static_cast<std::int32_t>(returned);
    return answer;
  }
  answer.results.resize(sizeof(returned));
  std::memcpy(answer.results.data(), &returned, sizeof(returned));
  return answer;
}

void VendorLibraries::leave() {
  for (std::unique_ptr<Library>& one : libraries_)
    [[maybe_unused]] Library* const left = one.release();
  [[maybe_unused]] DnnGraphs* const left = graphs_.release();
}

}  // namespace partita::remote::cuda
