// The exchanges of the API: a call with its body and an answer that may come later, and a stream of
// events. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "api/site.h"

namespace partita::api {

class CallExchange final : public serve::Exchange {
 public:
  CallExchange(ApiSite& site, Asking asking);
  ~CallExchange() override;
  const serve::HeadFacts& facts() const override { return asking_.head; }
  serve::Step begin() override;
  serve::Step on_text() override;
  serve::Step on_growth(std::size_t bytes) override;

  // The agent has answered: on the loop's thread.
  void answered(serve::Reply with);
  std::int64_t late_ns() const { return late_ns_; }
  void too_late();

 private:
  serve::Step ask();
  serve::Step preview();
  serve::Step lease();
  serve::Step fleet();
  serve::Step queue();
  // Takes the document, or the text, that the backend answers with. Any thread.
  std::function<void(Result<std::string>)> told(const char* about);
  void wait();

  ApiSite& site_;
  Asking asking_;
  std::size_t budget_ = 0;
  std::int64_t late_ns_ = 0;
};

class EventStream final : public serve::Exchange {
 public:
  EventStream(ApiSite& site, Asking asking);
  ~EventStream() override;
  const serve::HeadFacts& facts() const override { return asking_.head; }
  serve::Step begin() override;
  void on_fetched() override;

  const std::string& client() const { return asking_.caller.user; }
  bool wants_changes() const { return changes_; }
  bool knows(std::string_view id) const { return sent_ == id; }
  // The event goes out, unless the last one is still on its way.
  void offer(std::string_view id, std::string_view event);
  // A sign of life; to who wants changes, when the agent looked last.
  void beat(std::int64_t time_ms);

 private:
  ApiSite& site_;
  Asking asking_;
  bool changes_ = false;
  std::string sent_ = {};  // id of the last event
};

// An event of the stream: every line of the data behind "data: ".
std::string event_text(std::string_view name, std::string_view id, std::string_view data);

}  // namespace partita::api
