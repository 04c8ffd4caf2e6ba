#include "server/worker.h"

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <thread>

#include "server/messages.h"
#include "wire/net/system_net.h"

namespace partita::remote::server {
namespace {

using Clock = std::chrono::steady_clock;
constexpr Nanos kTell = std::chrono::milliseconds(500);  // between counts told to the server
// Before it sleeps: waking up costs 45 us on a virtual machine, and kernels are often shorter.
constexpr Nanos kSpin = std::chrono::microseconds(200);
constexpr Nanos kNap = std::chrono::milliseconds(100);  // at most, to look at limits

constexpr Nanos kLook = std::chrono::milliseconds(10);  // between looks at who may stop us

// Of less than a second.
timespec as_timespec(Nanos time) { return {.tv_sec = {}, .tv_nsec = time.count()}; }

bool any_readable(const std::array<int, 2>& descriptors) {
  std::array<pollfd, 2> ready{readable(descriptors[0]), readable(descriptors[1])};
  return ::poll(ready.data(), ready.size(), 0) > 0;
}

// `pid`: of a process that is the session's alone.
void tell(int control, WorkerMessage::Kind kind, const SessionCounts& counts,
          const std::string& text, long pid = 0) {
  WorkerMessage message{.kind = kind, .pid = pid, .counts = counts};
  text.copy(message.text.data(), message.text.size() - 1);
  send_message(control, message);
}

}  // namespace

void serve_session(Channel& channel, Session& session, const WorkerOptions& options,
                   std::array<int, 2> stops,
                   const std::function<void(const SessionCounts&)>& tell_counts) {
  ::prctl(PR_SET_TIMERSLACK, 1UL);  // else every nap is 50 us longer than asked for
  const Clock::time_point begun = Clock::now();
  Clock::time_point told = begun, used = begun, moved = begun, looked = begun;
  std::uint64_t operations = 0;
  for (;;) {
    const Session::Step step = session.step(kSpin);
    if (step.ended) return;
    const Clock::time_point now = Clock::now();
    if (session.counts().operations != operations || !step.idle) {
      operations = session.counts().operations;
      used = now;
    }
    if (now - told >= kTell) {
      told = now;
      tell_counts(session.counts());
    }
    if (options.idle_limit.count() > 0 && now - used >= options.idle_limit)
      return session.end("nothing was asked for too long (the server's --idle-limit)");
    if (options.wall_limit.count() > 0 && now - begun >= options.wall_limit)
      return session.end("the session's time is over (the server's --wall-limit)");
    if (step.progressed) moved = now;
    if (now - looked >= kLook) {  // a client that always has more must not outlive a stop
      looked = now;
      if (any_readable(stops)) return session.end("it was stopped");
    }
    if (step.busy || step.progressed) continue;
    if (!step.idle && now - moved < kSpin) {  // something runs that may end at once
      ::sched_yield();
      continue;
    }
    std::array<pollfd, 4> ready{readable(channel.descriptor()),
                                readable(session.backend_descriptor()), readable(stops[0]),
                                readable(stops[1])};
    const timespec nap = as_timespec(std::min(kNap, step.again.value_or(kNap)));
    ::ppoll(ready.data(), ready.size(), &nap, nullptr);
    if (ready[2].revents != 0 || ready[3].revents != 0) return session.end("it was stopped");
  }
}

namespace {

struct Opened {
  std::unique_ptr<DeviceBackend> backend;
  Received<GiveMessage> give;
};

// Everything between the client's coming and its end.
int serve_client(std::array<int, 2> stops, const Part& part, Opened opened, Images& images,
                 Shelf& shelf, const WorkerOptions& options) {
  const int control = stops[1];
  const GiveMessage give = opened.give.message;
  const auto open = [&options, &part, give] { return options.open(part, give.units, give.flags); };
  auto channel = adopt(std::move(opened.give.descriptors));
  if (!channel) {
    tell(control, WorkerMessage::Kind::ended, {}, to_string(channel.error()));
    return 1;
  }
  Session session(**channel, images, "", options.limits, &shelf);
  session.greeted(give.request);
  if (options.spent && options.spent()) {
    session.deny(kInvalidDevice, "another session has just lost the device for all; ask again");
    tell(control, WorkerMessage::Kind::ended, {}, "the device is lost");
    return 1;
  }
  if (give.units != part.units || give.flags != 0) {
    opened.backend.reset();
    auto fresh = open();
    if (!fresh) {
      session.deny(kInvalidDevice, to_string(fresh.error()));
      tell(control, WorkerMessage::Kind::ended, {}, to_string(fresh.error()));
      return 1;
    }
    opened.backend = *std::move(fresh);
  }
  session.grant(give.session, std::move(opened.backend), open);
  serve_session(**channel, session, options, stops,
                [control](const SessionCounts& counts) {
                  tell(control, WorkerMessage::Kind::counts, counts, "");
                });
  tell(control, WorkerMessage::Kind::ended, session.counts(), session.reason());
  (*channel)->shut();
  return 0;
}

// Readable when somebody asks us to end.
int stop_descriptor() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  ::sigprocmask(SIG_BLOCK, &signals, nullptr);
  return ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

}  // namespace

int run_worker(Descriptor control, Descriptor shelf, const Part& mine,
               const WorkerOptions& options) {
  BrokerShelf things(std::move(shelf));
  const Descriptor stop(stop_descriptor());
  const auto unable = [&](const Error& why) {
    tell(control.get(), WorkerMessage::Kind::unable, {}, to_string(why));
    return 1;
  };
  auto backend = options.open(mine, mine.units, 0);
  if (!backend) return unable(backend.error());
  std::unique_ptr<Images> images = std::make_unique<MemoryImages>();
  if (!options.images.empty()) {
    auto folder = FolderImages::open(options.images);
    if (!folder) return unable(folder.error());
    images = *std::move(folder);
  }
  if (!options.shared)
    if (const auto confined = confine(options.sandbox); !confined) return unable(confined.error());
  tell(control.get(), WorkerMessage::Kind::ready, {}, "", options.shared ? 0 : ::getpid());
  std::array<pollfd, 2> ready{readable(control.get()), readable(stop.get())};
  const auto lost = [&options] { return options.spent && options.spent(); };
  const timespec look = as_timespec(kLook);
  while (::ppoll(ready.data(), ready.size(), options.shared ? &look : nullptr, nullptr) <= 0)
    if (lost()) return 0;  // nobody is to come into this process any more
  if (ready[1].revents != 0) return 0;
  Opened opened{*std::move(backend), {}};
  if (receive_message(control.get(), opened.give) != Arrival::came) return 0;
  return serve_client({stop.get(), control.get()}, mine, std::move(opened), *images, things,
                      options);
}

namespace {

constexpr int kServerGone = 7;  // status of a house whose server has ended
constexpr auto kLastWords = std::chrono::milliseconds(500);

Part part_of(const StartMessage& message) {
  return {message.name.data(), message.shape.data(), message.units};
}

// Sessions as threads, until the server is gone or the device is lost to all of them.
[[noreturn]] void run_house(const Descriptor& socket, const WorkerOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const Descriptor stop(stop_descriptor());  // every session has its own, too
  const auto confined = confine(options.sandbox);
  for (;;) {
    pollfd ready = readable(socket.get());
    const bool came = ::poll(&ready, 1, static_cast<int>(kNap / std::chrono::milliseconds(1))) > 0;
    if (options.spent && options.spent()) {
      std::this_thread::sleep_for(kLastWords);  // sessions tell their clients
      ::_exit(1);
    }
    if (!came) continue;
    Received<StartMessage> start;
    if (receive_message(socket.get(), start) == Arrival::gone) ::_exit(kServerGone);
    if (start.descriptors.size() != 2) continue;
    if (!confined) {
      tell(start.descriptors[0].get(), WorkerMessage::Kind::unable, {},
           to_string(confined.error()));
      continue;
    }
    std::thread([control = std::move(start.descriptors[0]),
                 shelf = std::move(start.descriptors[1]), part = part_of(start.message),
                 &options]() mutable {
      run_worker(std::move(control), std::move(shelf), part, options);
    }).detach();
  }
}

// One house after another.
[[noreturn]] void keep_house(const Descriptor& socket, const WorkerOptions& options) {
  std::signal(SIGCHLD, SIG_DFL);
  for (;;) {
    const pid_t house = ::fork();
    if (house == 0) run_house(socket, options);
    int status = 0;
    if (house > 0) ::waitpid(house, &status, 0);
    if (house > 0 && WIFEXITED(status) && WEXITSTATUS(status) == kServerGone) ::_exit(0);
    std::this_thread::sleep_for(kNap);  // where none can live
  }
}

[[noreturn]] void run_zygote(Descriptor socket, const WorkerOptions& options) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGCHLD, SIG_IGN);  // nobody waits for them
  for (const int ignored : {SIGINT, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_IGN);
  if (options.shared) keep_house(socket, options);
  for (;;) {
    Received<StartMessage> start;
    const Arrival arrival = receive_message(socket.get(), start, true);
    if (arrival == Arrival::gone) ::_exit(0);  // the workers follow
    if (start.descriptors.size() != 2) continue;
    const pid_t child = ::fork();
    if (child != 0) continue;  // where it cannot be forked its socket closes, which says so
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    std::signal(SIGCHLD, SIG_DFL);
    socket.close_now();
    ::_exit(run_worker(std::move(start.descriptors[0]), std::move(start.descriptors[1]),
                       part_of(start.message), options));
  }
}

}  // namespace

Result<Zygote> start_zygote(const WorkerOptions& options) {
  auto ends = TRY(message_pair());
  const pid_t child = ::fork();
  if (child < 0) return environment_error("fork", std::strerror(errno));
  if (child == 0) {
    ends.first.close_now();
    run_zygote(std::move(ends.second), options);
  }
  return Zygote{std::move(ends.first), child};
}

}  // namespace partita::remote::server
