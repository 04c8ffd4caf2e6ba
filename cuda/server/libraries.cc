#include "server/libraries.h"

#include <fmt/format.h>

#include "server/memory.h"

namespace partita::remote::server {

Answered<CallWork> Libraries::checked(Text name, Bytes bytes) const {
  const LibraryFunction* const function = library_function(name);
  if (function == nullptr)
    return refuse(kNotSupported, fmt::format("there is no function {} of a library", name));
  const auto arguments = arguments_of(*function, bytes);
  if (!arguments) return tl::unexpected<Refused>(arguments.error());
  for (const std::uint64_t at : addresses_in(*arguments))
    if (!allocations_.holds(at, 1)) return not_held(name, {at}, 1);
  return CallWork{function, {bytes.begin(), bytes.end()}};
}

Done Libraries::on(const LibraryCall& op) {
  Answered<CallWork> work = checked(op.function, op.arguments);
  if (!work) return tl::unexpected<Refused>(work.error());
  if (work->function->asked())
    return refuse(kInvalidValue, fmt::format("{} without anybody who waits", op.function));
  return streams_.submit(op.stream, *std::move(work));
}

Reply<LibraryAsk> Libraries::on(const LibraryAsk& op) {
  const Answered<CallWork> work = checked(op.function, op.arguments);
  if (!work) return tl::unexpected<Refused>(work.error());
  const Answered<Captured*> stream = streams_.to_wait_for(op.stream);
  if (!stream) return tl::unexpected<Refused>(stream.error());
  Answered<LibraryAnswer> answer = work_.backend().ask((*stream)->id, *work);
  if (!answer) return tl::unexpected<Refused>(answer.error());
  results_ = std::move(answer->results);
  return LibraryAsk::Reply{.status = answer->status, .results = results_};
}

}  // namespace partita::remote::server
