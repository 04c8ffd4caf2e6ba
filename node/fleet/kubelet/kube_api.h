// KubeApi: a client of the Kubernetes API server: JSON over HTTP, a bearer token that is read
// anew for every call, since the kubelet renews it. No watch lasts longer than it was asked for.
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
// A server says where it is (a bookmark) once a minute.
inline constexpr std::int64_t kMostWatchSilence = 90'000'000'000;
inline constexpr std::int64_t kWatchGrace = 5'000'000'000;  // after the time that it was asked for

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
  // Lines of a watch of what changes after `version`, until it ends or `take` says false, which is
  // asked at least every 100 ms with an empty line. The server is asked to end it after `seconds`;
  // where it does not, or has said nothing for kMostWatchSilence, which may be since somebody
  // between is there and it is not, the watch ends all the same. The status of its answer.
  Result<int> watch(const std::string& path, const std::string& version, int seconds,
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
