// What demos of serving share: this program run as people would type it, in a folder of the demo's,
// on a simulated GPU whose units are this machine's cores; a gateway and a supervisor that end with
// the demo.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/child.h"
#include "base/processes.h"
#include "context.h"

namespace partita::cli {

class DemoCircle {
 public:
  using Words = std::vector<std::string>;
  static constexpr std::int64_t kMs = 1'000'000;

  // `name`: of the command, for refusals; `folder` as it is shown.
  DemoCircle(Context& context, std::string name, std::string folder);

 protected:
  std::string in(const std::string& name) const { return (folder_ / name).string(); }
  static std::string program();
  void forget(const std::string& name) const;  // a file of an earlier run
  void headline(const std::string& text);
  Error refusal(const std::string& why) const;

  static Result<Child> launch(const Words& words, const std::string& output);
  // Shows a command as one would type it, and starts it; command() waits for its end, must(): which
  // is to be 0.
  Result<Child> begin(const Words& words, const std::string& output = {});
  Result<int> command(const Words& words, const std::string& output = {});
  Result<void> must(const Words& words, const std::string& output = {});

  // An empty node with one GPU of this model, for everything that is started.
  Result<void> clean_node(const std::string& gpu_model);
  // A gateway, a supervisor with this command, and plan.json applied: once so many workers are
  // ready, url() is where they serve.
  Result<void> begin_serving(int port, const std::string& worker, std::size_t workers);
  Result<void> until_ready(std::size_t workers);
  // Whoever waits for processes to be there waits as long as they get on: use time of a processor.
  struct Progress {
    std::int64_t until = 0;  // without any more of it
    std::string seen = {};
  };
  Progress begin_progress() const;
  bool goes_on(Progress& progress, const std::vector<Pid>& processes) const;
  const std::string& url() const { return url_; }
  Exit end(bool held);

  Context& context_;

 private:
  Words shortened(Words words) const;
  Result<std::string> listening_at();

  std::string name_, shown_;
  std::filesystem::path folder_;
  int step_ = 0;
  std::string url_;
  std::optional<Child> gateway_, workers_;
};

}  // namespace partita::cli
