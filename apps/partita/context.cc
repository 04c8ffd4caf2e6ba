#include "context.h"

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "flags.h"

namespace partita::cli {

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

void add_output(CLI::App& command, Output& output, const std::vector<std::string>& formats) {
  output.format = formats.front();
  one_of(command.add_option("--format", output.format,
                            "Form of the result: text is for people, json is for programs"),
         formats)
      ->default_str(output.format);
  command
      .add_option("-o,--output", output.file,
                  "Write the result to FILE, atomically: old or new content, never a mix")
      ->type_name("FILE")
      ->check([](const std::string& path) {
        return path.empty() ? std::string("a file name is needed") : std::string{};
      });
}

Result<void> deliver(Context& context, const Output& output, std::string_view content) {
  if (!output.file.empty()) {
    if (output.format == "text" && output.file.ends_with(".json"))
      complain(context, output.file + " holds text for people; --format json is for programs");
    return context.files.write_atomic(output.file, content);
  }
  errno = 0;
  const std::size_t written = std::fwrite(content.data(), 1, content.size(), context.out);
  if (written != content.size() || std::fflush(context.out) != 0) {
    return environment_error("standard output", std::strerror(errno));
  }
  return {};
}

void complain(Context& context, std::string_view message) {
  // Who reads it may be gone; that is for others to notice.
  std::fputs(fmt::format("partita: {}\n", message).c_str(), context.err);
}

Result<std::string> read_input(Context& context, const std::string& flag, const std::string& path) {
  Result<std::string> text = context.files.read(path);
  if (text) return text;
  return bad_input(fmt::format("{} {}", flag, path), text.error().message);
}

void add_catalogue(CLI::App& command, std::string& directory) {
  command
      .add_option(
          "--catalogue", directory,
          "Read the GPU models from the JSON files of DIR instead of the built-in catalogue")
      ->type_name("DIR");
}

Result<hw::Catalogue> load_catalogue(Context& context, const std::string& directory) {
  if (directory.empty()) return hw::builtin_catalogue();
  const std::string where = "--catalogue " + directory;
  const Result<std::vector<std::string>> names = context.files.list(directory);
  if (!names) return bad_input(where, names.error().message);
  hw::Catalogue catalogue;
  for (const std::string& name : *names) {
    if (!name.ends_with(".json")) continue;
    const std::string path = directory + "/" + name;
    const Result<std::string> text = read_input(context, "--catalogue", path);
    if (!text) return failed(text.error());
    Result<hw::GpuModel> gpu = hw::parse_gpu_model(path, *text);
    if (!gpu) return failed(gpu.error());
    catalogue.gpus.push_back(std::move(*gpu));
  }
  if (catalogue.gpus.empty()) return bad_input(where, "there is no .json file in it");
  std::sort(catalogue.gpus.begin(), catalogue.gpus.end(),
            [](const hw::GpuModel& a, const hw::GpuModel& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      catalogue.gpus.begin(), catalogue.gpus.end(),
      [](const hw::GpuModel& a, const hw::GpuModel& b) { return a.name == b.name; });
  if (twice != catalogue.gpus.end()) {
    return bad_input(where, fmt::format("GPU model '{}' is there twice", twice->name));
  }
  return catalogue;
}

}  // namespace partita::cli
