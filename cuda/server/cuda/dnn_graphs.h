// cuDNN's graphs of operations (its backend interface): descriptors that a program described and
// finalized, kept here by number, and the execution of its plans.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "server/library_calls.h"

namespace partita::remote::cuda {

class DnnGraphs {
 public:
  // `function`: those of the library by name, or null.
  explicit DnnGraphs(const std::function<void*(const char*)>& function);
  ~DnnGraphs();
  DnnGraphs(const DnnGraphs&) = delete;
  DnnGraphs& operator=(const DnnGraphs&) = delete;

  // cudnnBackendFinalize: u32 type, u32 attributes; each u32 name, u32 type, i64 elements, and
  //   the elements, descriptors by number, the library's handle as nothing. Answers the number.
  // cudnnBackendGetAttribute: u64 number, u32 name, u32 type, i64 room, i32 type of the descriptors
  //   that are wanted. Answers i64 elements and as many as there is room for; descriptors
  //   by number, each of them new.
  // cudnnBackendExecute, cudnnBackendDestroyDescriptor: as in the table of functions.
  server::Answered<server::LibraryAnswer> call(std::string_view function,
                                               const std::vector<server::LibraryArgument>& given,
                                               void* handle);

 private:
  using Descriptor = void*;
  struct Api {
    int (*create)(int, Descriptor*);
    int (*destroy)(Descriptor);
    int (*finalize)(Descriptor);
    int (*set)(Descriptor, int, int, std::int64_t, const void*);
    int (*get)(Descriptor, int, int, std::int64_t, std::int64_t*, void*);
    int (*execute)(void*, Descriptor, Descriptor);
    bool whole() const {
      return create != nullptr && destroy != nullptr && finalize != nullptr && set != nullptr &&
             get != nullptr && execute != nullptr;
    }
  };
  struct Fresh;  // a descriptor that goes unless it is kept

  server::Answered<server::LibraryAnswer> finalize(server::WireReader reader, void* handle);
  server::Answered<server::LibraryAnswer> get(server::WireReader reader);
  int execute(const std::vector<server::LibraryArgument>& given, void* handle);
  int set(Descriptor descriptor, server::WireReader& reader, void* handle);
  Descriptor find(std::uint64_t number) const;
  std::uint64_t keep(Descriptor descriptor);

  Api api_ = {};
  std::map<std::uint64_t, Descriptor> kept_ = {};
  std::uint64_t next_ = 1;
};

}  // namespace partita::remote::cuda
