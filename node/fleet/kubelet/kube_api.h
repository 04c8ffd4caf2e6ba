// KubeApi: a client of the Kubernetes API server: JSON over HTTP, a bearer token that is read
// anew for every call, since the kubelet renews it. Watches last as long as the server likes.
// Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/files.h"
#include "base/http/http_stream.h"
#include "base/result.h"

namespace partita::dra {

inline constexpr std::uint64_t kMaxApiAnswer = 256u << 20;
inline constexpr std::size_t kMaxWatchLine = 4u << 20;

struct KubeApiSettings {
  std::string url;         // "https://10.96.0.1:443", or with a path before all paths
  std::string token_file;  // empty: no token
  std::string ca_file;     // empty: the system's
};

class KubeApi {
 public:
  // Bad input with the flag's name: no URL, a token that would go over a network in the clear.
  static Result<KubeApi> to(const KubeApiSettings& settings, Files& files, Clock& clock);

  struct Answer {
    int status = 0;
    std::string body;
  };
  // An error: no answer came.
  Result<Answer> ask(std::string_view method, const std::string& path, const std::string& body = {},
                     std::string_view type = "application/json") const;
  // Lines of a watch, until it ends or `take` says false, which is asked at least every 100 ms with
  // an empty line. The status with which it was answered.
  Result<int> watch(const std::string& path,
                    const std::function<bool(std::string_view line)>& take) const;

 private:
  KubeApi(KubeApiSettings settings, std::shared_ptr<const serve::HttpDialer> dialer, Files& files,
          Clock& clock)
      : settings_(std::move(settings)),
        dialer_(std::move(dialer)),
        files_(&files),
        clock_(&clock) {}
  Result<std::string> headers() const;

  KubeApiSettings settings_;
  std::shared_ptr<const serve::HttpDialer> dialer_;
  Files* files_;
  Clock* clock_;
};

}  // namespace partita::dra
