// Profiles for tests: made in code, no measurement behind them.
#pragma once

#include <string>

#include "core/device/catalogue.h"
#include "core/ops/forms.h"
#include "core/profile/profile.h"

namespace gpueta::testing {

// One table with the family's starting parameters, a hull around common
// shapes, and one label of its own besides "*".
inline Table MakeTestTable(const TableKey& key, const std::string& label = "") {
  Table table;
  table.key = key;
  table.rows = 100;
  Variant any{.label = "*", .theta = {}, .rows = 100};
  for (const ParamSpec& param : FormInfoOf(key.op, key.phase).params)
    any.theta.push_back(static_cast<float>(param.start));
  table.variants.push_back(any);
  if (!label.empty()) {
    any.label = label;
    table.variants.push_back(any);
  }
  for (int d = 0; d < DimNamesOf(key.op).size; ++d) {
    table.dim_min.push_back(0);
    table.dim_max.push_back(65536);
  }
  table.floor_us = 2;
  table.cv_mape = 0.08F;
  return table;
}

// A class profile with bf16 tables of gemm, vector and attention in `graph`
// timing. `scale` > 1 makes it slower, so that profiles of different devices
// differ.
inline Profile MakeTestProfile(const std::string& slug, float scale = 1) {
  Profile profile;
  profile.device = slug;
  profile.spec = Catalogue::BuiltIn().Get(slug).value_or(
      DeviceSpec{.slug = slug, .sm_count = 4, .mem_bandwidth_gb_s = 50, .fp32_tflops = 0.5});
  using enum DType;
  profile.tables.push_back(MakeTestTable({.op = Op::kGemm, .dtype = kBf16, .timing = Timing::kGraph}, "gemm"));
  profile.tables.push_back(MakeTestTable({.op = Op::kAttention,
                                          .phase = Attention::Phase::kPrefill,
                                          .dtype = kBf16,
                                          .kv_dtype = kBf16,
                                          .timing = Timing::kGraph}));
  profile.tables.push_back(MakeTestTable({.op = Op::kVector, .dtype = kBf16, .timing = Timing::kGraph}, "add/2"));
  for (Table& table : profile.tables) {
    for (Variant& variant : table.variants) variant.theta[0] *= scale;
  }
  profile.sources = {{"test", 300}};
  profile.created_unix_s = 1700000000;
  return profile;
}

}  // namespace gpueta::testing
