#include "client/libraries.h"

#include "client/session.h"
#include "wire/codec.h"

namespace partita::remote::client {

bool Libraries::may_be() { return all_.ready() == kOk && all_.device().backend == "cuda"; }

// The stream's number at the server; what it does may read and write everything.
Got<std::uint64_t> Libraries::begin(Lock& lock, std::uint64_t stream) {
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  if (stream == kNowhere) return 0;
  const auto real = all_.streams.resolved(lock, stream);
  if (!real) return refused(real.error());
  if (const Status status = all_.managed.begin_work(lock, *real); status != kOk)
    return refused(status);
  if (all_.captures.at(*real) == nullptr) all_.streams.note_work(*real);
  return *real;
}

Status Libraries::call(std::uint64_t stream, std::string_view function, Bytes arguments) {
  Lock lock(core_.mutex);
  const auto real = begin(lock, stream);
  if (!real) return real.error();
  const LibraryCall call{.stream = {*real}, .function = function, .arguments = arguments};
  return within_limits(call) ? core_.link->post(lock, call) : kInvalidValue;
}

Got<LibraryAnswer> Libraries::ask(std::uint64_t stream, std::string_view function,
                                  Bytes arguments) {
  Lock lock(core_.mutex);
  const auto real = begin(lock, stream);
  if (!real) return refused(real.error());
  if (Captures::Capture* const capture = all_.captures.at(*real)) {
    capture->broken = true;
    return refused(kCaptureUnsupported);
  }
  const LibraryAsk ask{.stream = {*real}, .function = function, .arguments = arguments};
  if (!within_limits(ask)) return refused(kInvalidValue);
  const Answer answer = core_.link->call(lock, ask, Cause::library);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<LibraryAsk::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  return LibraryAnswer{reply->status, {reply->results.begin(), reply->results.end()}};
}

}  // namespace partita::remote::client
