// Settings files: whatever the bytes, a refusal that names the line, or nothing but commands and
// options that there are.
#include <CLI/CLI.hpp>
#include <string_view>

#include "base/check.h"
#include "base/document.h"
#include "commands.h"
#include "settings.h"
#include "target.h"

FUZZ_TARGET(settings) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  static CLI::App app("", "partita");
  static const auto commands = {partita::cli::add_plan(app), partita::cli::add_batch(app),
                                partita::cli::add_status(app)};
  CHECK(commands.size() == 3);
  const auto document = partita::parse_document("fuzz.yaml", text);
  if (!document) return 0;
  const auto checked = partita::cli::check_settings(*document, app, true);
  if (!checked) {
    CHECK(checked.error().context.starts_with("fuzz.yaml:"));
    return 0;
  }
  for (const partita::Node::Member& member : document->root.members)
    CHECK(member.key == partita::cli::kAllCommands || member.key == "plan" ||
          member.key == "batch" || member.key == "status");
  return 0;
}
