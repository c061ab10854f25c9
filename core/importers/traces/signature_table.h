// The distinct signatures of a trace's calls.
#pragma once

#include <string>

#include "core/importers/traces/interner.h"
#include "core/importers/traces/trace.h"

namespace gpueta {

class SignatureTable {
 public:
  explicit SignatureTable(Trace& trace) : trace_(trace) {}

  // The number of the signature in Trace::signatures, added if it is new; the
  // call is counted.
  std::uint32_t Add(std::string name, std::vector<TraceArgument> arguments);

 private:
  Trace& trace_;
  Interner interner_;
  std::string float_type_ = "float";  // of the tensor seen last: lists do not say theirs
};

}  // namespace gpueta
