// SimNet: a simulated network in virtual time, for tests of a whole client with a whole server in
// one thread: microseconds of real time per history, and the same seed gives the same history.
//
// The client's thread is the only one. When the client's end waits (for bytes or for room), the
// simulation runs `server`, which reads its ends with a patience of 0 and answers, and moves the
// clock to the next thing that happens: bytes that arrive, a time that the server asked for
// (wake_at). When nothing can happen any more the wait ends in a timeout at its deadline. The
// server's ends never wait: a read of nothing and a write without room are timeouts at once.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <vector>

#include "base/rng.h"
#include "wire/net/channel.h"

namespace partita::remote {

struct SimDirection {
  Nanos delay = Nanos(0);                       // of every byte
  double bytes_per_nano = 0;                    // 0: no limit
  std::size_t most_fragment = 0;                // a read gives 1 to so many bytes; 0: all there is
  std::uint64_t cut_after = ~std::uint64_t{0};  // bytes; the connection ends there
  std::uint64_t stall_after = ~std::uint64_t{0};  // bytes; what follows waits for `stall`
  Nanos stall = Nanos(0);
  std::size_t room = 4 << 20;  // bytes on their way and not yet read
};

struct SimOptions {
  SimDirection up, down;  // client to server, and back
  std::uint64_t seed = 0;
};

// Delays of 0 to 200 us, bandwidths, fragments, and with `faults` often a cut or a stall.
SimOptions random_network(std::uint64_t seed, bool faults);

class SimNet final : public Net {
 public:
  explicit SimNet(SimOptions options);
  ~SimNet() override;

  // Runs while the client waits; it may accept, read, write, and ask for wake_at().
  void set_server(std::function<void()> server);
  // Any address will do; a connection needs no answer.
  Result<std::unique_ptr<Channel>> connect(std::string_view address, Nanos patience) override;
  // accept() never waits.
  Result<std::unique_ptr<Listener>> listen(std::string_view address) override;

  Nanos now() const;
  // The caller computes for so long.
  void advance(Nanos time);
  // The server runs again at this time, though nothing arrives.
  void wake_at(Nanos time);
  // Runs the server, and the clock up to `time` later, though no client waits.
  void run_for(Nanos time);
  // Reads of the client that had to wait.
  std::uint64_t waits() const;

 private:
  class World;
  class End;
  class Door;
  std::shared_ptr<World> world_;
};

}  // namespace partita::remote
