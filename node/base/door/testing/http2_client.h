// An HTTP/2 client for tests, on the thread of the server: nghttp2's client side over a RawClient,
// and frames made by hand for what no honest client sends.
#pragma once

#include <nghttp2/nghttp2.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/door/http2_connection.h"
#include "base/door/testing/test_client.h"

namespace partita::serve::test {

using Headers = std::vector<std::pair<std::string, std::string>>;

class Http2Client {
 public:
  struct Answer {
    int status = 0, continues = 0;
    std::map<std::string, std::string> headers = {};
    std::string body = {};
    bool whole = false;   // its end came
    bool closed = false;  // so did that of the stream, with this error
    std::uint32_t error = 0;
    std::string header(const std::string& name) const {
      const auto found = headers.find(name);
      return found == headers.end() ? "" : found->second;
    }
  };

  // `window`: of bytes of answers; without `fetches` it is never renewed.
  Http2Client(Loop& loop, int port, std::uint32_t window = 1u << 20, bool fetches = true)
      : raw(loop, port) {
    nghttp2_session_callbacks* calls = nullptr;
    nghttp2_session_callbacks_new(&calls);
    nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
    nghttp2_option* options = nullptr;
    nghttp2_option_new(&options);
    nghttp2_option_set_no_auto_window_update(options, fetches ? 0 : 1);
    nghttp2_session_client_new2(&session_, calls, this, options);
    nghttp2_option_del(options);
    nghttp2_session_callbacks_del(calls);
    const nghttp2_settings_entry entry{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};
    nghttp2_submit_settings(session_, NGHTTP2_FLAG_NONE, &entry, 1);
  }
  ~Http2Client() { nghttp2_session_del(session_); }
  Http2Client(const Http2Client&) = delete;
  Http2Client& operator=(const Http2Client&) = delete;

  // Begins a request; its body goes in DATA frames of at most `piece` bytes. `open`: its end is not
  // told.
  std::int32_t begin(const std::string& method, const std::string& path, std::string body = {},
                     const Headers& more = {}, std::size_t piece = 16'384, bool open = false) {
    Headers all{{":method", method}, {":scheme", "http"}, {":path", path}, {":authority", "h"}};
    all.insert(all.end(), more.begin(), more.end());
    std::vector<nghttp2_nv> values;
    const auto bytes = [](const std::string& text) {
      return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
    };
    for (const auto& [name, value] : all)
      values.push_back(
          {bytes(name), bytes(value), name.size(), value.size(), NGHTTP2_NV_FLAG_NONE});
    const bool bodiless = body.empty() && !open;
    auto& out = bodies_.emplace_back(
        std::make_unique<Body>(Body{.text = std::move(body), .piece = piece, .open = open}));
    const nghttp2_data_provider from{.source = {.ptr = out.get()}, .read_callback = on_read};
    const std::int32_t id = nghttp2_submit_request(session_, nullptr, values.data(), values.size(),
                                                   bodiless ? nullptr : &from, nullptr);
    send();
    return id;
  }
  void reset(std::int32_t id) {
    nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, id, NGHTTP2_CANCEL);
    send();
  }
  void fetch_more(std::int32_t id, std::size_t bytes) {  // though it does not fetch by itself
    for (const std::int32_t whose : {0, id})
      nghttp2_submit_window_update(session_, NGHTTP2_FLAG_NONE, whose,
                                   static_cast<std::int32_t>(bytes));
    send();
  }
  const Answer& so_far(std::int32_t id) { return answers_[id]; }
  // Its whole answer, or what there is of it when the stream, the connection or the patience ends.
  Answer answer(std::int32_t id) {
    wait([&] { return answers_[id].whole || answers_[id].closed; });
    return answers_[id];
  }
  Answer ask(const std::string& method, const std::string& path, std::string body = {},
             const Headers& more = {}, std::size_t piece = 16'384) {
    return answer(begin(method, path, std::move(body), more, piece));
  }
  template <class F>
  bool wait(F&& until) {
    const std::int64_t end = Loop::now_ns() + kPatience;
    while (!until() && Loop::now_ns() < end && !gone) turn();
    return until();
  }
  void turn() {
    raw.turn();
    gone = !raw.fetch() || gone;
    std::string& input = raw.input();
    nghttp2_session_mem_recv(session_, reinterpret_cast<const std::uint8_t*>(input.data()),
                             input.size());
    input.clear();
    send();
  }

  RawClient raw;
  bool gone = false;      // the server has closed
  int goodbyes = 0;       // GOAWAY frames,
  std::uint32_t why = 0;  // and the error of the last one

 private:
  struct Body {
    std::string text;
    std::size_t piece, at = 0;
    bool open = false;
  };
  static Http2Client& of(void* user) { return *static_cast<Http2Client*>(user); }
  static int on_header(nghttp2_session*, const nghttp2_frame* frame, const std::uint8_t* name,
                       std::size_t name_bytes, const std::uint8_t* value, std::size_t value_bytes,
                       std::uint8_t, void* user) {
    Answer& answer = of(user).answers_[frame->hd.stream_id];
    const std::string key(reinterpret_cast<const char*>(name), name_bytes);
    const std::string text(reinterpret_cast<const char*>(value), value_bytes);
    if (key != ":status") answer.headers[key] = text;
    if (key == ":status" && text == "100") ++answer.continues;
    if (key == ":status" && text != "100") answer.status = std::stoi(text);
    return 0;
  }
  static int on_data(nghttp2_session*, std::uint8_t, std::int32_t id, const std::uint8_t* data,
                     std::size_t bytes, void* user) {
    of(user).answers_[id].body.append(reinterpret_cast<const char*>(data), bytes);
    return 0;
  }
  static int on_frame(nghttp2_session*, const nghttp2_frame* frame, void* user) {
    if (frame->hd.type == NGHTTP2_GOAWAY) {
      ++of(user).goodbyes;
      of(user).why = frame->goaway.error_code;
    }
    const bool answers = frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS;
    if (answers && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
      of(user).answers_[frame->hd.stream_id].whole = true;
    return 0;
  }
  static int on_close(nghttp2_session*, std::int32_t id, std::uint32_t error, void* user) {
    of(user).answers_[id].closed = true;
    of(user).answers_[id].error = error;
    return 0;
  }
  static ssize_t on_read(nghttp2_session*, std::int32_t, std::uint8_t* into, std::size_t room,
                         std::uint32_t* flags, nghttp2_data_source* source, void*) {
    Body& body = *static_cast<Body*>(source->ptr);
    const std::size_t count = std::min({room, body.piece, body.text.size() - body.at});
    if (count == 0 && body.open) return NGHTTP2_ERR_DEFERRED;
    std::copy_n(body.text.data() + body.at, count, reinterpret_cast<char*>(into));
    body.at += count;
    if (body.at == body.text.size() && !body.open) *flags |= NGHTTP2_DATA_FLAG_EOF;
    return static_cast<ssize_t>(count);
  }
  void send() {
    std::string all;
    const std::uint8_t* data = nullptr;
    for (ssize_t count = 1; count > 0 && !gone;) {
      count = nghttp2_session_mem_send(session_, &data);
      if (count > 0)
        all.append(reinterpret_cast<const char*>(data), static_cast<std::size_t>(count));
    }
    if (!all.empty() && !gone) raw.send(all);
  }

  nghttp2_session* session_ = nullptr;
  std::map<std::int32_t, Answer> answers_ = {};
  std::vector<std::unique_ptr<Body>> bodies_ = {};
};

// ---- by hand

inline std::string frame(int kind, int flags, std::uint32_t stream, std::string_view content = {}) {
  std::string bytes;
  for (const int shift : {16, 8, 0}) bytes += static_cast<char>(content.size() >> shift);
  bytes += static_cast<char>(kind);
  bytes += static_cast<char>(flags);
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(stream >> shift);
  bytes += content;
  return bytes;
}
// A header as HPACK has it without its tables; names and values of less than 127 bytes.
inline std::string literal(std::string_view name, std::string_view value) {
  std::string out(1, '\0');
  for (const std::string_view text : {name, value}) {
    out += static_cast<char>(text.size());
    out += text;
  }
  return out;
}
inline std::string request_head(std::string_view method, std::string_view path) {
  return literal(":method", method) + literal(":scheme", "http") + literal(":path", path) +
         literal(":authority", "h");
}
inline std::string preface() { return std::string(kHttp2Preface) + frame(4, 0, 0); }

}  // namespace partita::serve::test
