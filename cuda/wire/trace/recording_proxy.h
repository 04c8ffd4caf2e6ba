// Stands between clients and a server and records what passes: for `partita remote run --record`.
// The first connection goes to FILE, others (a program that forks) to FILE.2, FILE.3 ...
// Thread rule: a Forwarder's.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "wire/net/forwarder.h"
#include "wire/trace/recorder.h"

namespace partita::remote {

class RecordingProxy {
 public:
  // Listens at `address` (of the same kinds as a server's) and connects to `server` for each.
  static Result<std::unique_ptr<RecordingProxy>> start(Net& net, const std::string& address,
                                                       const std::string& server,
                                                       const std::string& file,
                                                       RecorderOptions options = {});
  ~RecordingProxy();
  std::string address() const;
  // A connection's each.
  std::vector<std::string> files() const;
  // Ends all connections and closes the files; an Error when something is missing from one.
  Result<void> finish();

 private:
  struct Files;
  explicit RecordingProxy(std::shared_ptr<Files> files);
  std::shared_ptr<Files> files_;
  std::unique_ptr<Forwarder> forwarder_;
};

}  // namespace partita::remote
