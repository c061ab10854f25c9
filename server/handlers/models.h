// The answers of PredictionService about models.
#pragma once

#include "absl/status/status.h"
#include "server/limits.h"
#include "server/models/model_registry.h"

namespace gpueta::v1 {
class RegisterModelRequest;
class GetModelRequest;
class ListModelsRequest;
class ListModelsResponse;
class Model;
}  // namespace gpueta::v1

namespace gpueta {

absl::Status RegisterModel(ModelRegistry& registry, const Limits& limits, const v1::RegisterModelRequest& request,
                           v1::Model& response);
absl::Status GetModel(const ModelTable& models, const v1::GetModelRequest& request, v1::Model& response);
absl::Status ListModels(const ModelTable& models, const v1::ListModelsRequest& request,
                        v1::ListModelsResponse& response);

}  // namespace gpueta
