// UnaryServer: a gRPC server on a Unix socket whose calls are one message each way. gRPC's threads
// take the calls; they are answered one after another on a thread of the server's own.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"

namespace partita::dra {

// The kubelet has a handful at a time; beyond it calls are refused (RESOURCE_EXHAUSTED).
inline constexpr std::size_t kMaxCalls = 64;
inline constexpr int kMaxCallBytes = 1 << 20;

// Answers a call of "/package.Service/Method"; not_supported: there is no such method.
using UnaryMethod = std::function<Result<std::string>(std::string_view method,
                                                      std::span<const std::string_view> message)>;

class UnaryServer {
 public:
  // Listens at `path`, where what is left of an earlier server is replaced; mode 0600.
  static Result<UnaryServer> open(const std::string& path, UnaryMethod method);
  // Calls that wait end with UNAVAILABLE; the socket goes.
  ~UnaryServer();
  UnaryServer(UnaryServer&&) noexcept;

 private:
  struct Impl;
  explicit UnaryServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace partita::dra
