// What takes memory bandwidth away while a kernel is measured.
#pragma once

#include <string>

namespace gpueta {

// Runs until it is destroyed.
class Contention {
 public:
  virtual ~Contention() = default;
  // What kept it from contending, in words; empty if nothing did.
  virtual std::string Disturbance() const = 0;
};

}  // namespace gpueta
