#include "server/cuda/dnn_graphs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/dnn_types.h"

namespace partita::remote::cuda {

using server::Answered;
using server::LibraryAnswer;
using server::WireReader;

namespace {

using dnn::kAddress;
using dnn::kDescriptor;
using dnn::kHandle;

// cudnnStatus_t
constexpr int kBadParameter = 2000, kNotSupported = 3000, kNoMemory = 4003;
constexpr std::size_t kMostKept = 1 << 20, kMostAnswered = 128 * 1024;

// Bytes of an element on the wire, a descriptor by its number; 0: of none that travels.
std::size_t bytes_of(int type) {
  return type == kHandle || type == kAddress ? 0 : dnn::bytes_of(type);
}

template <class T>
void append(std::vector<std::byte>& all, T value) {
  const auto* const begin = reinterpret_cast<const std::byte*>(&value);
  all.insert(all.end(), begin, begin + sizeof(T));
}

}  // namespace

struct DnnGraphs::Fresh {
  const Api& api;
  Descriptor descriptor = nullptr;
  ~Fresh() {
    if (descriptor != nullptr) api.destroy(descriptor);
  }
};

DnnGraphs::DnnGraphs(const std::function<void*(const char*)>& function) {
  const auto find = [&function]<class F>(const char* name, F& into) {
    into = reinterpret_cast<F>(function(name));
  };
  find("cudnnBackendCreateDescriptor", api_.create);
  find("cudnnBackendDestroyDescriptor", api_.destroy);
  find("cudnnBackendFinalize", api_.finalize);
  find("cudnnBackendSetAttribute", api_.set);
  find("cudnnBackendGetAttribute", api_.get);
  find("cudnnBackendExecute", api_.execute);
}

DnnGraphs::~DnnGraphs() {
  for (const auto& [number, descriptor] : kept_) api_.destroy(descriptor);
}

Answered<LibraryAnswer> DnnGraphs::call(std::string_view function,
                                        const std::vector<server::LibraryArgument>& given,
                                        void* handle) {
  if (!api_.whole())
    return server::refuse(server::kNotSupported, "the server's cuDNN has no graphs of operations");
  if (function == "cudnnBackendFinalize") return finalize({given[0].bytes}, handle);
  if (function == "cudnnBackendGetAttribute") return get({given[0].bytes});
  if (function == "cudnnBackendExecute") return LibraryAnswer{.status = execute(given, handle)};
  const auto found = kept_.find(given[0].word);
  if (found == kept_.end()) return LibraryAnswer{.status = kBadParameter};
  const LibraryAnswer answer{.status = api_.destroy(found->second)};
  kept_.erase(found);
  return answer;
}

DnnGraphs::Descriptor DnnGraphs::find(std::uint64_t number) const {
  const auto found = kept_.find(number);
  return found == kept_.end() ? nullptr : found->second;
}

std::uint64_t DnnGraphs::keep(Descriptor descriptor) {
  kept_.emplace(next_, descriptor);
  return next_++;
}

// One attribute; the library's status.
int DnnGraphs::set(Descriptor descriptor, WireReader& reader, void* handle) {
  const auto name = reader.take<std::int32_t>();
  const auto type = reader.take<std::int32_t>();
  const auto elements = reader.take<std::int64_t>();
  if (!reader.good || elements < 0 || elements > std::int64_t{kMostAnswered}) return kBadParameter;
  if (type == kHandle) return api_.set(descriptor, name, type, elements, &handle);
  const std::size_t each = bytes_of(type);
  if (each == 0) return kNotSupported;
  const std::span<const std::byte> bytes = reader.some(each * static_cast<std::size_t>(elements));
  if (!reader.good) return kBadParameter;
  std::vector<std::uint64_t> aligned(bytes.size() / 8 + 1);
  if (!bytes.empty()) std::memcpy(aligned.data(), bytes.data(), bytes.size());
  if (type == kDescriptor)
    for (std::int64_t i = 0; i < elements; ++i) {
      std::uint64_t& one = aligned[static_cast<std::size_t>(i)];
      const Descriptor found = find(one);
      if (found == nullptr) return kBadParameter;
      one = reinterpret_cast<std::uint64_t>(found);
    }
  return api_.set(descriptor, name, type, elements, aligned.data());
}

Answered<LibraryAnswer> DnnGraphs::finalize(WireReader reader, void* handle) {
  const auto type = reader.take<std::int32_t>();
  const auto attributes = reader.take<std::uint32_t>();
  if (!reader.good) return LibraryAnswer{.status = kBadParameter};
  if (kept_.size() >= kMostKept) return LibraryAnswer{.status = kNoMemory};
  Fresh fresh{api_};
  if (const int status = api_.create(type, &fresh.descriptor); status != 0)
    return LibraryAnswer{.status = status};
  for (std::uint32_t i = 0; i < attributes; ++i)
    if (const int status = set(fresh.descriptor, reader, handle); status != 0)
      return LibraryAnswer{.status = status};
  if (const int status = api_.finalize(fresh.descriptor); status != 0)
    return LibraryAnswer{.status = status};
  LibraryAnswer answer;
  append(answer.results, keep(std::exchange(fresh.descriptor, nullptr)));
  return answer;
}

Answered<LibraryAnswer> DnnGraphs::get(WireReader reader) {
  const Descriptor from = find(reader.take<std::uint64_t>());
  const auto name = reader.take<std::int32_t>();
  const auto type = reader.take<std::int32_t>();
  const auto room = reader.take<std::int64_t>();
  const auto kind = reader.take<std::int32_t>();
  const std::size_t each = bytes_of(type);
  if (!reader.good || from == nullptr || room < 0 || each == 0 ||
      static_cast<std::uint64_t>(room) > kMostAnswered / each ||
      kept_.size() + static_cast<std::size_t>(room) > kMostKept)
    return LibraryAnswer{.status = kBadParameter};
  std::vector<std::uint64_t> values(each * static_cast<std::size_t>(room) / 8 + 1);
  std::vector<std::uint64_t> made;
  const auto drop = [&](std::size_t first) {
    for (std::size_t i = first; i < made.size(); ++i)
      api_.destroy(reinterpret_cast<Descriptor>(made[i]));
  };
  LibraryAnswer answer;
  for (std::int64_t i = 0; type == kDescriptor && i < room && answer.status == 0; ++i) {
    Descriptor one = nullptr;
    answer.status = api_.create(kind, &one);
    if (answer.status == 0) made.push_back(reinterpret_cast<std::uint64_t>(one));
  }
  std::copy(made.begin(), made.end(), values.begin());
  std::int64_t elements = 0;
  if (answer.status == 0)
    answer.status =
        api_.get(from, name, type, room, &elements, room == 0 ? nullptr : values.data());
  const auto filled = static_cast<std::size_t>(std::clamp<std::int64_t>(elements, 0, room));
  if (answer.status != 0) {
    drop(0);
    return answer;
  }
  append(answer.results, elements);
  if (type == kDescriptor) {
    for (std::size_t i = 0; i < filled; ++i)
      append(answer.results, keep(reinterpret_cast<Descriptor>(made[i])));
    drop(filled);
  } else {
    const auto* const begin = reinterpret_cast<const std::byte*>(values.data());
    answer.results.insert(answer.results.end(), begin, begin + filled * each);
  }
  return answer;
}

// The plan with its tensors, in a pack made for it; the library's status.
int DnnGraphs::execute(const std::vector<server::LibraryArgument>& given, void* handle) {
  const Descriptor plan = find(given[0].word);
  if (plan == nullptr) return kBadParameter;
  std::vector<server::GraphTensor> tensors = server::graph_tensors(given[1].bytes);
  std::vector<std::int64_t> ids;
  std::vector<void*> places;
  for (server::GraphTensor& tensor : tensors) {
    ids.push_back(tensor.id);
    places.push_back(tensor.by_value ? &tensor.word : reinterpret_cast<void*>(tensor.word));
  }
  const auto count = static_cast<std::int64_t>(tensors.size());
  void* const workspace = reinterpret_cast<void*>(given[2].word);
  Fresh pack{api_};
  int status = api_.create(dnn::kVariantPack, &pack.descriptor);
  const auto add = [&](int name, int type, std::int64_t elements, const void* values) {
    if (status == 0) status = api_.set(pack.descriptor, name, type, elements, values);
  };
  add(dnn::kPointers, kAddress, count, places.data());
  add(dnn::kUniqueIds, dnn::kInteger, count, ids.data());
  add(dnn::kWorkspace, kAddress, 1, &workspace);
  if (status == 0) status = api_.finalize(pack.descriptor);
  return status != 0 ? status : api_.execute(handle, plan, pack.descriptor);
}

}  // namespace partita::remote::cuda
