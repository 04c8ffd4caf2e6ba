#include "context.h"

#include <cerrno>
#include <cstring>

#include "base/input_output.h"
#include "base/secret_file.h"
#include "command.h"
#include "decide/reasons.h"
#include "forms/reason_forms.h"

namespace partita::cli {
namespace {

// A progress line makes room for what is said.
void make_room(Context& context) {
  if (!context.progress_shown) return;
  std::fputs("\r\033[2K", context.err);
  std::fflush(context.err);
  context.progress_shown = false;
}

void put_error(Context& context, std::string_view text) {
  make_room(context);
  // Who reads it may be gone; that is for others to notice.
  std::fputs(shown(text).c_str(), context.err);
}

}  // namespace

Exit exit_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::infeasible:
      return Exit::no;
    case ErrorCode::bad_input:
      return Exit::bad_input;
    default:
      return Exit::environment;
  }
}

Command group_of(CLI::App* app, std::vector<Command> commands) {
  app->require_subcommand(1);
  return {app, [commands = std::move(commands)](Context& context) -> Result<Exit> {
            for (const Command& command : commands)
              if (command.app->parsed()) return command.run(context);
            return bad_input("", "which of its commands?");
          }};
}

void add_output(CLI::App& command, Output& output, const std::vector<std::string>& formats) {
  output.format = formats.front();
  one_of(command.add_option("--format", output.format,
                            "Form of the result: text is for people, json for programs"),
         formats)
      ->default_str(output.format);
  add_output_file(command, output.file);
}

void add_output_file(CLI::App& command, std::string& file) {
  command
      .add_option_function<std::string>(
          "-o,--output",
          [&file](const std::string& path) { file = path == "-" ? std::string{} : path; },
          "Write the result to FILE (atomically: never a partly written file)")
      ->type_name("FILE")
      ->check([](const std::string& path) {
        return path.empty() ? std::string("give a file name") : std::string{};
      });
}

Result<void> deliver(Context& context, const Output& output, std::string_view content) {
  std::string text;
  if (output.format == "text")
    content = text = shown(content, Painter(context.colour && output.file.empty()));
  if (!output.file.empty()) {
    if (output.format == "text" && output.file.ends_with(".json"))
      complain(context, output.file + " holds text for people; --format json is for programs");
    return write_output(output.file, content);
  }
  make_room(context);
  errno = 0;
  const std::size_t written = std::fwrite(content.data(), 1, content.size(), context.out);
  if (written != content.size() || std::fflush(context.out) != 0)
    return environment_error("standard output", std::strerror(errno));
  return {};
}

Result<Exit> finish(Context& context, const Output& output, std::string_view content, Exit exit) {
  const auto written = deliver(context, output, content);
  return written ? Result<Exit>(exit) : failed(written.error());
}

void complain(Context& context, std::string_view message) {
  note(context, fmt::format("partita: {}\n", message));
}

void say(Context& context, std::string_view text) {
  make_room(context);
  std::fputs(shown(text, Painter(context.colour)).c_str(), context.out);
  std::fflush(context.out);
}

void note(Context& context, std::string_view text) {
  if (!context.quiet) put_error(context, text);
}

void refusal(Context& context, std::string_view message) {
  put_error(context, fmt::format("partita: {}\n", message));
}

Result<std::string> read_secret(Context& context, const std::string& flag,
                                const std::string& file) {
  TRY(check_secret_file(file));
  const std::string text = TRY(read_input(context.files, flag, file));
  return text.substr(0, text.find_first_of("\r\n"));
}

Result<Exit> refuse(Context& context, const Output& output, const std::string& thing,
                    const std::vector<plan::Reason>& reasons) {
  const std::string headline = plan::proven(reasons) ? fmt::format("no such {} exists:", thing)
                                                     : fmt::format("no such {} was found:", thing);
  complain(context, decide::reasons_text(headline, reasons));
  if (output.json()) {
    auto written = deliver(context, {}, forms::refusal_json(reasons));
    if (!written) return failed(written.error());
  }
  return Exit::no;
}

Result<Exit> say_verdict(Context& context, const Output& output, const std::string& file,
                         const std::string& ok, const std::vector<plan::Reason>& violations) {
  std::string content = ok;
  if (output.json())
    content = forms::verdict_json(violations);
  else if (!violations.empty())
    content = decide::reasons_text(fmt::format("{}: {} violations:", file, violations.size()),
                                   violations) +
              "\n";
  return finish(context, output, content, violations.empty() ? Exit::done : Exit::no);
}

}  // namespace partita::cli
