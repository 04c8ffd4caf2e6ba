// SharedLibrary: a library that is loaded at run time, and its functions by name.
// Thread rule: any thread.
#pragma once

#include <dlfcn.h>

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

namespace partita {

class SharedLibrary {
 public:
  // What a name stands for: converts to any function; null where the library has no such name.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address_);
    }
    bool there() const { return address_ != nullptr; }

   private:
    void* address_;
  };

  // The first of the files that loads; else why the first of them does not. `stays`: it is not
  // unloaded with this, since threads of its own may run on.
  static tl::expected<SharedLibrary, std::string> open(const std::vector<std::string>& files,
                                                       bool stays = false);
  const std::string& file() const { return file_; }  // which it is

  // The first of the names that it has.
  template <class... Names>
  Symbol find(Names... names) const {
    void* found = nullptr;
    ((found = found != nullptr ? found : ::dlsym(handle_.get(), names)), ...);
    return Symbol(found);
  }

  // Finds functions that all have to be there; the first that is missing is remembered.
  struct Finder {
    const SharedLibrary& library;
    const char* missing = nullptr;
    Symbol operator()(const char* name) {
      const Symbol found = library.find(name);
      if (!found.there() && missing == nullptr) missing = name;
      return found;
    }
  };

 private:
  struct Unload {
    void operator()(void* handle) const { ::dlclose(handle); }
  };
  SharedLibrary(void* handle, std::string file) : handle_(handle), file_(std::move(file)) {}

  std::unique_ptr<void, Unload> handle_;
  std::string file_;
};

}  // namespace partita
