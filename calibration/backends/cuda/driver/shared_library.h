// Libraries that are opened when they are needed, if they are there.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace gpueta {

// A library in memory. It stays there until the process ends: NVIDIA's libraries
// keep threads and do not like to be unloaded.
class SharedLibrary {
 public:
  // The first of `names` that the dynamic linker finds. FAILED_PRECONDITION with
  // the linker's words otherwise.
  static absl::StatusOr<SharedLibrary> Open(std::initializer_list<const char*> names);

  const std::string& name() const { return name_; }
  // nullptr where the library has no such symbol.
  void* Find(const char* symbol) const;

  // Sets `function` to the symbol, and `missing` to its name where there is none.
  template <class Function>
  void Load(Function*& function, const char* symbol, std::string& missing) const {
    function = reinterpret_cast<Function*>(Find(symbol));
    if (function == nullptr) missing = symbol;
  }

 private:
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace gpueta
