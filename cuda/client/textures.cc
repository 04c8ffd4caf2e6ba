#include "client/textures.h"

namespace partita::remote::client {

Got<std::uint64_t> Textures::create_array(ArrayCreate what) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  what.array = {core_.new_handle()};
  const Answer answer = core_.link->call_held(lock, what, Cause::texture);
  if (answer.status != kOk) return refused(answer.status);
  return what.array.value;
}

Status Textures::destroy_array(std::uint64_t array) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  return core_.link->post(lock, ArrayDestroy{.array = {array}});
}

Got<std::uint64_t> Textures::create(const TextureCreate& what) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return refused(status);
  const Answer answer = core_.link->call_held(lock, what, Cause::texture);
  if (answer.status != kOk) return refused(answer.status);
  const auto reply = decode<TextureCreate::Reply>(answer.reply);
  if (!reply) return refused(kUnknown);
  return reply->texture.value;
}

Status Textures::destroy(std::uint64_t texture) {
  Lock lock(core_.mutex);
  if (const Status status = core_.connected(lock); status != kOk) return status;
  return core_.link->post(lock, TextureDestroy{.texture = {texture}});
}

}  // namespace partita::remote::client
