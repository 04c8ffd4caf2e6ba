// Asking workers over HTTP whether they are well, without waiting: a probe is begun, and later it
// has ended. Any status from 200 to 299 is well. Only addresses, and localhost; no TLS. The caller
// keeps the time and abandons what takes too long. Single-threaded.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/url.h"

namespace partita::actuate {

// http://ADDRESS[:PORT][/PATH]; bad_input with `context` for anything else.
Result<Url> parse_probe_url(const std::string& context, std::string_view text);

struct ProbeEnd {
  long id = 0;
  bool well = false;
  bool operator==(const ProbeEnd&) const = default;
};

class HttpProbes {
 public:
  virtual ~HttpProbes() = default;
  // Its number, never used twice.
  virtual long begin(const std::string& url) = 0;
  // Those that ended since the last call, each once.
  virtual std::vector<ProbeEnd> ended() = 0;
  virtual void abandon(long id) = 0;
};

class RealHttpProbes final : public HttpProbes {
 public:
  RealHttpProbes();
  ~RealHttpProbes() override;
  long begin(const std::string& url) override;
  std::vector<ProbeEnd> ended() override;
  void abandon(long id) override;

 private:
  struct Asking;
  std::map<long, std::unique_ptr<Asking>> asked_;
  long next_ = 1;
};

}  // namespace partita::actuate
