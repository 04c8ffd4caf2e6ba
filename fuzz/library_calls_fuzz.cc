// Calls of functions of NVIDIA's libraries as a client sends them: the arguments, and the
// descriptors of cuDNN's graphs, with a library that lets only living descriptors in.
#include <cstdint>
#include <cstring>
#include <set>
#include <string_view>

#include "base/check.h"
#include "server/cuda/dnn_graphs.h"
#include "target.h"

namespace {

std::set<void*> living;

int create(int, void** made) {
  living.insert(*made = new char);
  return 0;
}
int destroy(void* one) {
  CHECK(living.erase(one) == 1);
  delete static_cast<char*>(one);
  return 0;
}
int finalize(void* one) {
  CHECK(living.contains(one));
  return 0;
}
int set(void* one, int, int type, std::int64_t elements, const void* values) {
  CHECK(living.contains(one));
  constexpr int kDescriptor = 15;
  for (std::int64_t i = 0; type == kDescriptor && i < elements; ++i)
    CHECK(living.contains(static_cast<void* const*>(values)[i]));
  return 0;
}
int get(void* one, int name, int, std::int64_t, std::int64_t* elements, void*) {
  CHECK(living.contains(one));
  *elements = name;  // also fewer than none, and more than there is room for
  return 0;
}
int execute(void*, void* plan, void* pack) {
  CHECK(living.contains(plan) && living.contains(pack));
  return 0;
}
void* function(const char* name) {
  const std::string_view is(name);
  if (is == "cudnnBackendCreateDescriptor") return reinterpret_cast<void*>(&create);
  if (is == "cudnnBackendDestroyDescriptor") return reinterpret_cast<void*>(&destroy);
  if (is == "cudnnBackendFinalize") return reinterpret_cast<void*>(&finalize);
  if (is == "cudnnBackendSetAttribute") return reinterpret_cast<void*>(&set);
  if (is == "cudnnBackendGetAttribute") return reinterpret_cast<void*>(&get);
  return reinterpret_cast<void*>(&execute);
}

constexpr const char* kNames[] = {"cudnnBackendFinalize",
                                  "cudnnBackendGetAttribute",
                                  "cudnnBackendExecute",
                                  "cudnnBackendDestroyDescriptor",
                                  "cudnnBatchNormalizationForwardTrainingEx",
                                  "cudnnRNNForward",
                                  "cusolverDnXpotrf",
                                  "cublasZgemm_v2"};

}  // namespace

// Calls one behind the other: a byte for the function, two for the length, the arguments.
FUZZ_TARGET(library_calls) {
  namespace server = partita::remote::server;
  {
    partita::remote::cuda::DnnGraphs graphs(function);
    server::WireReader reader{{reinterpret_cast<const std::byte*>(data), size}};
    while (true) {
      const char* const name = kNames[reader.take<std::uint8_t>() % std::size(kNames)];
      const std::span<const std::byte> bytes = reader.some(reader.take<std::uint16_t>());
      if (!reader.good) break;
      const server::LibraryFunction& called = *server::library_function(name);
      const auto arguments = server::arguments_of(called, bytes);
      if (!arguments) continue;
      CHECK(arguments->size() == called.kinds.size());
      static_cast<void>(server::addresses_in(*arguments));
      if (called.name.starts_with("cudnnBackend"))
        static_cast<void>(graphs.call(called.name, *arguments, nullptr));
    }
  }
  CHECK(living.empty());
  return 0;
}
