#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>

#include "base/error_code.h"
#include "base/form.h"
#include "functions.h"
#include "given_files.h"
#include "partita.h"

namespace partita::library {
namespace {

std::string error_json(const Error& error) {
  return write_form([&](Form& f) {
    f.told_object("error", [&](Form& of) {
      of.told("code", to_string(error.code));
      of.told("message", error.message);
      of.told("context", error.context);
    });
  });
}

Result<std::string> asked(const char* function, const char* options, const partita_file* files,
                          std::size_t count) {
  if (function == nullptr || options == nullptr || (files == nullptr && count > 0))
    return bad_input("", "a null pointer");
  std::map<std::string, std::string> given;
  for (std::size_t i = 0; i < count; ++i) {
    if (files[i].name == nullptr || files[i].text == nullptr)
      return bad_input("", "a file without name or text");
    given[files[i].name] = std::string(files[i].text, files[i].size);
  }
  GivenFiles door(std::move(given));
  return answer(door, function, options);
}

// Throws for want of memory alone: nothing else may come to strangers' stacks.
std::string call(const char* function, const char* options, const partita_file* files,
                 std::size_t count) {
  try {
    const Result<std::string> said = asked(function, options, files, count);
    return said ? "{\"answer\": " + *said + "}\n" : error_json(said.error());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return error_json({ErrorCode::environment, error.what(), ""});
  }
}

}  // namespace
}  // namespace partita::library

extern "C" const char* partita_version(void) { return PARTITA_VERSION; }

extern "C" char* partita_call(const char* function, const char* options,
                              const struct partita_file* files, size_t count) {
  try {
    const std::string text = partita::library::call(function, options, files, count);
    char* answer = static_cast<char*>(std::malloc(text.size() + 1));
    if (answer != nullptr) std::memcpy(answer, text.c_str(), text.size() + 1);
    return answer;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

extern "C" void partita_free(char* answer) { std::free(answer); }
