// From the fields of a config to a model without open questions.
#pragma once

#include "absl/status/statusor.h"
#include "core/importers/huggingface/config.h"
#include "core/importers/huggingface/model.h"

namespace gpueta::huggingface {

// Missing fields take the class defaults of the family. A family that is not
// known is read by its field names, with a warning. INVALID_ARGUMENT naming the
// field for a value that makes no model, and for a class of the transformers
// library that is not understood.
absl::StatusOr<Model> Resolve(Config config);

}  // namespace gpueta::huggingface
