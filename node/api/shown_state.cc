#include "api/shown_state.h"

#include <utility>

#include "api/exchanges.h"
#include "api/state_changes.h"
#include "base/door/gzip.h"

namespace partita::api {

const ShownState::Shown& ShownState::show(std::shared_ptr<const control::Snapshot> now) {
  if (shown_.of != nullptr && shown_.of->version == now->version &&
      shown_.of->time_ms == now->time_ms)
    return shown_;
  shown_ = {.of = std::move(now), .json = {}, .gzip = {}, .etag = {}, .id = {}};
  shown_.json = control::is_large(*shown_.of)
                    ? control::snapshot_json(control::brief_of(*shown_.of))
                    : control::snapshot_json(*shown_.of);
  shown_.id = boot_ + "-" + std::to_string(shown_.of->version);
  shown_.etag = "\"" + shown_.id + "\"";
  return shown_;
}

const std::string& ShownState::gzip() {
  if (shown_.gzip.empty()) shown_.gzip = serve::gzipped(shown_.json);
  return shown_.gzip;
}

void ShownState::begin_changes() {
  if (told_) return;
  if (auto parsed = parse_document("state.json", shown_.json)) told_ = *std::move(parsed);
  told_id_ = shown_.id;
}

std::string ShownState::changes(bool wanted) {
  if (told_ && told_id_ == shown_.id) return {};
  std::optional<Document> next;
  if (wanted)
    if (auto parsed = parse_document("state.json", shown_.json)) next = *std::move(parsed);
  std::string event;
  if (told_ && next)
    if (const auto patch = changes_between(told_->root, next->root);
        patch && patch->size() < shown_.json.size() / 2)
      event = event_text("changes", shown_.id, *patch);
  told_ = std::move(next);
  told_id_ = shown_.id;
  return event;
}

}  // namespace partita::api
