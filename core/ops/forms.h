// The forms of all families behind one run-time interface.
#pragma once

#include <span>
#include <string_view>
#include <utility>

#include "core/ops/attention/attention_form.h"
#include "core/ops/collective/collective_form.h"
#include "core/ops/conv2d/conv2d_form.h"
#include "core/ops/custom/custom_form.h"
#include "core/ops/form.h"
#include "core/ops/gemm/gemm_form.h"
#include "core/ops/kernel.h"
#include "core/ops/moe/moe_form.h"
#include "core/ops/table_key.h"
#include "core/ops/vector/vector_form.h"

namespace gpueta {

// Calls visitor.operator()<Form>() with the form of the op.
template <class Visitor>
decltype(auto) VisitForm(Op op, Attention::Phase phase, Visitor&& visitor) {
  switch (op) {
    case Op::kGemm: return visitor.template operator()<GemmForm>();
    case Op::kConv2d: return visitor.template operator()<Conv2dForm>();
    case Op::kAttention:
      if (phase == Attention::Phase::kDecode) return visitor.template operator()<DecodeForm>();
      return visitor.template operator()<PrefillForm>();
    case Op::kMoe: return visitor.template operator()<MoeForm>();
    case Op::kVector: return visitor.template operator()<VectorForm>();
    case Op::kCollective: return visitor.template operator()<CollectiveForm>();
    case Op::kCustom: break;
  }
  return visitor.template operator()<CustomForm>();
}

struct FormInfo {
  std::span<const ParamSpec> params;
  std::span<const std::string_view> features;
};
FormInfo FormInfoOf(Op op, Attention::Phase phase);

inline constexpr int kMaxFeatures = 16;

// In double, for fitting. `dims` in the op's dim order; latency > 0 in µs.
double FormLatencyUs(Op op, Attention::Phase phase, const Machine<double>& machine, std::span<const double> theta,
                     std::span<const double> dims);
// Fills FormInfoOf(...).features.size() values.
void FormFeatures(Op op, Attention::Phase phase, const Machine<double>& machine, std::span<const double> dims,
                  std::span<double> features);

}  // namespace gpueta
