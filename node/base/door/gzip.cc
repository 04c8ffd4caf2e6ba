#include "base/door/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace partita::serve {

bool accepts_gzip(std::string_view accepted) {
  const std::size_t at = accepted.find("gzip");
  if (at == std::string_view::npos) return false;
  const std::string_view rest = accepted.substr(at + 4, accepted.find(',', at) - at - 4);
  const std::size_t weight = rest.find("q=");  // of zeros alone: q=0, q=0.000
  return weight == std::string_view::npos ||
         rest.substr(weight + 2).find_first_of("123456789") != std::string_view::npos;
}

std::string gzipped(std::string_view text) {
  z_stream stream{};
  constexpr int kGzip = 15 + 16;
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, kGzip, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return {};
  std::string out(deflateBound(&stream, static_cast<uLong>(text.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const bool done = deflate(&stream, Z_FINISH) == Z_STREAM_END;
  out.resize(done ? stream.total_out : 0);
  deflateEnd(&stream);
  return out;
}

bool is_packed(std::string_view encoding) { return encoding == "gzip" || encoding == "deflate"; }

tl::expected<std::string, UnpackFault> unpacked(std::string_view body, std::size_t most,
                                                const std::function<bool(std::size_t)>& room) {
  constexpr int kGzipOrZlib = 15 + 32;
  constexpr std::size_t kFirst = 16'384;
  most = std::min(most, std::max(kUnpackedAnyway, kUnpackedTimes * body.size()));
  z_stream stream{};
  if (inflateInit2(&stream, kGzipOrZlib) != Z_OK) return tl::unexpected(UnpackFault::no_room);
  const std::unique_ptr<z_stream, int (*)(z_stream*)> ends(&stream, inflateEnd);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(body.data()));
  stream.avail_in = static_cast<uInt>(body.size());
  std::string out;
  for (;;) {
    const std::size_t have = out.size();
    if (have == most + 1) return tl::unexpected(UnpackFault::too_long);
    const std::size_t size = std::min(most + 1, std::max(kFirst, 2 * have));
    if (!room(size)) return tl::unexpected(UnpackFault::no_room);
    out.resize(size);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + have);
    stream.avail_out = static_cast<uInt>(size - have);
    const int came = inflate(&stream, Z_NO_FLUSH);
    out.resize(size - stream.avail_out);
    if (came == Z_STREAM_END) break;
    if (came != Z_OK || out.size() < size) return tl::unexpected(UnpackFault::broken);
  }
  if (stream.avail_in > 0) return tl::unexpected(UnpackFault::broken);
  if (out.size() > most) return tl::unexpected(UnpackFault::too_long);
  return out;
}

void compress(Reply& reply) {
  if (reply.text.size() < kWorthGzip || !reply.spans.empty()) return;
  std::string smaller = gzipped(reply.text);
  if (smaller.empty()) return;
  reply.text = std::move(smaller);
  reply.headers += "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n";
}

}  // namespace partita::serve
