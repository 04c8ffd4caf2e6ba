// The queue as HTTP/1.1 on a Unix socket, for base/door:
//   POST /v1/queue/tasks              a QueueSubmission; QueueTasks with what it became
//   GET  /v1/queue/tasks[?all=1]      QueueTasks: those that have not ended, or all that are held
//   GET  /v1/queue/tasks/N            QueueTask
//   GET  /v1/queue/tasks/N/log        what it printed: text, its last megabyte
//   POST /v1/queue/tasks/N/cancel     also /hold and /release
// Refusals are {"message", "where"}. Loop thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/door/exchange.h"
#include "queue/host/host.h"

namespace partita::queue {

inline constexpr std::size_t kMaxSubmission = 1u << 20;  // bytes
inline constexpr std::size_t kMaxLog = 1u << 20;

class QueueSite final : public serve::Site {
 public:
  struct Doors {
    Host& host;
    std::function<Nanos()> now;
    std::function<std::string(long task)> log_path;
    std::function<void()> changed;  // called once something was asked, before it is answered
  };
  explicit QueueSite(Doors doors) : doors_(std::move(doors)) {}

  std::shared_ptr<serve::Exchange> route(const serve::HttpHead& head,
                                         const serve::Peer& peer) override;
  serve::Reply refusal(int status, std::string_view message) override;

 private:
  class Ask;
  serve::Reply answer(const serve::HeadFacts& facts, const std::string& query,
                      const std::string& user, const std::string& body);
  serve::Reply submit(const std::string& user, const std::string& body);
  serve::Reply one(long task, const std::string& verb, bool posted);
  serve::Reply log(long task);
  serve::Reply refused(const Error& error);

  Doors doors_;
};

// The refusal in an answer of the site, as an error.
Error error_of_answer(int status, const std::string& body);

}  // namespace partita::queue
