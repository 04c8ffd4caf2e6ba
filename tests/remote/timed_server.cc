#include "tests/remote/timed_server.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>

#include "server/session.h"
#include "server/worker.h"
#include "tests/remote/timed_backend.h"

namespace partita::remote::shapes {
namespace {

constexpr Nanos kUntilConnected = std::chrono::seconds(60);

[[noreturn]] void serve_one(Listener& listener, const TimedServer::Open& open) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto accepted = listener.accept(kUntilConnected);
  if (!accepted) ::_exit(1);
  server::MemoryImages images;
  server::SessionLimits limits;
  limits.memory = std::uint64_t{40} << 30;
  server::Session session(*accepted->channel, images, "", limits);
  while (!session.wanted()) {
    if (session.step(std::chrono::milliseconds(10)).ended) ::_exit(1);
  }
  session.grant(1, *open(), open);
  server::serve_session(*accepted->channel, session, {}, {-1, -1},
                        [](const server::SessionCounts&) {});
  ::_exit(0);
}

}  // namespace

Result<std::unique_ptr<TimedServer>> TimedServer::start(const std::string& address, Open open) {
  if (!open) open = [] { return std::make_unique<TimedBackend>(); };
  auto listener = system_net().listen(address);
  if (!listener) return failed(listener.error());
  const pid_t child = ::fork();
  if (child < 0) return environment_error("fork", std::strerror(errno));
  if (child == 0) serve_one(**listener, open);
  return std::unique_ptr<TimedServer>(new TimedServer(std::move(*listener), child));
}

double TimedServer::cpu_ms() const {
  clockid_t clock = 0;
  timespec used = {};
  if (::clock_getcpuclockid(child_, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) * 1e3 + static_cast<double>(used.tv_nsec) / 1e6;
}

TimedServer::~TimedServer() {
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

}  // namespace partita::remote::shapes
