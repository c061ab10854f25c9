// The page of `gpueta report MODEL`: where a model's time goes, and what it
// would be elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/device/spec.h"
#include "core/ops/kernel.h"
#include "core/predict/estimate.h"
#include "core/predict/timeline.h"

namespace gpueta::report {

struct ModelOnDevice {
  std::string device;
  DeviceSpec spec;
  std::string profile;  // id; empty: none of its own
  GraphEstimate estimate;
  std::vector<Kernel> kernels;  // of every node of its graph; empty where that is not known
  Timeline timeline;            // of these kernels
};

// The model at another batch or on another device.
struct WhatIf {
  std::string device;
  std::int64_t batch = 0;  // 0: the model has no such symbol
  Quantiles latency_us;
  bool fits = true;  // into the device's memory, as far as it is known
};

struct ModelReport {
  std::string model;
  std::vector<std::string> facts;      // what was asked and done to the model, a paragraph each
  std::vector<ModelOnDevice> devices;  // in detail; at least one
  std::int64_t batch = 0;              // that was asked about
  std::vector<WhatIf> what_if;
};

std::string RenderModelReport(const ModelReport& report);

}  // namespace gpueta::report
