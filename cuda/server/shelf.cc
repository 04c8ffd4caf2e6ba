#include "server/shelf.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>

#include "server/messages.h"
#include "server/sharing.h"

namespace partita::remote::server {
namespace {

constexpr int kPatienceMs = 5000;  // the broker answers at once, unless it is gone

// Nobody can make it shorter under those who have it.
Descriptor make_file(std::uint64_t bytes) {
  Descriptor file(::memfd_create("partita", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const bool made = file.get() >= 0 && ::ftruncate(file.get(), static_cast<off_t>(bytes)) == 0 &&
                    ::fcntl(file.get(), F_ADD_SEALS, kSeals) == 0;
  return made ? std::move(file) : Descriptor(-1);
}

}  // namespace

Answered<Shelf::Thing> BrokerShelf::ask(const ShareRequest& request) {
  const auto gone = [] { return refuse(kUnknown, "the server shares nothing at the moment"); };
  if (!send_message(socket_.get(), request)) return gone();
  pollfd ready = readable(socket_.get());
  if (::poll(&ready, 1, kPatienceMs) <= 0) return gone();
  Received<ShareAnswer> answer;
  if (receive_message(socket_.get(), answer) != Arrival::came) return gone();
  if (answer.message.status == kOutOfMemory)
    return refuse(kOutOfMemory, fmt::format("{} shared things are a session's limit, or there is "
                                            "no memory of {} bytes",
                                            SharedThings::kMost, request.bytes));
  if (answer.message.status != kSuccess || answer.descriptors.size() != 1)
    return refuse(kInvalidValue, "nothing that this client may open has this key");
  return Thing{answer.message.key, answer.message.bytes, std::move(answer.descriptors.front()),
               answer.message.session};
}

Answered<Shelf::Thing> BrokerShelf::make(std::uint64_t bytes, bool event) {
  return ask({.kind = ShareRequest::Kind::make, .event = event ? 1U : 0U, .bytes = bytes});
}

Answered<Shelf::Thing> BrokerShelf::open(const ShareKey& key, bool event) {
  return ask({.kind = ShareRequest::Kind::open, .event = event ? 1U : 0U, .key = key});
}

void BrokerShelf::drop(const ShareKey& key) {
  send_message(socket_.get(), ShareRequest{.kind = ShareRequest::Kind::drop, .key = key});
}

// ---- the broker's ----

std::pair<ShareAnswer, int> SharedThings::make(const Asker& who, const ShareRequest& request) {
  std::size_t has = 0;
  std::uint64_t room = most_;
  for (const auto& [key, entry] : things_) {
    if (entry.owner.session != who.session) continue;
    ++has;
    if (!entry.event) room -= entry.bytes;
  }
  const std::uint64_t bytes = request.event != 0 ? SharedEvent::kBytes : request.bytes;
  ShareAnswer answer{.status = kOutOfMemory, .bytes = bytes, .session = who.session};
  if (has >= kMost || bytes == 0 || (request.event == 0 && bytes > room)) return {answer, -1};
  constexpr std::uint64_t kPage = 4096;
  Descriptor file = make_file((bytes + kPage - 1) / kPage * kPage);
  const bool drawn = ::getrandom(answer.key.data(), answer.key.size(), 0) ==
                     static_cast<ssize_t>(answer.key.size());
  if (file.get() < 0 || !drawn) return {answer, -1};
  answer.status = kSuccess;
  Entry entry{std::move(file), bytes, request.event != 0, who, {who.session}};
  const int beside = entry.file.get();
  things_.insert_or_assign(answer.key, std::move(entry));
  return {answer, beside};
}

std::pair<ShareAnswer, int> SharedThings::take(const Asker& who, const ShareRequest& request) {
  if (request.kind == ShareRequest::Kind::make) return make(who, request);
  const ShareAnswer none{.status = kInvalidValue};
  const auto found = things_.find(request.key);
  if (found == things_.end()) return {none, -1};
  Entry& entry = found->second;
  if (request.kind == ShareRequest::Kind::drop) {
    if (entry.owner.session == who.session) things_.erase(found);
    return {none, -1};
  }
  if (request.kind != ShareRequest::Kind::open || entry.event != (request.event != 0) ||
      entry.owner.client != who.client)
    return {none, -1};
  if (entry.event) entry.opened.insert(who.session);
  return {{kSuccess, entry.bytes, who.session, found->first}, entry.file.get()};
}

void SharedThings::ended(std::uint64_t session) {
  for (const auto& [key, entry] : things_)
    if (entry.event && entry.opened.contains(session))
      SharedEvent::end_records(entry.file, session);
  std::erase_if(things_,
                [session](const auto& one) { return one.second.owner.session == session; });
}

}  // namespace partita::remote::server
