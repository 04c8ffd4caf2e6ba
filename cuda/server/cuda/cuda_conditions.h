// Conditions of a session's graphs on the GPU: a set of them belongs to a graph of the driver's,
// which is empty until somebody takes it and fills it. Thread rule: the context's.
#pragma once

#include <map>

#include "server/backend.h"
#include "server/cuda/context.h"

namespace partita::remote::cuda {

class Conditions final : public server::DeviceConditions {
 public:
  explicit Conditions(Context& context) : context_(context) {}
  ~Conditions() override;
  Conditions(const Conditions&) = delete;
  Conditions& operator=(const Conditions&) = delete;

  server::Answered<server::Id> create_set() override;
  server::Answered<std::uint64_t> add(server::Id set, std::uint32_t value, bool assign) override;
  void destroy_set(server::Id set) override;

  // The graph with these conditions, to be filled; once.
  server::Answered<abi::Graph> take(server::Id set);

 private:
  struct Set {
    abi::Graph graph = nullptr;
    bool taken = false;
  };
  Context& context_;
  std::map<server::Id, Set> sets_;
};

}  // namespace partita::remote::cuda
