#include "server/testing/test_profile.h"

#include <algorithm>
#include <random>

#include "core/device/catalogue.h"
#include "core/ops/forms.h"

namespace gpueta::testing_util {
namespace {

// Smallest and largest shape of an op's hull.
struct Hull {
  std::vector<double> low;
  std::vector<double> high;
};

Hull HullOf(Op op, Attention::Phase phase) {
  const bool decode = phase == Attention::Phase::kDecode;
  switch (op) {
    case Op::kGemm: return {{1, 1, 16, 16}, {64, 16384, 16384, 16384}};
    case Op::kConv2d:
      return {{1, 1, 7, 7, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0},
              {64, 2048, 224, 224, 2048, 7, 7, 2, 2, 3, 3, 512, 1, 1, 0, 0}};
    case Op::kAttention:
      return {{1, 1, 1, 1, 1, 64, 0}, {64, decode ? 1.0 : 8192.0, 16384, 64, 64, 128, decode ? 0.0 : 1.0}};
    case Op::kMoe: return {{1, 1024, 512, 1, 8, 1, 1}, {8192, 8192, 16384, 8, 256, 8, 8}};
    case Op::kVector: return {{1, 1, 1}, {65536, 16384, 3}};
    case Op::kCollective: return {{1024, 2}, {1 << 30, 8}};
    case Op::kCustom: break;
  }
  return {{0, 0}, {1e12, 1e10}};
}

std::vector<std::string> LabelsOf(Op op) {
  switch (op) {
    case Op::kGemm: return {"*", "linear"};
    case Op::kVector: return {"*", "add/2", "softmax/1", "layernorm/1"};
    case Op::kCollective: return {"*", "all_reduce/8"};
    default: return {"*"};
  }
}

Table MakeTable(Op op, Attention::Phase phase, DType dtype, double factor) {
  Table table;
  table.key = {.op = op, .phase = phase, .dtype = dtype, .timing = Timing::kKernel};
  if (op == Op::kAttention) table.key.kv_dtype = dtype;
  if (op == Op::kCollective) table.key.backend = "nccl-tests";
  table.rows = 1000;
  for (const std::string& label : LabelsOf(op)) {
    Variant variant{.label = label, .theta = {}, .rows = 500};
    for (const ParamSpec& param : FormInfoOf(op, phase).params) {
      variant.theta.push_back(static_cast<float>(std::clamp(param.start * factor, param.low, param.high)));
    }
    table.variants.push_back(std::move(variant));
  }
  Hull hull = HullOf(op, phase);
  table.dim_min = std::move(hull.low);
  table.dim_max = std::move(hull.high);
  table.floor_us = 2;
  table.cv_mape = 0.1F;
  return table;
}

}  // namespace

Profile MakeTestProfile(std::string_view slug, int variation) {
  Profile profile;
  profile.device = slug;
  if (const CatalogueEntry* known = Catalogue::BuiltIn().Find(slug)) {
    profile.spec = known->spec;
  } else {
    profile.spec = {.slug = profile.device,
                    .architecture = "CPU",
                    .sm_count = 8,
                    .mem_bandwidth_gb_s = 50,
                    .l2_mb = 32,
                    .fp32_tflops = 0.5};
  }
  profile.labels = {{"driver", "test"}};
  profile.sources = {{"made by hand", 1000}};
  profile.created_unix_s = 1'700'000'000;
  // Slugs move the factor in steps that variations do not fill.
  const double of_slug = static_cast<double>(LabelHash(slug) % 100) * 1e-3;
  const double factor = 1 + of_slug + variation * 1e-6;
  for (const DType dtype : {DType::kFp32, DType::kBf16}) {
    for (const Op op : kAllOps) {
      profile.tables.push_back(MakeTable(op, Attention::Phase::kPrefill, dtype, factor));
      if (op == Op::kAttention) profile.tables.push_back(MakeTable(op, Attention::Phase::kDecode, dtype, factor));
    }
  }
  std::sort(profile.tables.begin(), profile.tables.end(), [](const Table& a, const Table& b) { return a.key < b.key; });
  return profile;
}

void AddTestResiduals(Profile& profile) {
  std::mt19937 random(0);
  std::uniform_real_distribution<float> small(-0.02F, 0.02F);
  for (Table& table : profile.tables) {
    const std::size_t inputs = FormInfoOf(table.key.op, table.key.phase).features.size() + table.variants.size();
    Residual& residual = table.residual;
    residual.hidden = {32, 32};  // as core/fit has it
    residual.feature_mean.assign(inputs, 8);
    residual.feature_scale.assign(inputs, 0.2F);
    std::size_t width = inputs;
    std::size_t weights = 0;
    for (const int hidden : residual.hidden) {
      weights += (width + 1) * static_cast<std::size_t>(hidden);
      width = static_cast<std::size_t>(hidden);
    }
    residual.weights.resize(weights + width + 1);
    for (float& weight : residual.weights) weight = small(random);
    residual.spread_weights.resize(width + 1);
    for (float& weight : residual.spread_weights) weight = small(random);
    residual.spread_weights.back() = 1;
  }
}

std::string MakeTestProfileFile(std::string_view slug, int variation) {
  return SerializeProfile(MakeTestProfile(slug, variation));
}

}  // namespace gpueta::testing_util
