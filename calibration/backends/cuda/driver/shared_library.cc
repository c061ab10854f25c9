#include "calibration/backends/cuda/driver/shared_library.h"

#include <dlfcn.h>

#include "core/base/errors.h"

namespace gpueta {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(std::initializer_list<const char*> names) {
  std::string why;
  for (const char* name : names) {
    SharedLibrary library;
    library.handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    library.name_ = name;
    if (library.handle_ != nullptr) return library;
    if (why.empty()) why = dlerror();
  }
  return FailedPrecondition("{}", why);
}

void* SharedLibrary::Find(const char* symbol) const { return dlsym(handle_, symbol); }

}  // namespace gpueta
