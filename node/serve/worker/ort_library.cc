#include "serve/worker/ort_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>

#include "base/parse_number.h"

namespace partita::serve {
namespace {

constexpr const char* kFile = "libonnxruntime.so.1";

// The file that holds `symbol`, with links resolved by the loader as it found them.
std::string file_of(const void* symbol) {
  Dl_info info{};
  return ::dladdr(symbol, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "";
}

}  // namespace

std::vector<std::string> onnxruntime_places(const std::string& program) {
  const char* named = std::getenv("PARTITA_ONNXRUNTIME");
  if (named != nullptr && *named != '\0') return {named};
  std::vector<std::string> places;
  if (const std::size_t slash = program.rfind('/'); slash != std::string::npos) {
    const std::string folder = program.substr(0, slash);
    for (const char* below : {"/../onnxruntime/", "/onnxruntime/", "/../share/partita/onnxruntime/",
                              "/../lib/partita/"}) {
      places.push_back(folder + below + kFile);
    }
  }
  places.emplace_back(kFile);
  places.emplace_back("libonnxruntime.so");
  return places;
}

Result<OrtLibrary> OrtLibrary::load(const std::vector<std::string>& places) {
  void* handle = nullptr;
  std::string last;
  for (const std::string& place : places) {
    handle = ::dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle != nullptr) break;
    last = ::dlerror();
  }
  if (handle == nullptr) {
    return environment_error(
        places.size() == 1 ? "PARTITA_ONNXRUNTIME" : "onnxruntime",
        fmt::format("cannot load ONNX Runtime ({}); tools/get_onnxruntime gets it, "
                    "PARTITA_ONNXRUNTIME=FILE names another one",
                    last));
  }
  const auto base = reinterpret_cast<const ort::Base* (*)()>(::dlsym(handle, ort::kSymbol));
  OrtLibrary library;
  if (base == nullptr) return environment_error("onnxruntime", "this library is another one");
  library.path_ = file_of(reinterpret_cast<const void*>(base));
  library.version_ = base()->get_version();
  library.table_ = base()->get_api(ort::kTableVersion);
  if (library.table_ == nullptr) {
    return environment_error(library.path_, fmt::format("ONNX Runtime {} is too old; 1.{} or later "
                                                        "is needed",
                                                        library.version_, ort::kTableVersion));
  }
  library.takes_text_ = base()->get_api(ort::kTextVersion) != nullptr;
  return library;
}

Result<void> OrtLibrary::check(ort::Status* status, const std::string& context) const {
  if (status == nullptr) return {};
  const std::string message = call<ort::GetErrorMessage>(ort::Slot::get_error_message)(status);
  call<ort::Release<ort::Status>>(ort::Slot::release_status)(status);
  return environment_error(context, message);
}

Result<ModelFile> model_file_of(const std::string& path, const std::string& version,
                                const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return ModelFile{path, version.empty() ? "1" : version};
  std::string best = version;
  long highest = -1;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    const auto number = parse_number<long>(entry.path().filename().string());
    if (!version.empty() || !number || *number <= highest) continue;
    if (!fs::exists(entry.path() / name, ignored)) continue;
    highest = *number;
    best = entry.path().filename().string();
  }
  const fs::path file = fs::path(path) / best / name;
  if (best.empty() || !fs::exists(file, ignored))
    return failed({ErrorCode::not_found, "there is no VERSION/" + name + " in it", path});
  return ModelFile{file.string(), best};
}

}  // namespace partita::serve
