#include "core/predict/block.h"

#include "core/predict/clones.h"

namespace gpueta {
namespace {

// `rows` rows of arrays whose columns lie `stride` apart.
template <class Form, bool kWithFeatures, int kStride>
GPUETA_INLINE void FormRows(const Machine<float>& machine, const float* theta, int rows, const float (*dims)[kStride],
                            float* us, float* limit_us, float (*features)[kStride]) {
  const Machine<float> mc = machine;
  float p[Form::kParams.size()] = {};
  for (std::size_t i = 0; i < Form::kParams.size(); ++i) p[i] = theta[i];
#pragma GCC ivdep
  for (int row = 0; row < rows; ++row) {
    float d[Form::kDims] = {};
    for (int i = 0; i < Form::kDims; ++i) d[i] = dims[i][row];
    us[row] = Form::template LatencyUs<float>(mc, p, d);
    if constexpr (requires { Form::template LimitUs<float>(mc, p, d); }) {
      limit_us[row] = Form::template LimitUs<float>(mc, p, d);
    } else {
      limit_us[row] = 0;
    }
    if constexpr (kWithFeatures) {
      float f[Form::kFeatures.size()];
      Form::template Features<float>(mc, d, f);
      for (std::size_t i = 0; i < Form::kFeatures.size(); ++i) features[i][row] = f[i];
    }
  }
}

// One row fills the lanes of the narrowest vector: a loop of fixed length has
// no preparation, and logarithms of scalars move between registers of integers
// and of floats.
constexpr int kNarrow = 4;

template <class Form, bool kWithFeatures>
GPUETA_INLINE void Evaluate(const Machine<float>& machine, const float* theta, Block& block) {
  if (block.rows > 1) {
    FormRows<Form, kWithFeatures>(machine, theta, block.rows, block.dims, block.us, block.limit_us, block.features);
    return;
  }
  alignas(16) float dims[Form::kDims][kNarrow];
  alignas(16) float us[kNarrow];
  alignas(16) float limit_us[kNarrow];
  alignas(16) float features[Form::kFeatures.size()][kNarrow];
  for (int i = 0; i < Form::kDims; ++i) {
    const float dim = ReadAlone(block.dims[i][0]);
    for (float& lane : dims[i]) lane = dim;
  }
  FormRows<Form, kWithFeatures>(machine, theta, kNarrow, dims, us, limit_us, features);
  block.us[0] = us[0];
  block.limit_us[0] = limit_us[0];
  for (std::size_t i = 0; kWithFeatures && i < Form::kFeatures.size(); ++i) block.features[i][0] = features[i][0];
}

#define GPUETA_FORM_FUNCTIONS(Form)                                                                   \
  GPUETA_CLONES void Plain##Form(const Machine<float>& machine, const float* theta, Block& b) {       \
    Evaluate<Form, false>(machine, theta, b);                                                         \
  }                                                                                                   \
  GPUETA_CLONES void Full##Form(const Machine<float>& machine, const float* theta, Block& b) {        \
    Evaluate<Form, true>(machine, theta, b);                                                          \
  }                                                                                                   \
  void Run(const Form*, const Machine<float>& machine, const float* theta, bool features, Block& b) { \
    features ? Full##Form(machine, theta, b) : Plain##Form(machine, theta, b);                        \
  }

GPUETA_FORM_FUNCTIONS(GemmForm)
GPUETA_FORM_FUNCTIONS(Conv2dForm)
GPUETA_FORM_FUNCTIONS(PrefillForm)
GPUETA_FORM_FUNCTIONS(DecodeForm)
GPUETA_FORM_FUNCTIONS(MoeForm)
GPUETA_FORM_FUNCTIONS(VectorForm)
GPUETA_FORM_FUNCTIONS(CollectiveForm)
GPUETA_FORM_FUNCTIONS(CustomForm)

}  // namespace

void EvaluateForm(Op op, Attention::Phase phase, const Machine<float>& machine, const float* theta, bool with_features,
                  Block& block) {
  VisitForm(op, phase,
            [&]<class Form>() { Run(static_cast<const Form*>(nullptr), machine, theta, with_features, block); });
}

}  // namespace gpueta
