// One StreamPredict call.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>

#include "absl/status/status.h"

namespace gpueta::v1 {
class StreamPredictRequest;
class StreamPredictResponse;
}  // namespace gpueta::v1

namespace gpueta {

// Fills the empty answer to one item. `cancelled` says whether the caller went
// away. Called from changing threads, for several items of a stream at once.
using AnswerItem = std::function<void(const v1::StreamPredictRequest& item, const std::function<bool()>& cancelled,
                                      v1::StreamPredictResponse& answer)>;

// Reads items and writes their answers, in order, until the client half-closes
// or goes away. The next item is read while one is answered and the answer
// before it is written; no more are held, so a client that does not read its
// answers is not read from either.
// The call is finished with what `on_end` makes of its status; `on_done` is the
// last that is called. `answer` must outlive the call.
grpc::ServerBidiReactor<v1::StreamPredictRequest, v1::StreamPredictResponse>* StartStreamPredict(
    const AnswerItem& answer, std::function<grpc::Status(const absl::Status&)> on_end, std::function<void()> on_done);

}  // namespace gpueta
