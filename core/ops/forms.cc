#include "core/ops/forms.h"

namespace gpueta {

FormInfo FormInfoOf(Op op, Attention::Phase phase) {
  return VisitForm(op, phase, []<class Form>() {
    static_assert(Form::kFeatures.size() <= kMaxFeatures);
    return FormInfo{Form::kParams, Form::kFeatures};
  });
}

double FormLatencyUs(Op op, Attention::Phase phase, const Machine<double>& machine, std::span<const double> theta,
                     std::span<const double> dims) {
  return VisitForm(op, phase,
                   [&]<class Form>() { return Form::template LatencyUs<double>(machine, theta.data(), dims.data()); });
}

void FormFeatures(Op op, Attention::Phase phase, const Machine<double>& machine, std::span<const double> dims,
                  std::span<double> features) {
  VisitForm(op, phase, [&]<class Form>() { Form::template Features<double>(machine, dims.data(), features.data()); });
}

}  // namespace gpueta
